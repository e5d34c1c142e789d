"""Steps of graph breaks whose program no case can hold: torch alone breaks without the step, and not with it."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
import torch

GENERATOR = """\
def run(x):
    for factor in range(3):
        yield x * factor
"""
HANDLE = """\
handle = None
def keep(x):
    global handle
    handle = x.register_hook(lambda gradient: gradient)
    return x
"""
STEPS = {
    "GB0003": (
        GENERATOR,
        GENERATOR.replace("yield x * factor", "pass").rstrip() + "\n    return [x, x * 2]\n",
    ),
    "GB0101": (HANDLE, HANDLE.replace("    global handle\n", "")),
}


def broken_by(text: str) -> str:
    """The id of the break that torch raises for the function of a module of its own; empty where it compiles whole."""
    module: Any = ModuleType("kept")
    exec(compile(text, "kept.py", "exec"), module.__dict__)  # noqa: S102 - the programs of this file
    whole = module.run if "def run" in text else lambda x: module.keep(x * 2)
    torch.compiler.reset()
    try:
        torch.compile(whole, fullgraph=True, backend="eager")(torch.ones(2, requires_grad=True))
    except torch._dynamo.exc.Unsupported as error:
        match = re.search(r"gb(\d{4})", str(error))
        return f"GB{match[1]}" if match is not None else "unknown"
    return ""


@pytest.mark.parametrize("code", STEPS)
def test_a_step_removes_its_break(code: str) -> None:
    without, with_step = STEPS[code]
    if broken_by(without) == "unknown":
        pytest.skip("this torch names no id")
    assert (broken_by(without), broken_by(with_step)) == (code, "")

"""Hand-made reports. All files are under `ROOT`."""

from __future__ import annotations

import dataclasses
from typing import Any

from fuselight.shared.report import (
    Break,
    Call,
    Compile,
    Device,
    Inputs,
    Location,
    Outcome,
    Report,
    Rung,
    Symbol,
    TargetRef,
    Tier,
    Versions,
)

ROOT = "/project"
FILE = f"{ROOT}/model.py"
LIBRARY = "/env/lib/python3.11/site-packages/lib/layers.py"

VERSIONS = Versions(
    python="3.11.7",
    torch="2.13.0",
    triton=None,
    fuselight="0.1.0",
    platform="linux",
    executable="/env/bin/python",
)


def at(
    line: int, columns: tuple[int, int] | None = None, *, path: str = FILE, function: str | None = None
) -> Location:
    """A location on one line."""
    if columns is None:
        return Location(path, line, function=function)
    return Location(path, line, columns[0], line, columns[1], function=function)


def report(**parts: Any) -> Report:
    """A report of `Net` on line 10 with one directive on line 9."""
    inputs = Inputs(rung=Rung.DIRECTIVE, path=FILE, line=9, calls=(Call(0, "Net()(f32[4, 8])", at(9)),))
    base = Report(
        versions=VERSIONS,
        target=TargetRef(path=FILE, name="Net", line=10, kind="module"),
        tier=Tier.CAPTURE,
        generation=1,
        inputs=inputs,
        roots=(ROOT,),
    )
    return dataclasses.replace(base, **parts)


def broken(*stack: Location, gb: str = "GB0170", compile_id: str = "0/0", **changes: Any) -> Break:
    """A break at the end of `stack`."""
    base = Break(
        compile_id=compile_id,
        ids=(gb,),
        types=("Data-dependent branching",),
        stack=stack,
        reason="Data-dependent branching",
        explanation="Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`).",
        hints=("Use `torch.cond` to express dynamic control flow.",),
        frame_function="Net.forward",
        frame_line=20,
        call=0,
    )
    return dataclasses.replace(base, **changes)


def with_a_fixed_size(*stack: Location) -> Compile:
    """A compile with a size that the end of `stack` fixed to 4."""
    fixed = Symbol("s0", "x.size(0)", specialized_to="4", stack=stack)
    return Compile("0/0", 0, Outcome.COMPILED, symbols=(fixed,))


H100 = Device("h100-sxm", "H100", "cuda", "9.0", 132, bandwidth_gbs=3350)
"""A GPU to generate kernels for."""

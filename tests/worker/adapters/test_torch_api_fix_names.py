"""The contract with torch for what fixes write: each name is in the torch that is installed, and an operator runs."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest
import torch

from fuselight.shared.version import release
from fuselight_server.fixes.rewrites.torch_names import NAMES
from tests.support.offered_remedies import offered

pytestmark = pytest.mark.torch

HELPER = """\
import numpy as np
import torch


def spans(x: torch.Tensor, size: list[int], share: float = 0.5, rows: int | None = None):
    mask = np.zeros((size[0], size[1]), dtype=bool)
    mask[0, int(np.random.rand() * size[1])] = True
    return mask
"""


def has(name: str) -> bool:
    """Whether torch has a name: `torch.a.b`, or an argument as in `torch.a.b(c=...)`."""
    path, _, argument = name.removesuffix("=...)").partition("(")
    module, _, attribute = path.rpartition(".")
    value = getattr(importlib.import_module(module), attribute, None)
    return value is not None and (not argument or argument in inspect.signature(value).parameters)


@pytest.mark.parametrize("name", [name.name for name in NAMES])
def test_torch_has_each_name_that_a_fix_may_write(name: str) -> None:
    (known,) = [torch_name for torch_name in NAMES if torch_name.name == name]
    if release(torch.__version__) >= known.since:
        assert has(name)


@pytest.mark.parametrize(
    "name", ["torch._dynamo.config.no_such_setting", "torch.library.custom_op(absent=...)"]
)
def test_torch_lacks_what_it_lacks(name: str) -> None:
    assert not has(name)


def test_the_operator_of_a_helper_runs() -> None:
    """The whole text, as torch reads its types and its tag."""
    (remedy,) = [
        remedy for remedy in offered(HELPER, "np.random.rand()", "GB0033") if remedy.kind == "custom_op"
    ]
    scope: dict[str, Any] = {"__name__": "operator_of_a_helper"}
    exec(compile(remedy.texts["m.py"], "m.py", "exec"), scope)  # noqa: S102 - a text of this test
    np.random.seed(0)  # noqa: NPY002 - what the helper draws from
    mask = scope["spans"](torch.ones(2), [2, 3])
    assert (mask.shape, mask.dtype, mask.sum()) == ((2, 3), np.bool_, 1)
    assert torch.Tag.nondeterministic_seeded in torch.ops.m.spans.default.tags

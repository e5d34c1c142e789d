"""Further calls that compare a setting of torch, in compiled code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fuselight.shared.report import Aspect, CaseFamily
from tests.support.further_calls import SCALARS, HereAndNow, compared, differing, sides
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

DYNAMIC_SIZE = """\
# fuselight: f(f32[8, 3])
@torch.compile(dynamic=<None|True>)
def f(x):
    return x * (2 / (x.size(0) - 5))
"""
SETTINGS = {
    "a number that is captured has operations of an integer alone": (
        SCALARS + "# fuselight: f(i64[3] % 5)\ndef f(t):\n    return t + 11 % (t.max().item() ** 2 + 3)\n",
        (CaseFamily.DTYPE, "bool inputs: raises "),
    ),
    "a symbolic size divides by zero in an exception of torch": (
        DYNAMIC_SIZE,
        (CaseFamily.SIZE, "size 5 in place of 8: raises TorchRuntimeError: "),
    ),
}


@pytest.mark.parametrize("row", SETTINGS)
def test_a_setting_is_compared_in_compiled_calls(row: str, here: HereAndNow) -> None:
    text, (family, words) = SETTINGS[row]
    entries = differing(here.compared(*sides(text), {family}, settings=True))
    lines = [line for line in entries[family, Aspect.EXCEPTION].splitlines() if line.startswith(words)]
    assert lines
    assert family is CaseFamily.DTYPE or lines[0].endswith(", instead of ZeroDivisionError")


INNER_BACKWARD = """\
torch._dynamo.config.trace_autograd_ops = <False|True>

# fuselight: Step()(f32[4, 3], no_grad=False)
class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(3, 1)

    def forward(self, x):
        loss = self.map(x).square().mean()
        loss.backward()
        return loss.detach()
"""


@pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "trace_autograd_ops"), reason="this torch has no such setting"
)
def test_a_setting_that_leaves_out_hooks_of_parameters_is_seen(here: HereAndNow) -> None:
    families = {CaseFamily.HOOKS, CaseFamily.GRADIENTS}
    verification = here.compared(*sides(INNER_BACKWARD), families, "Step", settings=True)
    assert {family for family, _ in differing(verification)} == {CaseFamily.HOOKS}


def test_a_setting_that_changes_nothing_differs_nowhere(live: LiveWorker, tmp_path: Path) -> None:
    text = (
        "# fuselight: f(f32[8], 2)\n@torch.compile(dynamic=<None|True>)\ndef f(x, n):\n    if x.size(0) == 6:\n"
        "        raise ValueError('six')\n    return x * n\n"
    )
    verification = compared(live, tmp_path, *sides(text), settings=True)
    assert differing(verification) == {}
    names = {(comparison.values, comparison.compiled) for comparison in verification.comparisons}
    assert {("int64 inputs", True), ("argument 1 = 3", True), ("empty inputs", True)} <= names
    assert ("size 7 in place of 8", False) in names
    assert "size 6 in place of 8" in verification.not_accepted
    assert verification.not_reached == ()

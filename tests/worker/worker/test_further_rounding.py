"""What further calls take for rounding, and what for a difference."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fuselight.measure.accuracy.results import CallResults, Value
from fuselight.shared.report import Aspect, CaseFamily
from fuselight.worker.live.call_records import CallRecord
from fuselight.worker.verify.verification_cases import Case
from tests.support.further_calls import HereAndNow, differing, new_text

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("expression", "rounding"),
    [
        ("(x + 100 + x) - 100", [True]),
        ("((x + 100 + x) - 100) * 1.000001", [False]),
        ("((x + 100).float() + x) - 100", [False]),
    ],
)
def test_a_sum_in_another_order_is_rounding_if_float64_gives_the_same(
    expression: str, rounding: list[bool], here: HereAndNow
) -> None:
    old = "# fuselight: f(f32[64])\ndef f(x):\n    return x + x\n"
    new = (
        "# fuselight: f(f32[64])\ndef f(x):\n    if torch.compiler.is_compiling():\n"
        f"        return {expression}\n    return x + x\n"
    )
    verification = here.compared(old, new, {CaseFamily.SIZE})
    comparison = next(
        comparison
        for comparison in verification.comparisons
        if (comparison.values, comparison.compiled) == ("size 65 in place of 64", True)
    )
    assert [difference.rounding for difference in comparison.differences] == rounding


PROJECTED = """\
# fuselight: Net()(f32[2, 6, 8], train=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))
        self.all = nn.Linear(8, 24)
        self.faint = nn.Linear(8, 8)

    def heads(self, *rows):
        return (row.unflatten(-1, (2, 4)).transpose(1, 2) for row in rows)

    def forward(self, x):
        q, k, v = {}
        y = {}
        return self.o(y.transpose(1, 2).flatten(2)){}
"""
SEPARATE = "self.heads(self.q(x), self.k(x), self.v(x))"
TOGETHER = "self.heads(*self.all(x).chunk(3, -1))"
PLAIN = "(q @ k.mT / 2).softmax(-1) @ v"
SINGLE = "(q @ k.mT / 2).softmax(-1, dtype=torch.float32).to(q.dtype) @ v"
FUSED = "nn.functional.scaled_dot_product_attention(q, k, v)"
NORMALIZED = """\
# fuselight: Net()(f32[4, 3, 6, 6], train=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)

    def forward(self, x):
        y = self.conv(x)
        return {}
"""
CENTERED = (
    "(y - y.mean((0, 2, 3), keepdim=True)) / y.var((0, 2, 3), correction=0, keepdim=True).add(1e-5).sqrt()"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PROJECTED.format(SEPARATE, PLAIN, ""), PROJECTED.format(SEPARATE, FUSED, "")),
        (PROJECTED.format(SEPARATE, SINGLE, ""), PROJECTED.format(SEPARATE, FUSED, "")),
        (PROJECTED.format(TOGETHER, PLAIN, ""), PROJECTED.format(TOGETHER, FUSED, "")),
        (
            NORMALIZED.format(CENTERED),
            NORMALIZED.format("nn.functional.batch_norm(y, None, None, training=True)"),
        ),
        (
            PROJECTED.format(SEPARATE, PLAIN, " + self.faint(x) * 1e-8"),
            PROJECTED.format(SEPARATE, FUSED, " + self.faint(x * 1e-8) - self.faint.bias * (1 - 1e-8)"),
        ),
    ],
)
def test_a_gradient_that_is_zero_is_rounding(old: str, new: str, here: HereAndNow) -> None:
    verification = here.compared(old, new, {CaseFamily.MODE, CaseFamily.GRADIENTS}, "Net")
    assert differing(verification) == {}
    assert {row.compiled for row in verification.comparisons} == {False, True}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" + self.faint(x) * 1e-8", " + self.faint(x) * 2e-8"),
        (" + self.faint(x) * 1e-8", " - self.faint(x) * 1e-8"),
        (" + self.faint(x) * 1e-10", " + self.faint(x).detach() * 1e-10"),
        (" + self.faint(x).detach() * 1e-10", " + self.faint(x) * 1e-10"),
    ],
)
def test_a_wrong_gradient_that_is_small_is_found(old: str, new: str, here: HereAndNow) -> None:
    texts = PROJECTED.format(SEPARATE, PLAIN, old), PROJECTED.format(SEPARATE, FUSED, new)
    verification = here.compared(*texts, {CaseFamily.MODE, CaseFamily.GRADIENTS}, "Net")
    assert (CaseFamily.GRADIENTS, Aspect.GRADIENT) in differing(verification)


def test_a_second_gradient_of_zeros_in_place_of_none_is_no_difference(here: HereAndNow) -> None:
    text = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Linear(4, 4)\n\n    def forward(self, x):\n        x = self.layer(x)\n"
        "        {}\n        return x\n\n# fuselight: Net()(f32[2, 4])\nNet\n"
    )
    old = text.format("x = torch.relu(x) if x.mean() > 100 else x - 1")
    new = text.format("x = torch.where(x.mean() > 100, torch.relu(x), x - 1)")
    verification = here.compared(old, new, {CaseFamily.SECOND}, "Net")
    second = [
        comparison
        for comparison in verification.comparisons
        if comparison.family is CaseFamily.SECOND and not comparison.compiled
    ]
    assert [comparison.differences for comparison in second] == [()]


def test_a_compiled_call_alone_may_round_as_far_as_compiling_moves_the_old_text(tmp_path: Path) -> None:
    def record(*values: float) -> CallRecord:
        tensor = torch.tensor(values)
        return CallRecord(CallResults((Value("output", tensor, str(tensor.dtype), tuple(tensor.shape)),)))

    calls, result = new_text(tmp_path, record)
    case = Case("a", CaseFamily.SIZE)
    eager, compiled, new = record(1.0, 2.0), record(1.00001, 2.0), record(1.0, 2.00001)
    calls._add(case, new, [eager, compiled], compiled=True)
    calls._add(case, new, [eager, eager], compiled=True)
    calls._add(case, new, [eager], compiled=True)  # the old text was not compiled
    calls._add(case, new, [eager], compiled=False)
    roundings = [
        difference.rounding
        for comparison in result.so_far.comparisons
        for difference in comparison.differences
    ]
    assert roundings == [True, False, False, False]

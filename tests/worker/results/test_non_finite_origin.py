"""NaN and infinities: where the first of eager mode appears, from what, and whether compiled code has it, too."""

from __future__ import annotations

import pytest

from fuselight.shared.protocol import AccuracyRequest
from fuselight.shared.report import NonFinite, NonFiniteKind, NonFiniteOrigin
from tests.support.live_worker import LiveWorker

BODY = """\
import torch
def divided(x):
    length = x.square().sum(-1, keepdim=True).sqrt()
    return x / length  # divided
def logarithm(x, y):
    hidden = torch.where(x > 9, (x - 9).log(), y)  # hidden
    return hidden.exp() + (y - 4).log()  # logarithm
def gradient(x):
    return x.sqrt().sum()  # gradient
def masked(x):
    return x.masked_fill(x > 0, float("-inf"))
def overflowing(x):
    y = x * 300
    return (y * y) / 1000  # overflowing
def given(x):
    return x + 1
def removed(x):
    return x / x  # removed
def without_nan(gm, example):
    for node in gm.graph.nodes:
        if node.op == "call_function":
            with gm.graph.inserting_after(node):
                after = gm.graph.call_function(torch.nan_to_num, (node,))
            node.replace_all_uses_with(after, lambda user: user is not after)
            break
    gm.recompile()
    return gm.forward
if __name__ == "__main__":
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    calls = [
        (divided, rows), (logarithm, torch.ones(3), torch.tensor([1.0, 5.0, 6.0])),
        (gradient, torch.tensor([0.0, 1.0], requires_grad=True)), (masked, torch.ones(3)),
        (overflowing, torch.ones(3).half()), (given, torch.tensor([1.0, float("nan")])),
    ]
    for function, *inputs in calls:
        torch.compile(function, backend="aot_eager")(*inputs)
    torch.compile(removed, backend=without_nan)(torch.tensor([0.0, 1.0]))
"""


@pytest.fixture(scope="module")
def values(live: LiveWorker) -> dict[str, tuple[NonFinite, ...]]:
    report = live.report(live.request(BODY, "").of_kind(AccuracyRequest))
    assert report.failures == ()
    assert report.results is not None
    return {call.name: call.non_finite for call in report.results.calls}


def marked(origin: NonFiniteOrigin) -> str:
    """The mark of the line where it appears."""
    return BODY.splitlines()[origin.stack[-1].line - 1].rpartition("# ")[2]


@pytest.mark.parametrize(
    ("name", "kind", "operator", "origin"),
    [
        ("divided", NonFiniteKind.NAN, "div", ("0, 0", "input 0")),
        ("logarithm", NonFiniteKind.NAN, "log", ("-3", "input 1")),
        ("gradient", NonFiniteKind.INFINITY, "div", ("", "input 0")),
        ("overflowing", NonFiniteKind.INFINITY, "mul", ("300, 300", "input 0")),
        ("removed", NonFiniteKind.NAN, "div", ("0, 0", "input 0")),
    ],
)
def test_the_first_is_on_its_line_with_what_it_comes_from(
    values: dict[str, tuple[NonFinite, ...]],
    name: str,
    kind: NonFiniteKind,
    operator: str,
    origin: tuple[str, str],
) -> None:
    value = next(value for value in values[name] if value.kind is kind)
    assert value.origin is not None
    assert (marked(value.origin), value.origin.operator) == (name, operator)
    operands, given = origin
    assert value.origin.operands == operands or not operands
    assert value.origin.inputs == (given,)


def test_each_mode_is_counted(values: dict[str, tuple[NonFinite, ...]]) -> None:
    counts = {
        name: [(value.what, value.eager, value.compiled, value.float64) for value in kept]
        for name, kept in values.items()
    }
    assert counts["divided"] == [("output", 2, 2, 2)]
    assert counts["gradient"] == [("gradient of input 0", 1, 1, 1)]
    assert counts["overflowing"] == [("output", 3, 3, 0)]
    assert counts["removed"] == [("output", 1, 0, 1)]


def test_what_the_program_gives_or_writes_itself_has_no_line(
    values: dict[str, tuple[NonFinite, ...]],
) -> None:
    assert values["masked"] == ()
    (value,) = values["given"]
    assert value.origin == NonFiniteOrigin((), "", "", ("input 0",))

"""The line of the user's that changes a guarded value, and the calls around a recompilation."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Compile, Frame, Graph, Outcome, Symbol
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.recompilations import WHOLE, again, failed
from tests.support.reports import LIBRARY, at, report

LR = "self.param_groups[0]['lr']"
BETA = "self.param_groups[0]['betas'][0]"
COSINE = "plan = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 9)\nplan.step()\nadam.step()"
CYCLE = "from torch.optim.lr_scheduler import OneCycleLR as Cycle, OneCycleLR\nplan = OneCycleLR(adam)\nplan.step()"

ROUND = (
    "class Round(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.bits = 8"
)
TWO_CLASSES = (
    "class Net(nn.Module):\n    def grow(self):\n        self.bits = 2\n"
    "class Table({base}):\n    def fill(self):\n        self.bits = 3"
)


def recompilation_of(source: str, text: str, library: str = LIBRARY) -> Finding:
    """The recompilation for `source`, which a library reads, in a program with a text."""
    failure = failed(f"{source} was 0.5, now 0.25", source=source, born=(at(9, path=library),))
    lines = ["", *text.split("\n")]
    caller = (at(90, function="train"), at(91, function="step"))
    (finding,) = findings(
        report(recompiles=(again(failure, location=at(7, path=library), caller=caller),)),
        read_line=lambda _path, line: lines[line] if line < len(lines) else None,
    )
    return finding


@pytest.mark.parametrize(
    ("source", "text", "line", "message"),
    [
        (LR, COSINE, 2, "a scheduler sets it here"),
        (BETA, COSINE, None, ""),
        (BETA, CYCLE, 3, "a scheduler sets it here"),
        (LR, "for group in adam.param_groups:\n    group['lr'] *= 0.5", 2, "it is assigned here"),
        (LR, "group['lr'] = 1\nother['lr'] = 2", None, ""),
        ("self.scale", "def __init__(self):\n    self.scale = 1\nlayer.scale, n = 2, 3", 3, "it is assigned here"),
        ("self.scale", "def __init__(self):\n    self.scale = 1", None, ""),
        ("self.scale", "self.other = 2", None, ""),
        ("self.scale", "not python (", None, ""),
        ("n", "n = 2", None, ""),
        ("self.bits", ROUND, None, ""),
        ("self.bits", TWO_CLASSES.format(base="object"), 3, "it is assigned here"),
        ("self.bits", TWO_CLASSES.format(base="Net"), None, ""),
    ],
)  # fmt: skip
def test_the_only_line_that_writes_a_value_is_named(
    source: str, text: str, line: int | None, message: str
) -> None:
    known = ("triggered", "a read", "`Net.forward`")
    written = [
        related_place
        for related_place in recompilation_of(source, text).related
        if not related_place.message.startswith(known)
    ]
    assert [(related_place.span.line, related_place.message) for related_place in written] == (
        [(line, message)] if line else []
    )


def test_the_call_of_the_line_is_named_where_the_line_itself_calls_the_library() -> None:
    finding = recompilation_of("self.scale", "")
    assert finding.span.line == 91
    assert [item.span.line for item in finding.related if item.message == "triggered by this call"] == [90]


@pytest.mark.parametrize("is_input", [True, False])
def test_a_float_that_torch_made_a_tensor_needs_no_further_compile(*, is_input: bool) -> None:
    inputs = ("l_x_: f32[4]", *(["l_n_: f64[]"] if is_input else []))
    compiles = (
        Compile("0/0", 0, Outcome.COMPILED),
        Compile("0/1", 0, Outcome.COMPILED, graph=Graph(3, inputs=inputs), symbols=(Symbol("zf0", "n"),)),
    )
    failure = failed("n was 0.5, now 0.25", source="n")
    (finding,) = findings(
        report(
            frames=(Frame(WHOLE.function, WHOLE.location),), compiles=compiles, recompiles=(again(failure),)
        )
    )
    assert ("torch then made `n` dynamic" in finding.message) == is_input


def test_a_float_that_a_result_fixes_is_not_dynamic() -> None:
    compiles = tuple(
        Compile(
            f"0/{number}",
            0,
            Outcome.COMPILED,
            graph=Graph(3, inputs=("l_n_: f64[]",)),
            symbols=(Symbol("zf0", "n"),),
        )
        for number in range(3)
    )
    first = again(failed("n was 0.5, now 0.25", source="n"))
    second = again(failed("1.0 + n was 1.25, now 1.2", source="n"), compile_id="0/2")
    frames = (Frame(WHOLE.function, WHOLE.location),)
    for recompiles, is_dynamic in (((first,), True), ((first, second), False)):
        (finding,) = findings(report(frames=frames, compiles=compiles, recompiles=recompiles))
        assert ("torch then made" in finding.message) == is_dynamic


@pytest.mark.parametrize(
    ("text", "is_of_scheduler"),
    [("", True), (CYCLE, True), ("for group in adam.param_groups:\n    group['betas'] = 0.5, 0.9", False)],
)
def test_an_option_of_a_scheduler_is_no_advice_for_a_value_that_the_program_sets(
    text: str, *, is_of_scheduler: bool
) -> None:
    finding = recompilation_of(BETA, text, "/env/site-packages/torch/optim/adam.py")
    assert ("cycle_momentum" in finding.hints[0]) is is_of_scheduler
    assert "step the optimizer outside the compiled code" in finding.hints[-1]

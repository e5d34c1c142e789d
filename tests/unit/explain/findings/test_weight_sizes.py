"""FL301 and FL302: what a weight or a layer of torch's fixes cannot vary, and nothing asks to make it dynamic."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fuselight.shared.report import (
    Compile,
    Culprit,
    Fact,
    FactKind,
    Failure,
    FileFacts,
    Frame,
    Location,
    Outcome,
    Symbol,
    TracedFacts,
    TracedValue,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from tests.support.recompilations import DEF
from tests.support.reports import FILE, at, report

SHAPES = {
    "x": "f32[4, 8]",
    "weight": "f32[16, 8]",
    "table": "f32[8, 3]",
    "self.weight": "f32[16, 8]",
    "self.scale": "f32[8]",
    "self.positions": "f32[4, 8]",
    "self.state": "f32[8]",
    "self.net(x)": "f32[4, 8]",
    "self.head(x)": "f32[8, 3]",
}
LIBRARY = "/lib/python/site-packages/torch/nn/modules"


def findings_of(
    statement: str,
    *,
    layer: str = "",
    dimension: int = 1,
    value: str = "8",
    source: str = "",
    marked: bool = False,
    is_default: bool = False,
    shapes: Mapping[str, str] = SHAPES,
) -> tuple[Finding, ...]:
    """The findings of a size of `x` that the statement fixed; `marked`: it was marked, which is an error then."""
    text = f"        {statement}\n"
    lines = {DEF.line: "    def forward(self, x, weight):\n", DEF.line + 1: text}
    facts = tuple(
        Fact(DEF.line + 1, start, DEF.line + 1, start + len(name), ((index, 1), (index + len(SHAPES), 1)))
        for index, name in enumerate(SHAPES)
        if (start := text.find(name)) >= 0 and text[start - 1] in " (,"
    )
    values = tuple(TracedValue(FactKind.TENSOR, of[name]) for of in (shapes, SHAPES) for name in SHAPES)
    stack = [at(DEF.line + 1, (8, len(text) - 1), function="forward")]
    stack += [Location(f"{LIBRARY}/{layer}.py", 134, function="forward")] if layer else []
    symbol = Symbol(
        *("s0", source or f"x.size({dimension})"),
        specialized_to=value,
        marked=True,
        stack=tuple(stack),
        is_default=is_default,
    )
    error = Failure(
        Culprit.USER,
        "call",
        "marked x.size(1)",
        exception="ConstraintViolationError",
        call=0,
        stack=(at(21),),
    )
    given = report(
        frames=(Frame("Net.forward", DEF, parameters=("self", "x", "weight")),),
        compiles=(Compile("0/0", 0, Outcome.FAILED, call=0, symbols=(symbol,)),),
        facts=TracedFacts(values=values, files={FILE: FileFacts(facts=facts)}),
        failures=(error,) if marked else (),
    )
    return findings(given, read_line=lambda _path, number: lines.get(number))


@pytest.mark.parametrize(
    ("statement", "layer", "who"),
    [
        ("return self.linear(x)", "linear", "the layer on this line takes only size 8"),
        ("return self.norm(x)", "normalization", "the layer on this line takes only size 8"),
        ("return self.attention(x, x, x)", "activation", "the layer on this line takes only size 8"),
        ("return F.linear(x, self.weight)", "", "`self.weight` has size 8"),
        ("return x @ self.weight.t()", "", "`self.weight` has size 8"),
        ("return torch.matmul(x, table)", "", "`table` has size 8"),
        ("return x * self.scale", "", "`self.scale` has size 8"),
    ],
)
def test_a_size_of_a_weight_is_no_finding_unless_it_was_marked(statement: str, layer: str, who: str) -> None:
    assert findings_of(statement, layer=layer) == ()
    (finding,) = findings_of(statement, layer=layer, marked=True)
    assert finding.hints == (f"Do not mark this dimension: {who}, so no other size can come",)


@pytest.mark.parametrize(
    ("statement", "layer", "dimension"),
    [
        ("return F.linear(x, weight)", "", 1),  # an argument: another call may pass another one
        ("return x + self.positions", "", 1),
        ("return x * self.scale", "", 0),
        ("return F.linear(x, self.weight) + self.state", "", 1),  # one of two
        ("return F.linear(x, self.weight).view(8, 2)", "", 1),
        ("return self.attention(x, x, x)", "activation", 0),
        ("return self.pool(x)", "pooling", 1),
    ],
)
def test_what_another_call_may_change_stays_a_finding(statement: str, layer: str, dimension: int) -> None:
    (finding,) = findings_of(statement, layer=layer, dimension=dimension)
    assert finding.code == "FL301"


def test_each_object_of_a_class_has_a_weight_of_its_size() -> None:
    wider = {**SHAPES, "x": "f32[4, 2, 16]", "self.scale": "f32[16]"}
    assert findings_of("return x * self.scale", shapes=wider) == ()


def test_an_argument_may_be_a_parameter_whose_sizes_stay_fixed() -> None:
    (finding,) = findings_of("return F.linear(x, weight)")
    assert "mark its size dynamic as well, unless it is an nn.Parameter" in finding.hints[0]


def test_a_number_of_a_layer_is_no_finding() -> None:
    eps = "self.norm.eps"
    assert findings_of("return self.norm(x)", layer="normalization", value="1e-05", source=eps) == ()
    (finding,) = findings_of("return x + self.norm.eps", value="1e-05", source=eps)
    assert finding.code == "FL302"


def test_a_number_is_a_note_and_a_default_is_no_finding() -> None:
    (finding,) = findings_of("return x * math.log(base)", value="8.0", source="base")
    assert (finding.code, finding.severity) == ("FL302", Severity.INFORMATION)
    assert "marked" not in f"{finding.title} {finding.message}"
    assert findings_of("return x * math.log(base)", value="8.0", source="base", is_default=True) == ()


@pytest.mark.parametrize(
    ("statement", "dimension", "is_reported"),
    [
        ("return self.net(x) - weight[0]", 1, False),  # the features of its result
        ("return weight[0] * self.net(x)", 1, False),
        ("return self.net(x) - weight[0]", 0, True),  # rows vary
        ("return self.head(x) - x", 1, True),  # another dimension of the result
        ("return self.net(x) - 8", 1, True),  # or the number
        ("return self.net(x) - self.state", 1, True),  # or the other tensor
        ("return net(x) - weight[0]", 1, True),
    ],
)
def test_the_result_of_a_layer_has_sizes_of_its_own(
    statement: str, dimension: int, *, is_reported: bool
) -> None:
    value = "4" if dimension == 0 else "8"
    told = [item for item in findings_of(statement, dimension=dimension, value=value) if item.code == "FL301"]
    assert bool(told) is is_reported

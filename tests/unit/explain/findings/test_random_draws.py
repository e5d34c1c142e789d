"""Graph breaks on random numbers of Python and NumPy: the expression is named, and drawn outside of compiled code."""

from __future__ import annotations

from typing import Any

import pytest

from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.reports import at, broken, report

DRAW = "Draw the number outside the compiled code"
WITH_TORCH = "Or draw it with torch"


def finding_of(statement: str, expression: str, **changes: Any) -> Finding:
    """The finding of a break on an expression of `forward`."""
    lines = {20: "def forward(self, x):\n", 21: f"    {statement}\n", 22: "    return x\n"}
    column = lines[21].index(expression)
    place = at(21, (column, column + len(expression)), function="forward")
    (finding,) = findings(
        report(breaks=(broken(place, hints=(), **changes),)),
        read_line=lambda _path, number: lines.get(number),
    )
    return finding


METHOD = "Dynamo does not know how to trace method `{}` of class `{}`."


@pytest.mark.parametrize(
    ("statement", "expression", "method", "with_torch"),
    [
        ("y = x * self.rng.normal(0, 1)", "self.rng.normal(0, 1)", "normal", True),
        ("y = x[: int(rng.integers(3))]", "rng.integers(3)", "integers", False),
    ],
)
def test_a_generator_of_numpy_draws_outside(
    statement: str, expression: str, method: str, *, with_torch: bool
) -> None:
    finding = finding_of(
        statement,
        expression,
        gb="GB0156",
        explanation=METHOD.format(method, "Generator"),
    )
    assert finding.hints[0].startswith(DRAW)
    assert any(hint.startswith(WITH_TORCH) for hint in finding.hints) is with_torch
    assert not any("Avoid calling" in hint for hint in finding.hints)


@pytest.mark.parametrize(
    ("statement", "expression", "text"),
    [
        ("y = x[rng.permutation(3)]", "rng.permutation(3)", METHOD.format("permutation", "Generator")),
        ("random.shuffle(order)", "random.shuffle(order)", "Dynamo does not trace `Random.shuffle`."),
        ("kept = random.sample(rows, 4)", "random.sample(rows, 4)", "Dynamo does not trace `Random.sample`."),
    ],
)
def test_an_order_is_drawn_as_a_tensor_to_index_with(statement: str, expression: str, text: str) -> None:
    gb = "GB0156" if "Generator" in text else "GB0007"
    finding = finding_of(
        statement, expression, gb=gb, explanation=text, types=("Marked as skipped",), reason=text
    )
    assert any("torch.randperm(n)" in hint for hint in finding.hints)
    assert not any(hint.startswith(DRAW) for hint in finding.hints)


def test_a_method_that_draws_nothing_keeps_the_hint_of_torch() -> None:
    finding = finding_of(
        "g.manual_seed(1)",
        "g.manual_seed(1)",
        gb="GB0156",
        explanation=METHOD.format("manual_seed", "Generator"),
    )
    assert not any(hint.startswith(DRAW) for hint in finding.hints)


@pytest.mark.parametrize(
    ("expression", "function", "step"),
    [
        (
            "np.random.default_rng(0)",
            "<cyfunction default_rng at 0x7fa5f7fb9fc0>",
            "Create the generator and draw",
        ),
        ("np.random.poisson(3)", "<built-in method RandomState.poisson of object at 0x7fa5f7fb9fc0>", DRAW),
        ("np.interp(x, p, q)", "<function interp at 0x7fa5f7fb9fc0>", "Compute it with functions of torch"),
        ("np.special(x)", "<ufunc object at 0x7fa5f7fb9fc0>", "Compute it with functions of torch"),
    ],
)
def test_the_function_of_numpy_has_its_name_in_the_code_and_no_address(
    expression: str, function: str, step: str
) -> None:
    finding = finding_of(
        f"y = {expression}",
        expression,
        gb="GB0294",
        explanation=f"Can't find numpy numpy function {function} in torch._numpy.",
    )
    assert f"torch has no counterpart of `{expression.partition('(')[0]}`" in finding.message
    assert "0x7f" not in finding.message
    assert finding.hints[0].startswith(step)


def test_an_address_is_not_shown_where_the_code_is_not_known() -> None:
    text = "Can't find numpy numpy function <cyfunction default_rng at 0x7fa5f7fb9fc0> in torch._numpy."
    (finding,) = findings(report(breaks=(broken(at(21), gb="GB0294", hints=(), explanation=text),)))
    assert "default_rng" in finding.message
    assert "0x7f" not in finding.message


OPERATOR = {
    "gb": "GB0213",
    "explanation": "Dynamo does not know how to trace builtin operator <built-in function add> with tensor arguments",
    "context": "partial tensor op: BuiltinVariable(add) [ConstantVariable(int: 1), UnspecializedPythonVariable()] {}",
}


def test_python_calculating_with_a_drawn_number_names_the_draw() -> None:
    finding = finding_of("y = x * (1 + self.dice.gauss(0, 1))", "1 + self.dice.gauss(0, 1)", **OPERATOR)
    assert finding.title == "graph break: Python calculates with the random number of `self.dice.gauss`"
    assert "tensor arguments" not in finding.message
    assert finding.hints[0].startswith(DRAW)


@pytest.mark.parametrize("expression", ["1 + self.offset", "1 + torch.rand(3).choice(x)"])
def test_an_operator_without_a_draw_keeps_its_words(expression: str) -> None:
    finding = finding_of(f"y = x * ({expression})", expression, **OPERATOR)
    assert "random number" not in finding.title
    assert not any(hint.startswith(DRAW) for hint in finding.hints)


@pytest.mark.parametrize(
    ("expression", "is_drawn"), [("np.random.normal(0, 1)", True), ("x.sum().item()", False)]
)
def test_a_value_that_numpy_draws_is_no_tensor_to_keep(expression: str, *, is_drawn: bool) -> None:
    finding = finding_of(
        f"y = x * {expression}",
        expression,
        gb="GB0033",
        explanation="Operator `aten._local_scalar_dense.default` has a non-Tensor output",
    )
    assert any(hint.startswith("Compute with the tensor") for hint in finding.hints) is not is_drawn
    assert any(hint.startswith(DRAW) for hint in finding.hints) is is_drawn


@pytest.mark.parametrize(
    ("drawing", "expression", "is_drawn"),
    [
        ("shift = random.randint(1, 7)", "torch.roll(x, shift, 1)", True),
        ("shift = len(x)", "torch.roll(x, shift, 1)", False),
        ("other = random.randint(1, 7)", "torch.roll(x, shift, 1)", False),
        ("shift = random.randint(1, 7)", "x[shift].item()", False),
    ],
)
def test_a_value_that_was_drawn_before_is_the_root_of_the_break(
    drawing: str, expression: str, *, is_drawn: bool
) -> None:
    lines = {20: "def forward(self, x, shift=1):\n", 21: f"    {drawing}\n", 22: f"    y = {expression}\n"}
    place = at(22, (8, 8 + len(expression)), function="forward")
    (finding,) = findings(
        report(breaks=(broken(place, gb="GB0033", hints=()),)),
        read_line=lambda _path, number: lines.get(number),
    )
    assert ("the random number of `random.randint`" in finding.title) is is_drawn
    assert finding.hints[0].startswith(DRAW) is is_drawn

"""What Python needs of a result whose shape depends on data, and the advice that follows.

Each row was tried with torch 2.13: `.tolist()` raises GuardOnDataDependentSymNode with captured shapes, loops and
branches break the graph again, and `.item()` needs both settings.
"""

from __future__ import annotations

import pytest

from fuselight.shared.report import Location
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.breaks.result_needs import NeedKind, need_of
from fuselight_server.explain.findings.common.context import Context
from tests.support.reports import FILE, broken, report

CAPTURE = "`torch._dynamo.config.capture_dynamic_output_shape_ops = True`"
SETTING = f"Enable tracing of dynamic shape operators with {CAPTURE}."
NUMBERS = "Set `torch._dynamo.config.capture_scalar_outputs = True` to include these operations in the captured graph."


def source(*body: str) -> list[str]:
    return ["def pick(x, mask, layers):", *(f"    {text}" for text in body)]


def place(lines: list[str], code: str) -> Location:
    number = next(number for number, line in enumerate(lines, 1) if code in line)
    column = lines[number - 1].index(code)
    return Location(FILE, number, column, number, column + len(code), function="pick")


def context_of(lines: list[str]) -> Context:
    return Context.of(report(), read_line=lambda _path, number: dict(enumerate(lines, 1)).get(number))


LIST, COUNT, NUMBER = NeedKind.LIST, NeedKind.COUNT, NeedKind.NUMBER


@pytest.mark.parametrize(
    ("code", "body", "kind", "named", "line"),
    [
        ("mask.nonzero()", ["rows = mask.nonzero().flatten().tolist()", "return x[rows]"], LIST, ".tolist()", 2),
        ("x.unique()", ["kinds = x.unique()", "y = kinds.long()", "z = y.tolist()"], LIST, ".tolist()", 4),
        ("x.unique(0, 1)", ["a, n = x.unique(0, 1)", "y = n.tolist()"], LIST, ".tolist()", 3),
        ("mask.nonzero()", ["for row in mask.nonzero():", "    x = x + x[row]", "return x"], COUNT, "the loop", 2),
        ("x[mask]", ["kept = x[mask]", "return [layer(v) for layer, v in zip(layers, kept)]"], COUNT, "zip()", 3),
        ("x[mask]", ["kept = x[mask]", "for i in range(kept.size(0)):", "    x = x + kept[i]"], COUNT, "range()", 3),
        ("x[mask]", ["kept = x[mask]", "if kept.numel() > 0:", "    x = x + kept.sum()"], COUNT, "the branch", 3),
        ("mask.nonzero()", ["where = mask.nonzero()", "return x * where[0].item()"], NUMBER, ".item()", 3),
        ("mask.nonzero()", ["where = mask.nonzero().flatten()", "return x * int(where[0])"], NUMBER, "int()", 3),
        ("x[mask]", ["return x[mask].sum().item()"], NUMBER, ".item()", 2),
        ("x[mask]", ["kept = x[mask]", "return kept.sum().tolist()"], None, "", 0),
        ("x[mask]", ["kept = x[mask]", "return x * len(kept)"], None, "", 0),
        ("x[mask]", ["return x[mask].mean() + x.numel()"], None, "", 0),
        ("x[mask]", ["rest = x.tolist()", "return x[mask]"], None, "", 0),
    ],
)  # fmt: skip
def test_the_hardest_need_is_named(
    code: str, body: list[str], kind: NeedKind | None, named: str, line: int
) -> None:
    lines = source(*body)
    need = need_of(context_of(lines), place(lines, code))
    assert (need and need.kind, need.code if need else "", need.line if need else 0) == (kind, named, line)


def broken_at(lines: list[str], code: str, gb: str, explanation: str, hint: str) -> Finding:
    given = report(breaks=(broken(place(lines, code), gb=gb, explanation=explanation, hints=(hint,)),))
    (finding,) = findings(given, read_line=lambda _path, number: dict(enumerate(lines, 1)).get(number))
    return finding


def test_a_list_of_the_values_gets_a_fixed_shape_and_no_captured_shape() -> None:
    lines = source("sizes = torch.bincount(x, minlength=4).tolist()", "return mask.split(sizes)")
    operator = "Operator `aten.bincount.default`'s output shape depends on input Tensor data."
    finding = broken_at(lines, "torch.bincount(x, minlength=4)", "GB0036", operator, SETTING)
    assert "one_hot(index, n).sum(0)" in finding.hints[0]
    assert "dtype=torch.long" in finding.hints[0], "counts that are floats are no sizes"
    assert finding.hints[1] == (
        "For `.tolist()`, also set torch._dynamo.config.capture_scalar_outputs = True. Not tried on this program"
    )
    assert finding.hints[2].startswith("Do not set torch._dynamo.config.capture_dynamic_output_shape_ops")
    assert finding.hints[2].endswith("as `.tolist()` on line 2 needs the number of values")
    assert finding.torch_hints == 0
    assert SETTING.rstrip(".") not in finding.message


def test_a_loop_over_the_values_says_where_the_graph_breaks_again() -> None:
    lines = source("kept = x[mask]", "for one in kept:", "    x = x + one")
    finding = broken_at(lines, "x[mask]", "GB0036", "", SETTING)
    (again,) = finding.hints[1:]
    assert again == (
        "torch._dynamo.config.capture_dynamic_output_shape_ops only moves the graph break to line 3, where the loop "
        "needs the number of values"
    )


def test_a_single_value_needs_both_settings() -> None:
    lines = source("where = mask.nonzero()", "return x * where[0].item()")
    finding = broken_at(lines, "mask.nonzero()", "GB0036", "", SETTING)
    assert "capture_dynamic_output_shape_ops = True and, for `.item()`" in finding.hints[1]
    assert "Not tried:" in finding.hints[1]
    assert len(finding.hints) == 2


def test_a_result_that_stays_a_tensor_keeps_the_hint_of_torch() -> None:
    lines = source("return x[mask].sum()")
    finding = broken_at(lines, "x[mask]", "GB0036", "", SETTING)
    assert finding.hints[-1].startswith(SETTING.rstrip("."))
    assert finding.torch_hints == 1


@pytest.mark.parametrize(
    ("use", "is_size"),
    [
        ("x.split(n)", True),
        ("x[:n]", True),
        ("x * n", False),
        ("x.view(n, -1) * n", False),
        ("layers[n](x)", False),
    ],
)
def test_a_number_that_is_only_a_size_cannot_stay_a_tensor(use: str, *, is_size: bool) -> None:
    lines = source("n = mask.sum().item()", f"return {use}")
    finding = broken_at(lines, "mask.sum().item()", "GB0124", "", NUMBERS)
    assert finding.hints[0].startswith("Compute the number outside" if is_size else "Keep the value a tensor")
    assert "capture_scalar_outputs" in finding.hints[1]


@pytest.mark.parametrize(
    ("hint", "cost"),
    [
        ("Add the logging method to `torch._dynamo.config.ignore_logging_functions`.", "lose its messages"),
        ("you can try adding it to `torch._dynamo.config.reorderable_logging_functions`.", "another order"),
        ("if it is traceable, use `torch.compiler.allow_in_graph`.", "depend on its arguments alone"),
        ("Remove the call.", ""),
    ],
)
def test_a_hint_of_torch_says_what_it_costs(hint: str, cost: str) -> None:
    lines = source("log(x)")
    finding = broken_at(lines, "log(x)", "GB9999", "", hint)
    assert cost in finding.hints[0]
    assert bool(cost) is (len(finding.hints[0]) > len(hint))

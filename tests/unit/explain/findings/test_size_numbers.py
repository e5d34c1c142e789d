"""Advice for results whose shape or value depends on data: settings that were tried, and numbers that are sizes."""

from __future__ import annotations

import pytest

from fuselight.shared.report import CureTrial, Location
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.recompilations import untried
from tests.support.reports import FILE, at, broken, report

CAPTURE = "`torch._dynamo.config.capture_dynamic_output_shape_ops = True`"
SETTING = f"Enable tracing of dynamic shape operators with {CAPTURE}."
NUMBERS = "Set `torch._dynamo.config.capture_scalar_outputs = True` to include these operations in the captured graph."


GRADIENTS = (
    "Change `torch._dynamo.config.trace_autograd_ops` to `True` to attempt tracing torch.autograd.grad"
)


def source(*body: str) -> list[str]:
    return ["def pick(x, mask, layers):", *(f"    {text}" for text in body)]


def place(lines: list[str], code: str) -> Location:
    number = next(number for number, line in enumerate(lines, 1) if code in line)
    column = lines[number - 1].index(code)
    return Location(FILE, number, column, number, column + len(code), function="pick")


def broken_at(
    lines: list[str], code: str, gb: str, explanation: str, hint: str, *, trials: tuple[CureTrial, ...] = ()
) -> Finding:
    graph_break = broken(place(lines, code), gb=gb, explanation=explanation, hints=(hint,))
    given = report(breaks=(graph_break,), trials=trials)
    (finding,) = findings(given, read_line=lambda _path, number: dict(enumerate(lines, 1)).get(number))
    return finding


def test_the_settings_that_capture_a_result_are_called_untried_and_replace_the_hint_of_torch() -> None:
    lines = source("return x[mask].sum()")
    finding = broken_at(lines, "x[mask]", "GB0036", "", SETTING)
    both = "capture_dynamic_output_shape_ops = True and torch._dynamo.config.capture_scalar_outputs"
    assert finding.hints[-1] == "2 possible changes are not tried yet"
    assert both in untried(finding)[-1]


def test_a_setting_that_removes_the_break_is_advised_with_its_trial_alone() -> None:
    lines = source("return x[mask].sum()")
    first, second = broken_at(lines, "x[mask]", "GB0036", "", SETTING).cures
    trials = (CureTrial(first, 1, 0), CureTrial(second, 1, 1, "the line breaks the graph all the same"))
    finding = broken_at(lines, "x[mask]", "GB0036", "", SETTING, trials=trials)
    assert finding.hints[0] == (
        "Set torch._dynamo.config.capture_dynamic_output_shape_ops = True before the first call "
        "(tried: 1 → 0 graph breaks)"
    )
    assert "Not tried" not in finding.message


@pytest.mark.parametrize(
    ("use", "needs_number"),
    [
        ("x.split(n)", True),
        ("x[:n]", True),
        ("x * n", False),
        ("x.view(n, -1) * n", False),
        ("layers[n](x)", True),
    ],
)
def test_a_number_that_only_a_number_can_replace_cannot_stay_a_tensor(
    use: str, *, needs_number: bool
) -> None:
    lines = source("n = mask.sum().item()", f"return {use}")
    finding = broken_at(lines, "mask.sum().item()", "GB0124", "", NUMBERS)
    assert finding.hints[0].startswith(
        "Compute the number outside" if needs_number else "Compute with the tensor"
    )
    assert "capture_scalar_outputs" in untried(finding)[-1]


def test_a_number_of_a_tensor_that_the_code_computes_is_used_outside() -> None:
    lines = source("error = x.square().mean()", "self.least = min(self.least, error.item())")
    finding = broken_at(lines, "error.item()", "GB0124", "", NUMBERS)
    assert finding.hints[0].startswith(
        "Return the tensor of which the number is read, and do what needs the number"
    )


@pytest.mark.parametrize(
    ("line", "place", "step"),
    [
        ("    near = boxes[first] - boxes", "boxes[first]", "`boxes[first.view(1)].squeeze(0)`"),
        (
            "    y = self.table[self.at] * 2",
            "self.table[self.at]",
            "`self.table[self.at.view(1)].squeeze(0)`",
        ),
        ("    y = boxes[:first]", "boxes[:first]", ""),
        ("    y = first.item()", "first.item()", ""),
    ],
)
def test_an_index_without_dimensions_gets_one(line: str, place: str, step: str) -> None:
    lines = {20: "def near(self, boxes, first):", 21: line, 22: "    return boxes"}
    column = line.index(place)
    text = "Operator `aten._local_scalar_dense.default` has a non-Tensor output whose value is dependent on the data."
    at = Location(FILE, 21, column, 21, column + len(place), function="near")
    graph_break = broken(at, gb="GB0033", explanation=text)
    (finding,) = findings(report(breaks=(graph_break,)), read_line=lambda _path, number: lines.get(number))
    assert step in finding.hints[0]
    assert ("one dimension" in finding.hints[0]) is bool(step)


TABLE = "GAINS = {0: 0.5, 1: 2.0}"


@pytest.mark.parametrize(
    ("table", "line", "place", "step"),
    [
        (TABLE, "y = x * GAINS[i.item()]", "i.item()", "Choose the entry of `GAINS`"),
        ("GAINS = (1, 2)", "y = x + GAINS[i]", "GAINS[i]", "Choose the entry of `GAINS`"),
        (
            TABLE,
            "y = sorted(x, key=lambda part: part.item())",
            "part.item()",
            "Sort outside the compiled code",
        ),
        (TABLE, "x.sort(key=lambda part: -float(part))", "float(part)", "Sort outside the compiled code"),
        (
            TABLE,
            "y = max(x, key=lambda part: part.item())",
            "part.item()",
            "Select with tensors of equal shape",
        ),
        (
            "GAINS = {0: 'a', 1: 'b'}",
            "y = x * len(GAINS[i.item()])",
            "i.item()",
            "Choose the entry of `GAINS`",
        ),
        ("GAINS = {2: 0.5, 1: 2.0}", "y = x * GAINS[i.item()]", "i.item()", "Choose the entry of `GAINS`"),
        ("GAINS = load()", "y = x * GAINS[i.item()]", "i.item()", "Choose the entry of `GAINS`"),
        (f"{TABLE}; GAINS = load()", "y = x * GAINS[i.item()]", "i.item()", "Choose the entry of `GAINS`"),
        (TABLE, "for _ in range(GAINS[i.item()]):", "i.item()", "Choose the entry of `GAINS`"),
        (TABLE, "print('at', i.item())", "i.item()", "Return the tensor, and show its value"),
        (TABLE, "log.info(f'at {i.item()}')", "i.item()", "Return the tensor, and show its value"),
        (TABLE, "return x, i.item()", "i.item()", "Return the tensor, and convert it"),
        (TABLE, "self.seen = i.item()", "i.item()", "Keep the tensor there, after .detach()"),
        (TABLE, "self.all.append(i.item())", "i.item()", "Return the tensor, and keep its number"),
        (
            TABLE,
            "for _ in range(int(i)):",
            "int(i)",
            "pass it in: torch writes out the loop",
        ),
        (
            TABLE,
            "return x[:i.item()]",
            "i.item()",
            "Compute the number outside the compiled code and pass it in",
        ),
        (TABLE, "y = x * i.item()", "i.item()", "Compute with the tensor"),
    ],
)
def test_what_the_code_does_with_a_number_decides_what_to_do(
    table: str, line: str, place: str, step: str
) -> None:
    lines = {1: table, 3: "def pick(self, x, i):", 4: f"    {line}"}
    lines |= {5: "        y = x"} if line.endswith(":") else {5: "    return x"}
    text = "\n".join(lines.get(number, "") for number in range(1, 6)).split("\n")
    column = 4 + line.index(place)
    at = Location(FILE, 4, column, 4, column + len(place), function="pick")
    graph_break = broken(at, gb="GB0124", explanation="Dynamo does not support tracing `Tensor.item()`.")
    (finding,) = findings(
        report(breaks=(graph_break,)),
        read_line=lambda _path, number: text[number - 1] if number <= len(text) else None,
    )
    assert step in finding.hints[0]
    assert "known only when the graph runs" in finding.message


def test_a_condition_is_advised_with_the_tensor_and_not_with_its_number() -> None:
    lines = source("if x.item() > 3:", "    raise ValueError('large')")
    finding = broken_at(lines, "x.item()", "GB0124", "", NUMBERS)
    assert "torch._assert_async(~(x > 3)" in finding.hints[0]


@pytest.mark.parametrize(
    ("place", "title", "step"),
    [
        ("parts[:n]", "the index of a list or dict is a tensor", "Compute the bound outside"),
        ("parts[n]", "the index of a list or dict is a tensor", "Choose the entry of `parts`"),
        ("float(n)", "`float()` converts a tensor", "Compute with the tensor"),
        ("sum(float(part) for part in n)", "`float()` converts a tensor", "Compute with the tensor"),
        ("n.item()", "`.item()` converts a tensor", "Compute with the tensor"),
    ],
)
def test_what_is_converted_is_named_as_the_line_writes_it(place: str, title: str, step: str) -> None:
    finding = broken_at(source(f"return x * {place}"), place, "GB0124", "", NUMBERS)
    assert finding.title.startswith(f"graph break: {title}")
    assert finding.hints[0].startswith(step)


@pytest.mark.parametrize(
    ("body", "steps", "others"),
    [
        (
            ("far = 9.0", "while far > 1 and far < 99:", "    far = x.item()", "return x"),
            ("Keep the loop that `far` ends outside the compiled code: compile its body",),
            ("_assert_async", "branches on it"),
        ),
        (
            ("far = x.item()", "if far > 1:", "    x = x / far", "return x"),
            ("select with torch.where there",),
            ("_assert_async",),
        ),
        (
            ("far = x.item()", "if far > 1:", "    raise ValueError(far)", "return x"),
            ("branches on it: raise with torch._assert_async",),
            ("torch.where",),
        ),
        (
            ("far = x.item()", "assert far > 1", "return x if far < 9 else -x"),
            ("select with torch.where there, or raise with torch._assert_async",),
            (),
        ),
    ],
    ids=["loop", "choice", "exception", "both"],
)
def test_a_number_that_decides_gets_the_step_for_what_it_decides(
    body: tuple[str, ...], steps: tuple[str, ...], others: tuple[str, ...]
) -> None:
    finding = broken_at(source(*body), "x.item()", "GB0124", "", NUMBERS)
    hints = "\n".join(finding.hints)
    assert all(step in hints for step in steps)
    assert not any(other in hints for other in others)


@pytest.mark.parametrize(
    ("body", "place", "is_inlined", "step"),
    [
        (
            ("n = x.max().item()", "return x.view(n, -1)"),
            "x.max().item()",
            False,
            "Compute the number outside",
        ),
        (
            ("n = x.max().item()", "return x.view(n, -1)"),
            "x.max().item()",
            True,
            "Return the tensor of which",
        ),
        (
            ("h = x.sin()", "return x[: h.max().item()]"),
            "h.max().item()",
            False,
            "Return the tensor of which",
        ),
        (
            ("kind = int(x[0]) % 3", "return x * self.bias[kind]"),
            "int(x[0])",
            False,
            "Compute the number outside",
        ),
        (("h = x.sin()", "return h * NAMES[int(h[0])]"), "int(h[0])", False, "Return the tensor of which"),
        (("for n in x.tolist():", "    print(x[:n])"), "x.tolist()", False, "Pass the numbers of `x` in"),
        (
            ("h = x.sin()", "return [h[:n] for n in h.tolist()]"),
            "h.tolist()",
            False,
            "Return the tensor of which",
        ),
        (("return x.max().item()",), "x.max().item()", False, "Return the tensor, and convert it"),
        (("return x.max().item()",), "x.max().item()", True, "Compute with the tensor"),
    ],
)
def test_a_number_is_computed_outside_only_where_the_callers_have_its_tensor(
    body: tuple[str, ...], place: str, step: str, *, is_inlined: bool
) -> None:
    lines = dict(enumerate(("def pick(self, x):", *(f"    {line}" for line in body)), 1))
    row, text = next((row, text) for row, text in lines.items() if place in text)
    column = text.index(place)
    broke = at(row, (column, column + len(place)), path=FILE, function="pick")
    stack = (at(9, function="forward"), broke) if is_inlined else (broke,)
    given = report(breaks=(broken(*stack, gb="GB0124", explanation=""),))
    (finding,) = findings(given, read_line=lambda _path, line: lines.get(line))
    assert finding.hints[0].startswith(step)

"""`next()` of an iterator that the compiled function gets, and torch's words for its own developers."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Frame, NotCompiled, NotCompiledKind
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.breaks.break_texts import title_of
from tests.support.reports import at, broken, report

OLD = "Dynamo does not support next() on {}. Add tp_iternext_impl to this VariableTracker subclass."
NEW = "'{}' implements '__next__' in C and Dynamo has no model for it."
RULES = "It may be possible to write Dynamo tracing rules for this code. Please report an issue to PyTorch."


def drawn(
    *body: str, line: int, gb: str = "GB4347", explanation: str = OLD, kind: str = "map", **changes: object
) -> tuple[Finding, ...]:
    text = dict(enumerate(("def draw(self, x, items):", *body), 20))
    column = text[line].index("next(")
    place = at(line, (column, column + 4), function="draw")
    broke = broken(place, gb=gb, explanation=explanation.format(kind), hints=(RULES,), frame_function="draw")
    given = report(breaks=(broke,), **changes)
    return findings(given, read_line=lambda _path, number: text.get(number))


@pytest.mark.parametrize(
    ("gb", "explanation", "kind", "named"),
    [
        ("GB4347", OLD, "dict_keyiterator", "a `dict_keyiterator`"),
        ("GB4347", OLD, "generator", "a generator"),
        ("GB9493", NEW, "map", "a `map`"),
    ],
)
@pytest.mark.parametrize("iterator", ["items", "self.items"])
def test_an_iterator_from_outside_is_drawn_outside(
    gb: str, explanation: str, kind: str, named: str, iterator: str
) -> None:
    (finding,) = drawn(f"    return x + next({iterator})", line=21, gb=gb, explanation=explanation, kind=kind)
    assert finding.title == "graph break: `next()` is called on an iterator from outside the compiled code"
    assert f"next() on {named} that was made outside" in finding.message
    assert finding.hints == (f"Call `next({iterator})` outside the compiled code, and pass in its value",)
    assert "_impl" not in finding.message


def test_in_a_loop_a_list_is_passed_in() -> None:
    (finding,) = drawn("    for _ in range(2):", "        x = x + next(items)", "    return x", line=22)
    assert "itertools.islice(items, n)" in finding.hints[0]
    assert "torch.compiler.disable" not in finding.message


@pytest.mark.parametrize("assignment", ["items = map(f, x)", "self.items = iter(x)"])
def test_an_iterator_that_the_function_makes_is_not_said_to_come_from_outside(assignment: str) -> None:
    name = assignment.partition(" =")[0]
    (finding,) = drawn(f"    {assignment}", f"    return x + next({name})", line=22)
    assert "outside the compiled code and pass" not in finding.message
    assert "from outside" not in finding.title
    assert "VariableTracker" not in finding.message


def test_a_generator_from_outside_is_expected_to_run_in_python() -> None:
    place = at(21, (15, 19), function="draw")
    whole = NotCompiled(
        NotCompiledKind.SKIPPED, "draw", at(20, function="draw"), "no", stack=(place,), gb_id="GB4347"
    )
    part = NotCompiled(NotCompiledKind.GENERATOR, "batches", at(5), "", caller=(at(21, function="draw"),))
    shown = drawn(
        "    return x + next(items)",
        line=21,
        kind="generator",
        frames=(Frame("draw", at(20, function="draw")),),
        not_compiled=(whole, part),
    )
    hints = [hint for finding in shown if finding.code == "FL103" for hint in finding.hints]
    assert len(hints) == 1
    assert hints[0].startswith("Expect it: the generator is made outside the compiled code")


def test_a_type_of_break_that_names_torchs_code_is_no_title() -> None:
    assert "_impl" not in title_of(None, "nb_float_impl not implemented", "")

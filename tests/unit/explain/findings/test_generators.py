"""Generators and comprehensions that torch.compile meets alone, in the words of the line that has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import Frame, NotCompiled, NotCompiledKind, Report
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.priority import of_reports
from tests.support.reports import FILE, LIBRARY, at, broken, report

SOURCE = """\
def step(xs):
    for x in xs:
        if x.sum() > 0:
            break
    total = sum(f(x) for x in xs)
    return [x / total for x in xs]
"""
STEP = at(1, function="step")
BRANCH = replace(at(3, function="step"), column=11)


def shown(given: Report) -> tuple[Finding, ...]:
    lines = SOURCE.splitlines()
    return findings(given, read_line=lambda _path, line: lines[line - 1] if line <= len(lines) else None)


def skipped(*, cause: bool = True) -> Report:
    """A function that a break in a loop keeps in eager mode, and its generator expression, which torch met alone."""
    whole = NotCompiled(NotCompiledKind.SKIPPED, "step", STEP, "in a loop", stack=(BRANCH,), gb_id="GB0170")
    part = NotCompiled(
        NotCompiledKind.GENERATOR, "step.<genexpr>", at(5), "", caller=(at(5, function="step"),)
    )
    return report(
        frames=(Frame("step", STEP),),
        breaks=(broken(BRANCH, frame_skipped=True, frame_function="step"),) if cause else (),
        not_compiled=(whole, part) if cause else (part,),
    )


@pytest.mark.parametrize(
    ("cause", "step"), [(True, "the graph break on line 3 first"), (False, "its caller")]
)
def test_a_generator_expression_is_named_as_written_and_with_what_keeps_it_alone(
    *, cause: bool, step: str
) -> None:
    (finding,) = (item for item in shown(skipped(cause=cause)) if item.code == "FL103")
    assert finding.title == "the generator expression `f(x) for x in xs` in `step` is not compiled"
    assert step in finding.hints[0]
    assert finding.severity is Severity.INFORMATION
    assert "<genexpr>" not in finding.message


def test_a_comprehension_that_torch_meets_alone_is_a_note_on_the_break_before_it() -> None:
    inside = at(6, function="<listcomp>")
    above = (at(6, function="step"),)
    given = skipped()
    alone = broken(
        inside,
        gb="GB4347",
        frame_skipped=True,
        frame_function="step.<listcomp>",
        above=above,
        compile_id="1/0",
    )
    part = NotCompiled(
        NotCompiledKind.SKIPPED,
        "step.<listcomp>",
        inside,
        "no",
        stack=(inside,),
        gb_id="GB4347",
        caller=above,
    )
    given = replace(given, breaks=(*given.breaks, alone), not_compiled=(*given.not_compiled, part))
    (finding,) = (item for item in shown(given) if item.code == "GB4347")
    assert finding.severity is Severity.INFORMATION
    assert finding.hints[0].startswith("See the graph break on line 3 first")
    assert not [item for item in shown(given) if "<listcomp>" in f"{item.title} {item.message}"]
    assert [line.cost.line for line in of_reports([given], shown(given))] == [3]


def test_a_generator_that_a_break_stops_halfway_names_that_break_on_the_users_line() -> None:
    """torch stops in its own stand-in for `any`, which no user can change."""
    here, inside = at(10, function="run"), at(10, function="<genexpr>")
    polyfill = at(44, path=f"{LIBRARY}/torch/_dynamo/polyfills/__init__.py", function="any")
    stopped = broken(here, gb="GB8335", frame_skipped=True, frame_function="run")
    elsewhere = broken(at(8, function="run"), gb="GB0059", frame_function="run")
    given = report(
        breaks=(elsewhere, stopped, broken(here, polyfill, inside, gb="GB0124", frame_function="run"))
    )
    (finding,) = (item for item in findings(given) if item.code == "GB8335")
    assert finding.hints == ("See the graph break on line 10 first: this one comes after it",)
    (alone,) = findings(report(breaks=(stopped,)))
    assert (alone.severity, FILE) == (Severity.WARNING, alone.span.path)
    assert alone.hints[0].startswith("Make a list of the generator")

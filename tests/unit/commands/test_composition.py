"""The findings of a file as terminal and editor show them: of runs and of the source, each once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import Compile, Culprit, Failure, Outcome, Report, World
from fuselight_server.base.finding import Finding
from fuselight_server.commands.check import shared_findings
from fuselight_server.commands.findings import SourceHints, answered_targets, compose_findings
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.findings import findings, nothing_ran
from fuselight_server.explain.findings.common import catalogue
from fuselight_server.explain.findings.common.catalogue import Origin
from fuselight_server.source.document import read_source
from tests.support.reports import FILE, at, broken, report

TEXT = """import torch

@torch.compile
def scale(x):
    return x * 2

@torch.compile
def shift(x):  # fuselight: ignore[FL502]
    return x + 1

@torch.compile
def total(x):
    return x.sum()
"""
READING = read_source(FILE, TEXT)


def places(findings: list[Finding]) -> list[tuple[int, str]]:
    return sorted((finding.span.line, finding.code) for finding in findings)


def composed(*ran: Finding, hints: SourceHints, **named: object) -> list[tuple[int, str]]:
    return places(compose_findings(ran, [hints], {FILE: READING}, **named))  # type: ignore[arg-type]


def test_the_source_adds_what_no_run_has_found() -> None:
    all_hints = composed(hints=SourceHints(READING))
    assert [code for _, code in all_hints] == ["FL502", "FL502"], "a comment silences the second function"
    scale, total = (line for line, _ in all_hints)
    assert composed(hints=SourceHints(READING, answered={"scale"})) == [(total, "FL502")]
    assert composed(hints=SourceHints(READING, most=0), has_run=nothing_ran) == []
    called = {(FILE, scale)}
    assert composed(hints=SourceHints(READING), served=called) == [(total, "FL502")]
    (ran,) = [
        finding for finding in compose_findings((), [SourceHints(READING)], {}) if finding.span.line == scale
    ]
    of_run = replace(ran, title="a run has no inputs either")
    assert composed(of_run, hints=SourceHints(READING)) == all_hints, (
        "one finding on the line, that of the run"
    )


MADE_INSIDE = """import torch
def main():
    fast = torch.compile(torch.nn.ReLU())
    fast(torch.ones(2))
def other():
    slow = torch.compile(torch.nn.ReLU())
    slow(torch.ones(2))
main()
"""


def test_what_a_called_function_makes_has_inputs() -> None:
    reading = read_source(FILE, MADE_INSIDE)
    caller = (at(8, function="<module>"), at(4, function="main"))
    ran = report(compiles=(Compile("0/0", 0, Outcome.COMPILED, caller=caller),))
    (hint,) = compose_findings((), [SourceHints(reading, answered_targets(reading, [ran]))], {})
    assert (hint.code, hint.target) == ("FL502", "other.<locals>.slow")
    elsewhere = (at(4, function="main"),)
    assert elsewhere[0].path == FILE
    of_library = replace(
        ran, compiles=(replace(ran.compiles[0], caller=(replace(elsewhere[0], path="/lib/a.py"),)),)
    )
    assert len(compose_findings((), [SourceHints(reading, answered_targets(reading, [of_library]))], {})) == 2


def test_what_two_targets_have_in_common_is_one_finding() -> None:
    actual_findings = findings(report(breaks=(broken(at(5)),)))
    twice = compose_findings([*actual_findings, *actual_findings], (), {})
    assert places(twice) == places(list(actual_findings))


@pytest.mark.parametrize(
    ("line", "target"), [(5, "scale"), (13, "total"), (1, "scale")], ids=["first", "second", "neither"]
)
def test_what_two_targets_have_in_common_is_of_the_one_whose_source_has_the_line(
    line: int, target: str
) -> None:
    broken_twice = findings(report(breaks=(broken(at(line)),)))
    both = [
        replace(item, target=name, target_path=FILE) for name in ("scale", "total") for item in broken_twice
    ]
    shown = compose_findings(both, (), {FILE: READING})
    assert {item.target for item in shown if item.code != "FL503"} == {target}


def test_a_comment_is_unused_only_where_a_run_would_have_found_its_code() -> None:
    idle = read_source(FILE, "x = 1  # fuselight: ignore[GB0170]\n")
    for has_run, expected in ((True, [(1, "FL503")]), (False, [])):
        findings = compose_findings((), (), {FILE: idle}, has_run=lambda _path, _origin, ran=has_run: ran)  # type: ignore[misc]
        assert places(findings) == expected


@pytest.mark.parametrize("code", sorted({*catalogue.CATALOGUE, "GB0059"}))
def test_a_check_calls_the_ignore_of_a_code_unused_only_after_what_finds_the_code(code: str) -> None:
    """A check of one process, one of ranks, one of a notebook, one whose target failed, and one of another file."""
    origin = catalogue.origin(code)
    failed = Failure(Culprit.USER, "exception", "ValueError: no", "", stack=(at(2),))
    reports = {
        "one": report(),
        "ranks": replace(report(), world=World(2, (), (), {})),
        "failed": report(failures=(failed,)),
        "elsewhere": replace(report(), target=replace(report().target, path=f"{FILE}x")),
    }
    unused = {name for name, ran in reports.items() if is_unused(code, ran, FILE)}
    notebook = FILE.replace(".py", ".ipynb")
    in_notebook = replace(report(), target=replace(report().target, path=notebook))
    unused |= {"notebook"} if is_unused(code, in_notebook, notebook) else set()
    expected = {
        Origin.SOURCE: {"one", "ranks", "failed", "elsewhere", "notebook"},
        Origin.CAPTURE: {"one", "ranks", "notebook"},
        Origin.NOTEBOOK: {"notebook"},
        Origin.RANKS: {"ranks"},
    }
    assert unused == expected.get(origin, set())


def is_unused(code: str, ran: Report, path: str) -> bool:
    """Whether a check that has this report calls a comment for the code unused."""
    outcome = CheckOutcome(reports=[ran])
    outcome.readings = {path: read_source(path, f"x = 1  # fuselight: ignore[{code}]\n")}
    shared_findings(outcome)
    return "FL503" in {finding.code for finding in outcome.findings}


def test_each_origin_of_a_code_has_a_code() -> None:
    assert {entry.origin for entry in catalogue.CATALOGUE.values()} == set(Origin)

"""The findings of a file as terminal and editor show them: of runs and of the source, each once."""

from __future__ import annotations

from dataclasses import replace

from fuselight_server.base.finding import Finding
from fuselight_server.commands.findings import SourceHints, compose_findings
from fuselight_server.explain.findings import findings
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
    assert composed(hints=SourceHints(READING, most=0), is_known=lambda _code: False) == []
    called = {(FILE, scale)}
    assert composed(hints=SourceHints(READING), served=called) == [(total, "FL502")]
    (ran,) = [
        finding for finding in compose_findings((), [SourceHints(READING)], {}) if finding.span.line == scale
    ]
    of_run = replace(ran, title="a run has no inputs either")
    assert composed(of_run, hints=SourceHints(READING)) == all_hints, (
        "one finding on the line, that of the run"
    )


def test_what_two_targets_have_in_common_is_one_finding() -> None:
    actual_findings = findings(report(breaks=(broken(at(5)),)))
    twice = compose_findings([*actual_findings, *actual_findings], (), {})
    assert places(twice) == places(list(actual_findings))


def test_a_comment_is_unused_only_where_a_run_would_have_found_its_code() -> None:
    idle = read_source(FILE, "x = 1  # fuselight: ignore[GB0170]\n")
    for is_known, expected in ((True, [(1, "FL503")]), (False, [])):
        findings = compose_findings((), (), {FILE: idle}, is_known=lambda _code, known=is_known: known)  # type: ignore[misc]
        assert places(findings) == expected

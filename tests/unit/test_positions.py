"""Findings stay on their lines through edits, and a run without results hides nothing."""

from __future__ import annotations

import sys

from fuselight.report import Culprit, Failure, Frame, Location, Report, TargetRef, Tier, Versions
from fuselight_server.finding import Finding, Related, Severity, Span
from fuselight_server.results.captures import CaptureResult, capture_result_of
from fuselight_server.runs.keys import Key
from fuselight_server.session.state import State
from fuselight_server.static.document import SourceDocument

KEY = Key("/a.py", "f")
TEXT = "import torch\n\ndef f(x):\n    print(x)\n    return x\n"


def report(*failures: Failure, frames: bool = True) -> Report:
    versions = Versions(
        python="3.11", torch="2.13", triton=None, fuselight="0", platform=sys.platform, executable="p"
    )
    return Report(
        versions=versions,
        target=TargetRef(path=KEY.path, name=KEY.name, line=3, kind="function"),
        tier=Tier.CAPTURE,
        generation=1,
        frames=(Frame(function="f", location=Location(KEY.path, 3)),) if frames else (),
        failures=failures,
    )


def finding(line: int, code: str = "GB0059") -> Finding:
    return Finding(
        code=code, severity=Severity.WARNING, title="graph break", message="", span=Span(KEY.path, line, 4, line, 12),
        tier=Tier.CAPTURE, target="f", inputs="", torch="2.13", related=(Related(Span(KEY.path, 5), "then here"),),
    )  # fmt: skip


def kept(generation: int = 1) -> tuple[State, CaptureResult]:
    state = State()
    result = capture_result_of(KEY, generation, report(), [finding(4)])
    state.accept(result)
    return state, result


def test_a_line_inserted_above_moves_a_finding_and_its_related_locations() -> None:
    state, result = kept()
    state.edit(KEY.path, SourceDocument(KEY.path, TEXT).edit((1, 0), (1, 0), "# one\n"))
    (live,) = result.findings
    assert live.now().span == Span(KEY.path, 5, 4, 5, 12)
    assert live.now().related[0].span.line == 6
    assert not live.edited
    assert result.stale
    assert result.places.now(Span(KEY.path, 3)).line == 4, "the frame's line, for hovers and the report view"


def test_an_edit_marks_a_finding_and_a_deletion_removes_it() -> None:
    state, result = kept()
    document = SourceDocument(KEY.path, TEXT)
    state.edit(KEY.path, document.edit((4, 4), (4, 9), "log"))
    assert result.findings[0].edited
    state.edit(KEY.path, document.edit((4, 0), (5, 0), ""))
    assert result.findings[0].place.gone


def test_an_edit_of_another_file_changes_nothing() -> None:
    state, result = kept()
    state.edit("/b.py", SourceDocument("/b.py", "x\n").edit((1, 0), (1, 0), "# one\n"))
    assert result.findings[0].now() == finding(4)
    assert not result.stale


def test_an_empty_run_keeps_the_last_result_and_a_full_run_replaces_both() -> None:
    state, _ = kept()
    failure = Failure(culprit=Culprit.USER, kind="exception", message="ZeroDivisionError")
    for generation in (2, 3):
        state.accept(capture_result_of(KEY, generation, report(failure, frames=False), [finding(1, "FL401")]))
        codes = [live.finding.code for live in state.results[KEY].findings]
        assert codes == ["FL401", "GB0059"], "one failure, however often it came"
    state.accept(capture_result_of(KEY, 4, report(), []))
    assert state.results[KEY].findings == ()

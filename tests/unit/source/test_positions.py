"""Findings stay on their lines through edits, and a run without results hides nothing."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from fuselight.shared.report import (
    Culprit,
    Failure,
    Frame,
    Location,
    Report,
    TargetRef,
    Tier,
    Versions,
)
from fuselight_server.base.finding import Finding, Related, Severity, Span
from fuselight_server.base.remedies import advice
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.positions import Places, tracked

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
    state.accept_result(result)
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
    assert result.findings[0].place.is_deleted


def test_an_edit_of_another_file_changes_nothing() -> None:
    state, result = kept()
    state.edit("/b.py", SourceDocument("/b.py", "x\n").edit((1, 0), (1, 0), "# one\n"))
    assert result.findings[0].now() == finding(4)
    assert not result.stale


def test_an_empty_run_keeps_the_last_result_and_a_full_run_replaces_both() -> None:
    state, _ = kept()
    failure = Failure(culprit=Culprit.USER, kind="exception", message="ZeroDivisionError")
    for generation in (2, 3):
        state.accept_result(
            capture_result_of(KEY, generation, report(failure, frames=False), [finding(1, "FL401")])
        )
        codes = [live.finding.code for live in state.results[KEY].findings]
        assert codes == ["FL401", "GB0059"], "one failure, however often it came"
    state.accept_result(capture_result_of(KEY, 4, report(), []))
    assert state.results[KEY].findings == ()


ABOVE = SourceDocument(KEY.path, "a\n" * 60).edit((1, 0), (1, 0), "# new\n# new\n")


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("the break on line 15 splits it", "the break on line 17 splits it"),
        ("on line 12, 3 operators run in eager", "on line 14, 3 operators run in eager"),
        ("after lines 3, 9 and 14: two parts", "after lines 5, 11 and 16: two parts"),
        ("lines 12-14, 19 and 3 more.", "lines 14-16, 21 and 3 more."),
        ("`x[line 12]` on line 12", "`x[line 12]` on line 14"),
        ("at a.py:12, and at data.py:12", "at a.py:14, and at data.py:12"),
        ("call in other.py on line 12: Net()(f32[4, 8])", "call in other.py on line 12: Net()(f32[4, 8])"),
        ("call in a.py on line 12: Net()(f32[4, 8])", "call in a.py on line 14: Net()(f32[4, 8])"),
        ("takes 12 lines and 5 operators", "takes 12 lines and 5 operators"),
    ],
)
def test_every_text_of_a_finding_names_lines_where_they_are_now(text: str, moved: str) -> None:
    places = Places([Span("/other.py", 12), Span(KEY.path, 12)])
    given = replace(
        finding(4), title=text, message=text, remedies=advice((text,)), cost=(text,), inputs=text,
        related=(Related(Span(KEY.path, 5), text),),
    )  # fmt: skip
    (live,) = tracked([given], places)
    assert live.now() == given, "no edit yet"
    places.apply_edit(KEY.path, ABOVE)
    now = live.now()
    texts = (now.title, now.message, *now.hints, *now.cost, now.inputs, now.related[0].message)
    assert texts == (moved,) * 6
    places.reset_file(KEY.path)
    assert live.now() == given


def test_inputs_name_lines_of_the_target_s_file_and_a_deleted_line_is_called_so() -> None:
    places = Places()
    given = replace(finding(4), inputs="directive on line 2: f(f32[2])", message="see line 9")
    (live,) = tracked([given], places, "/target.py")
    places.apply_edit("/target.py", ABOVE)
    places.apply_edit(KEY.path, SourceDocument(KEY.path, "a\n" * 20).edit((9, 0), (10, 0), ""))
    assert live.now().inputs == "directive on line 4: f(f32[2])"
    assert live.now().message == "see line 9 (deleted)"
    (again,) = tracked([live.now()], places, "/target.py")
    assert again.now().message == "see line 9 (deleted)", "a number that no line has any more stays"


def test_a_number_in_an_exception_of_the_program_stays() -> None:
    places = Places()
    (live,) = tracked([replace(finding(4, "FL401"), title="ValueError: bad token on line 30")], places)
    places.apply_edit(KEY.path, ABOVE)
    assert live.now().title == "ValueError: bad token on line 30"


def test_what_changed_names_lines_where_they_are_now() -> None:
    state, result = kept()
    result.compare(("line 4: new break", "line 2 (deleted): break gone"))
    state.edit(KEY.path, SourceDocument(KEY.path, TEXT).edit((1, 0), (1, 0), "# one\n"))
    assert result.changes_now == ("line 5: new break", "line 2 (deleted): break gone")

"""A setting that cures a wrong function, for that function alone: the edit, its confirmation, the finding, the fix."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fuselight.shared.protocol import AccuracyRequest, CaptureRequest, InputsPlan, Target
from fuselight.shared.report import RegionEdit, Report
from fuselight_server.base.remedies import RemedyState
from fuselight_server.editor.results.quick_edits import quick_edits
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.state import State
from fuselight_server.explain.findings import findings_of_results
from fuselight_server.fixes.verification.wrong_results import compare_results
from fuselight_server.source.document import SourceDocument
from tests.support.compared_results import Fault, ScriptedProgram

TEXT = """\
import torch


class Net(torch.nn.Module):
    pass


model = Net()
{call}
"""
CALL = "compiled = torch.compile(model)"
NEW = 'compiled = torch.compile(model, options={"pattern_matcher": False})'


def compared(path: Path, program: ScriptedProgram, call: str = CALL, *, overlay: bool = False) -> Report:
    text = TEXT.format(call=call)
    path.write_text("x = 1\n" if overlay else text, encoding="utf-8")
    target = Target(str(path), "Net", "module", 4, compiled=True)
    request = CaptureRequest(
        id=1,
        generation=1,
        target=target,
        inputs=InputsPlan(),
        roots=(str(path.parent),),
        overlays={str(path): text} if overlay else {},
    )

    async def run(asked: AccuracyRequest, _words: str) -> Report:
        return program.answer(asked)

    return asyncio.run(compare_results(request, run, locate_seconds=0.0, tries=None))


def region_of(report: Report) -> RegionEdit | None:
    assert report.results is not None
    (cause,) = report.results.causes
    assert all(setting.region is None for setting in cause.tried if not setting.cures)
    return cause.tried[-1].region


def faulty(*cures: str, cured_by: str = "options=") -> ScriptedProgram:
    return ScriptedProgram({1: Fault(cures=cures, cured_by=cured_by)})


@pytest.mark.parametrize("overlay", [False, True])
def test_the_call_of_torch_compile_gets_the_setting_and_a_run_confirms_it(
    tmp_path: Path, *, overlay: bool
) -> None:
    path, program = tmp_path / "m.py", faulty("pattern_matcher")
    edit = region_of(compared(path, program, overlay=overlay))
    assert edit == RegionEdit(str(path), 9, CALL, NEW)
    last = program.requests[-1]
    assert (dict(last.settings), last.calls) == ({}, ()), "the whole program, with nothing else changed"
    assert last.overlays == {str(path): TEXT.format(call=NEW)}


@pytest.mark.parametrize(
    "call",
    [
        'compiled = torch.compile(model, mode="reduce-overhead")',
        'compiled = torch.compile(model, backend="inductor")',
        "compiled = torch.compile(model, options={})",
        "compiled = torch.compile(model)\nother = torch.compile(Net())",
        "compiled = make(torch).compile(model)",
    ],
)
def test_without_a_certain_place_there_is_no_edit_and_no_run(tmp_path: Path, call: str) -> None:
    program = faulty("pattern_matcher")
    assert region_of(compared(tmp_path / "m.py", program, call)) is None
    assert not any(request.overlays for request in program.requests)


def test_an_edit_that_does_not_cure_is_not_offered(tmp_path: Path) -> None:
    assert region_of(compared(tmp_path / "m.py", faulty("pattern_matcher", cured_by="nothing"))) is None


def test_a_setting_that_torch_compile_does_not_take_has_no_edit(tmp_path: Path) -> None:
    program = faulty("enable_autograd_cache")
    assert region_of(compared(tmp_path / "m.py", program)) is None
    assert not any(request.overlays for request in program.requests)


def test_the_finding_has_the_line_and_the_editor_the_edit_while_the_line_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    (finding,) = findings_of_results(
        compared(path, faulty("pattern_matcher")), read_line=lambda _path, _line: None
    )
    first = finding.remedies[0]
    assert first.state is RemedyState.VERIFIED
    assert first.text == f"On line 9, for this function alone: `{NEW}`"
    for call, count in ((CALL, 1), (f"{CALL}  # edited", 0)):
        source = SourceDocument(str(path), TEXT.format(call=call))
        document = Document(path.as_uri(), str(path), 1, source, runnable=True)
        state = State()
        state.open(document)
        edits = [
            edit for edit in quick_edits(state.view(), document, finding) if edit.title.startswith("Change")
        ]
        assert [edit.edits[0].new_text for edit in edits] == [NEW] * count

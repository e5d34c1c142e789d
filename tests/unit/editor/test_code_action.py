"""Quick fixes that need no run: captured calls as directives, and the page of a code."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight.shared.report import (
    EditKind,
    EditResults,
    Location,
    MemoryEstimate,
    MemoryPeak,
    Recorded,
    StepPhase,
    Tier,
    TriedEdit,
)
from fuselight_server.base.diff_text import unified_lines
from fuselight_server.editor.handlers.code_action import code_action
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.client_commands import OPEN_PAGE, SERVER_PAGE
from fuselight_server.editor.results.captures import capture_result_of
from fuselight_server.editor.results.memory import MemoryResult, memory_result_of, with_known_edits
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.fix_session import FixSession
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.document import SourceDocument
from tests.support.reports import FILE, report

URI = f"file://{FILE}"
TEXT = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1


@torch.compile
def step(x):
    return x * 2


Net()(torch.ones(4))
"""
CALLS = ("Net()(f32[4])", "Net()(f32[8])")


def opened(text: str = TEXT) -> State:
    state = State()
    state.open(Document(URI, FILE, 1, SourceDocument(FILE, text), runnable=True))
    recorded = tuple(Recorded(FILE, "Net", 4, call) for call in (*CALLS, CALLS[0]))
    state.accept_result(capture_result_of(Key(FILE, ""), 1, report(recorded=recorded), ()))
    return state


async def actions(state: State, line: int) -> list[types.CodeAction]:
    view = convert.Client("utf-8", state.documents.read_line, convert.uri)
    fixes = FixSession(state, prepare=lambda _key, _automatic: None)
    runs = SimpleNamespace(in_flight={}, queue=SimpleNamespace(waiting={}))
    permissions = SimpleNamespace(runs_on_request=lambda _key: False)
    analysis = SimpleNamespace(fixes=fixes, runs=runs, permissions=permissions)
    server: Any = SimpleNamespace(state=state, view=view, uri_of=convert.uri, analysis=analysis)
    at = types.Position(line, 0)
    params = types.CodeActionParams(
        types.TextDocumentIdentifier(URI), types.Range(at, at), types.CodeActionContext([])
    )
    answer = await code_action(server, params) or []
    return [action for action in answer if isinstance(action, types.CodeAction)]


@pytest.mark.asyncio
async def test_captured_calls_become_directives_above_their_target() -> None:
    title = "Write 2 captured calls of Net as a directive"
    (fix,) = (action for action in await actions(opened(), 3) if action.title == title)
    assert fix.edit is not None
    assert fix.edit.changes is not None
    ((edit,),) = fix.edit.changes.values()
    assert isinstance(edit, types.TextEdit)
    assert (edit.range.start.line, edit.range.end.line) == (3, 3)
    assert edit.new_text == "".join(f"# fuselight: {call}\n" for call in CALLS)


@pytest.mark.asyncio
async def test_no_directive_is_offered_with_a_directive_or_without_a_captured_call() -> None:
    directed = TEXT.replace("class Net", "# fuselight: Net()(f32[1])\nclass Net")
    for state, line in ((opened(directed), 4), (opened(), 9)):
        assert not [action for action in await actions(state, line) if action.title.startswith("Write")]


@pytest.mark.asyncio
async def test_the_client_opens_the_page_of_a_code_or_the_server_does() -> None:
    state = opened()
    for commands, command in ((frozenset[str](), SERVER_PAGE), (frozenset({OPEN_PAGE}), OPEN_PAGE)):
        state.client.commands = commands
        (page,) = [
            action for action in await actions(state, 9) if action.title.startswith("Open the page of ")
        ]
        assert page.command is not None
        assert page.command.command == command
        (given,) = page.command.arguments or ()
        address = given["address"] if isinstance(given, dict) else given
        assert str(address).startswith("file://")


NEW = TEXT.replace("    return x * 2", "    return x.mul_(2)")
RETURN = TEXT.splitlines().index("    return x * 2")


def with_edit(state: State, results: EditResults, *, new: str = NEW) -> MemoryResult:
    """A state with an estimate that has two edits: of the line, and of another one."""
    diff = "".join(unified_lines(FILE, TEXT, new))
    edit = TriedEdit(
        EditKind.IN_PLACE,
        "`mul` in place",
        Location(FILE, RETURN + 1),
        results,
        "same results",
        3 * 10**9,
        diff=diff,
    )
    first = replace(edit, title="the first line", location=Location(FILE, 1))
    peak = MemoryPeak(4 * 10**9, 0, StepPhase.FORWARD, "", None)
    estimate = MemoryEstimate("step()", training=False, eager=peak, edits=(first, edit))
    key = Key(FILE, "step", Tier.MEMORY)
    result = memory_result_of(key, 1, replace(report(memory=(estimate,)), tier=Tier.MEMORY))
    state.accept_result(result)
    return result


@pytest.mark.asyncio
async def test_a_change_that_needs_less_is_offered_on_its_line_until_the_file_changes() -> None:
    state = opened()
    result = with_edit(state, EditResults.SAME)
    title = "Use less memory: `mul` in place: eager 4 GB -> 3 GB (-25%); same results"
    (fix,) = (action for action in await actions(state, RETURN) if action.title.startswith("Use less"))
    assert fix.title == title
    assert fix.edit is not None
    changes = fix.edit.changes or {}
    ((edit,),) = changes.values()
    assert isinstance(edit, types.TextEdit)
    assert (edit.range.start.line, edit.range.end.line, edit.new_text) == (
        *(RETURN, RETURN + 1),
        "    return x.mul_(2)\n",
    )
    result.mark_changed(FILE)
    assert not [action for action in await actions(state, RETURN) if action.title.startswith("Use less")]


@pytest.mark.asyncio
@pytest.mark.parametrize("results", [EditResults.CHANGE, EditResults.UNKNOWN])
async def test_a_change_with_other_results_is_no_quick_fix(results: EditResults) -> None:
    state = opened()
    with_edit(state, results)
    assert not [action for action in await actions(state, RETURN) if action.title.startswith("Use less")]


@pytest.mark.asyncio
async def test_a_damaged_diff_of_a_store_is_no_quick_fix() -> None:
    state = opened()
    with_edit(state, EditResults.SAME, new=TEXT)
    assert not [action for action in await actions(state, RETURN) if action.title.startswith("Use less")]


def test_a_new_estimate_of_the_same_text_keeps_the_edits_of_the_last_one() -> None:
    before = with_edit(opened(), EditResults.SAME)
    (known,) = before.report.memory
    new = replace(before.report, memory=(replace(known, edits=()),))
    assert with_known_edits(new, [new, before.report]).memory == (known,)
    assert with_known_edits(replace(new, files={FILE: "other"}), [before.report]).memory[0].edits == ()
    assert with_known_edits(new, []).memory[0].edits == ()

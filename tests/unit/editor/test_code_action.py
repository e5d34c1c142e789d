"""Quick fixes that need no run: captured calls as directives, and the page of a code."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight.shared.report import Recorded
from fuselight_server.editor.handlers.code_action import code_action
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.client_commands import OPEN_PAGE, SERVER_PAGE
from fuselight_server.editor.results.captures import capture_result_of
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
    view = convert.Client("utf-8", state.read_line, convert.uri)
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

"""Other editors against the server: each is played by its own `initialize`, and gets nothing that it does not know.

No model runs here: the user says no to the question, which is kept for the next start.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

import pytest

from fuselight_server.base.consent_store import ConsentStore
from tests.support.case_files import marked
from tests.support.recorded_clients import RecordedClient, recorded_clients

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Start
    from tests.support.lsp_client import Client, Json

SOURCE = """\
import torch


# fuselight: \U0001d41fgröße(f32[4, 8])
@torch.compile
def \U0001d41fgröße(x):
    y = x * 2
    return y
"""
TARGET = 5
"""0-based line of the target, whose name has another length in each encoding."""
NAME_END = {"utf-8": 15, "utf-16": 11, "utf-32": 10}
CLIENTS = recorded_clients()
FURTHER = [client for client in CLIENTS if client.name in {"ale", "helix", "zed"}]
"""Clients that know nearly what minimal, eglot and coc know."""
SEVERE = 1
"""`MessageType.Error`."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConsentStore:
    """The user's state folder, in which answers are kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return ConsentStore(tmp_path / "state" / "fuselight")


def with_interpreter(settings: object) -> object:
    return {**settings, "interpreter": sys.executable} if isinstance(settings, dict) else settings


def start(connect: Start, recorded: RecordedClient, folder: Path) -> tuple[Client, Json]:
    """Start a server as a client does; returns the answer to `initialize`."""
    client = connect(settings=with_interpreter(recorded.configuration.get("fuselight")), confirm="never")
    client.settings = with_interpreter(recorded.configuration.get("fuselight"))  # type: ignore[assignment]  # null, too
    options = {name: with_interpreter(value) for name, value in (recorded.options or {}).items()}
    params: Json = {"processId": None, "rootUri": folder.as_uri(), "capabilities": recorded.capabilities}
    if recorded.options is not None:
        params["initializationOptions"] = options
    if not recorded.root_only:
        params["workspaceFolders"] = [{"uri": folder.as_uri(), "name": folder.name}]
    result: Json = client.request("initialize", params)
    client.notify("initialized", {})
    return client, result["capabilities"]


def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    (folder / "model.py").write_text(SOURCE, encoding="utf-8")
    (folder / "pyproject.toml").touch()
    return folder


def at(line: int, character: int = 4) -> Json:
    return {"line": line, "character": character}


def ask_for_everything(client: Client, recorded: RecordedClient, uri: str) -> Json:
    """Ask as an editor does that has just opened a file; returns the answers by method."""
    document = {"textDocument": {"uri": uri}}
    on_target = {**document, "range": {"start": at(TARGET), "end": at(TARGET)}}
    asked: Json = {
        "textDocument/hover": {**document, "position": at(TARGET)},
        "textDocument/codeAction": {**on_target, "context": {"diagnostics": []}},
        "textDocument/inlayHint": {**document, "range": {"start": at(0, 0), "end": at(7, 0)}},
    }
    if recorded.has("textDocument.codeLens"):
        asked["textDocument/codeLens"] = document
    return {method: client.request(method, params) for method, params in asked.items()}


def commands_of(answers: Json) -> set[str]:
    """The commands that lenses and actions run."""
    lenses = [lens["command"] for lens in answers.get("textDocument/codeLens") or ()]
    actions = [
        action["command"] if isinstance(action.get("command"), dict) else action
        for action in answers["textDocument/codeAction"] or ()
        if "command" in action
    ]
    return {command["command"] for command in (*lenses, *actions)}


def name_end(client: Client, uri: str) -> int:
    """The column at which the name of the target ends, as its lenses say."""
    lenses = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    (end,) = {lens["range"]["end"]["character"] for lens in lenses}
    return int(end)


def questions(client: Client) -> list[Json]:
    return [message for message in client.messages if message.get("method") == "window/showMessageRequest"]


@pytest.mark.parametrize("recorded", marked(CLIENTS, FURTHER), ids=lambda recorded: recorded.name)
def test_an_editor_gets_what_it_knows_and_nothing_else(
    connect: Start, recorded: RecordedClient, tmp_path: Path, state: ConsentStore
) -> None:
    folder = project(tmp_path)
    client, capabilities = start(connect, recorded, folder)
    encoding = capabilities.get("positionEncoding", "utf-16")
    assert encoding in recorded.capabilities.get("general", {}).get("positionEncodings", ["utf-16"])
    uri = client.open(folder / "model.py")
    client.edit(uri, (TARGET + 1, 12), (TARGET + 1, 13), "3")
    client.save(uri)
    assert name_end(client, uri) == NAME_END[encoding]
    answers = ask_for_everything(client, recorded, uri)

    commands = set(capabilities["executeCommandProvider"]["commands"])
    assert commands_of(answers) <= commands
    assert "fuselight.server.run" in commands_of(answers), "by a lens, or else by an action"
    has_actions = any(
        action["title"].startswith("Fuselight: ") for action in answers["textDocument/codeAction"]
    )
    assert has_actions is not recorded.has("textDocument.codeLens")
    assert questions(client) == [], "`run` is `manual`, by whichever way the editor sends settings"

    client.command("fuselight.server.showBenchmark", {"uri": uri, "line": TARGET})
    client.command("fuselight.server.noAction")
    client.command("fuselight.server.run", {"uri": uri})

    def is_answered() -> bool:
        client.command("fuselight.server.noAction")
        return state.answers() != ()

    client.until(is_answered, "the answer to the question")
    assert [(kept.subject, kept.answer) for kept in state.answers()] == [(str(folder), "never")]

    assert client.stop() == 0
    problems = [problem for message in client.messages if (problem := recorded.not_allowed(message))]
    assert problems == []
    errors = [message for message in client.messages if "error" in message or _is_severe(message)]
    assert errors == []


def _is_severe(message: Json) -> bool:
    return message.get("method") == "window/showMessage" and message["params"]["type"] == SEVERE


def test_an_answer_outlasts_the_server(connect: Start, tmp_path: Path, state: ConsentStore) -> None:
    folder = project(tmp_path)
    recorded = next(client for client in CLIENTS if client.name == "eglot")
    state.keep_answer(str(folder), "run")
    client, _ = start(connect, recorded, folder)
    uri = client.open(folder / "model.py")
    client.command("fuselight.server.run", {"uri": uri})
    created = "window/workDoneProgress/create"
    client.wait(lambda message: message.get("method") == created, "a run without a question")
    assert questions(client) == []
    client.command("fuselight.server.cancel", {"uri": uri})
    client.command("fuselight.server.askAgain", {"uri": uri})
    assert state.answers() == ()


@pytest.mark.parametrize("refuses", ["an error", "an answer"])
def test_an_edit_that_the_user_refuses_is_no_failure(connect: Start, tmp_path: Path, refuses: str) -> None:
    folder = project(tmp_path)
    recorded = next(client for client in CLIENTS if client.name == "eglot")
    client, _ = start(connect, recorded, folder)
    client.open(folder / "model.py")
    client.applies = False
    if refuses == "an error":
        client.unknown = frozenset({"workspace/applyEdit"})
    client.command("fuselight.server.applyEdit", {"label": "Ignore GB0170", "edit": {"changes": {}}})
    message = client.notified("window/showMessage")
    assert message["message"].startswith("`Ignore GB0170` was not applied: ")
    assert message["type"] != SEVERE


def test_an_editor_that_shows_no_questions_says_how_to_let_code_run(
    connect: Start, tmp_path: Path, state: ConsentStore
) -> None:
    folder = project(tmp_path)
    recorded = next(client for client in CLIENTS if client.name == "helix")
    client, _ = start(connect, recorded, folder)
    client.unknown = frozenset({"window/showMessageRequest"})
    uri = client.open(folder / "model.py")
    client.command("fuselight.server.run", {"uri": uri})
    message = client.notified("window/showMessage", lambda params: "shows no questions" in params["message"])
    assert f"`fuselight consent --allow {folder}`" in message["message"]
    assert state.answers() == ()
    state.keep_answer(str(folder), "run")  # what that command does
    client.command("fuselight.server.run", {"uri": uri})
    created = "window/workDoneProgress/create"
    client.wait(lambda message: message.get("method") == created, "a run")
    client.command("fuselight.server.cancel", {"uri": uri})


def test_an_interpreter_without_torch_is_reported_when_a_file_opens_and_after_each_run(
    connect: Start, tmp_path: Path, state: ConsentStore
) -> None:
    """By a client that shows neither questions nor progress, and that names no interpreter."""
    folder = project(tmp_path)
    python = folder / ".venv" / "bin" / "python"
    (folder / ".venv" / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    (folder / ".venv" / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    minimal = next(client for client in CLIENTS if client.name == "minimal")
    recorded = dataclasses.replace(minimal, configuration={}, options=None)
    state.keep_answer(str(folder), "run")
    client, _ = start(connect, recorded, folder)
    client.unknown = frozenset({"window/showMessageRequest"})
    uri = client.open(folder / "model.py")
    message = client.notified("window/showMessage")
    assert message == {
        "type": SEVERE,
        "message": f"{python} has no torch; this interpreter comes from the .venv of {folder}, and "
        "`fuselight.interpreter` sets another. Choose the interpreter that has torch, or install torch in this one.",
    }
    for _ in range(2):
        since = client.mark()
        client.command("fuselight.server.run", {"uri": uri})
        message = client.notified("window/showMessage", since=since)
        assert f"{python} ended before it was ready" in message["message"]
        assert "`fuselight.interpreter` sets another" in message["message"]

"""A small JSON-RPC client for a real server over pipes: waits for messages with deadlines, never for time.

Invariant: every message of the server is kept in order, so that a failed wait can show what came instead.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.prepared import start_server, variables

ROOT = Path(__file__).parents[2]
DEADLINE = 120.0
"""Seconds, enough for a busy machine."""
_PAUSE = 0.3
"""Seconds until `until` asks again, unless a message comes first that is not mere progress."""

Json = dict[str, Any]

CAPABILITIES: Json = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {
        "publishDiagnostics": {"relatedInformation": True},
        "synchronization": {"willSave": True},
        "codeLens": {"dynamicRegistration": False},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "source.fixAll"]}},
            "resolveSupport": {"properties": ["edit", "command"]},
            "dataSupport": True,
        },
    },
    "window": {"workDoneProgress": True, "showDocument": {"support": True}},
    "workspace": {
        "applyEdit": True,
        "configuration": True,
        "workspaceFolders": True,
        "codeLens": {"refreshSupport": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "fileOperations": {"didRename": True, "didDelete": True},
        "workspaceEdit": {"documentChanges": True, "changeAnnotationSupport": {}},
    },
}


class Client:
    """One server process and the conversation with it.

    The process is a fork with its imports done (prepared.py), unless it is `fresh` or has a command line of its own.
    """

    def __init__(
        self,
        *,
        settings: Json | None = None,
        confirm: str = "run",
        command: list[str] | None = None,
        write_bytecode: bool = False,
        fresh: bool = True,
    ) -> None:
        self.process = start_server(
            command or [sys.executable, "-X", "utf8", "-m", "fuselight_server.editor.app"],
            variables(write_bytecode=write_bytecode),
            fresh=fresh or command is not None,
        )
        self.settings: Json = settings or {}
        self.settings_by_folder: dict[str, Json] = {}
        self.confirm = confirm
        self.unknown: frozenset[str] = frozenset()
        """Requests of the server that the client answers with an error, as one that it does not know."""
        self.applies = True
        """Whether edits that the server asks for are applied."""
        self.messages: list[Json] = []
        self.stderr = bytearray()
        self.capabilities: Json = {}
        """The capabilities of the server after its initialization."""
        self.opened: set[str] = set()
        self.before = 0
        """Runs from before the current test of a shared server; `idle` counts from there."""
        self._next = 0
        self._seen = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._read, self._read_stderr)
        ]
        for thread in self._threads:
            thread.start()

    # Speaking

    def send(self, message: Json) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: Any = None) -> int:
        self._next += 1
        self.send({"id": self._next, "method": method, "params": params})
        return self._next

    def request(self, method: str, params: Any = None, *, deadline: float = DEADLINE) -> Any:
        answer = self.answer(self.ask(method, params), deadline=deadline)
        assert "error" not in answer, answer
        return answer["result"]

    def answer(self, identity: int | str, *, deadline: float = DEADLINE) -> Json:
        return self.wait(
            lambda message: message.get("id") == identity and "method" not in message, f"answer {identity}",
            deadline=deadline,
        )  # fmt: skip

    # Listening

    def mark(self) -> int:
        """The number of received messages; pass it to `wait` to consider only later ones."""
        with self._seen:
            return len(self.messages)

    def wait(
        self, wanted: Callable[[Json], bool], what: str, *, since: int = 0, deadline: float = DEADLINE
    ) -> Json:
        """The first matching message since `since`."""
        end = time.monotonic() + deadline
        position = since
        with self._seen:
            while True:
                while position < len(self.messages):
                    if wanted(self.messages[position]):
                        return self.messages[position]
                    position += 1
                left = end - time.monotonic()
                if left <= 0 or self._closed:
                    raise AssertionError(f"{what} did not come.\n{self.transcript()}")
                self._seen.wait(left)

    def notified(
        self, method: str, wanted: Callable[[Json], bool] = lambda _params: True, *, since: int = 0,
        deadline: float = DEADLINE,
    ) -> Json:  # fmt: skip
        message = self.wait(
            lambda message: message.get("method") == method and wanted(message["params"]),
            method,
            since=since,
            deadline=deadline,
        )
        params: Json = message["params"]
        return params

    def idle(self, generation: int, *, deadline: float = 120.0) -> Json:
        """Wait until every run up to `generation` is over and published."""
        return self.notified(
            "fuselight/status",
            lambda status: (
                status["state"] in {"idle", "noInterpreter", "untrusted"}
                and status["generation"] >= self.before + generation
            ),
            deadline=deadline,
        )

    def begin_anew(self) -> None:
        """Forget earlier messages of a shared server, after the end of its runs.

        Closing a file with unsaved text starts a run of the text on disk.
        """
        self.until(self._no_run, "the end of an earlier test's runs")
        with self._seen:
            states = self._states()
            if states:
                self.before = max(self.before, states[-1]["generation"])
            self.messages.clear()

    def _no_run(self) -> bool:
        self.request("fuselight/reportTree", {"uri": None})  # earlier messages arrive before its answer
        with self._seen:
            states = self._states()
        return not states or states[-1]["state"] != "running"

    def _states(self) -> list[Json]:
        return [message["params"] for message in self.messages if message.get("method") == "fuselight/status"]

    def until(self, happened: Callable[[], bool], what: str, *, deadline: float = DEADLINE) -> None:
        """Repeat `happened` until it is true, after each message or pause; each call is a round trip to the server."""
        end = time.monotonic() + deadline
        while not happened():
            if time.monotonic() > end:
                raise AssertionError(f"{what} did not come.\n{self.transcript()}")
            self._wait_for_news()

    def _wait_for_news(self) -> None:
        """Wait for a message other than progress, or for a pause."""
        since = self.mark()
        with self._seen:
            self._seen.wait_for(
                lambda: any(message.get("method") != "$/progress" for message in self.messages[since:]),
                _PAUSE,
            )

    def diagnostics(self, uri: str) -> list[Json]:
        """The last published diagnostics of a file."""
        with self._seen:
            for message in reversed(self.messages):
                if (
                    message.get("method") == "textDocument/publishDiagnostics"
                    and message["params"]["uri"] == uri
                ):
                    diagnostics: list[Json] = message["params"]["diagnostics"]
                    return diagnostics
        return []

    def transcript(self) -> str:
        with self._seen:
            lines = [json.dumps(message)[:400] for message in self.messages[-60:]]
        return "\n".join([*lines, "stderr:", self.stderr.decode(errors="replace")[-4000:]])

    # Life

    def start(
        self,
        *folders: Path,
        options: Json | None = None,
        capabilities: Json | None = None,
        process_id: int | None = None,
    ) -> Json:
        """Initialize on these folders."""
        result: Json = self.request(
            "initialize",
            {
                "processId": process_id,
                "rootUri": None,
                "capabilities": CAPABILITIES if capabilities is None else capabilities,
                "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name} for folder in folders],
                "initializationOptions": {
                    "settings": self.settings,
                    "trusted": True,
                    "storage": None,
                    "clientCommands": ["fuselight.showDetails"],
                    "confirmRun": True,
                    "notifications": True,
                    "textLenses": True,
                    "longCommands": True,
                    **(options or {}),
                },
            },
        )
        self.capabilities = result["capabilities"]
        self.notify("initialized", {})
        return result

    def open(self, path: Path, text: str | None = None, *, uri: str | None = None) -> str:
        uri = uri or path.as_uri()
        text = path.read_text(encoding="utf-8") if text is None else text
        item = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})
        self.opened.add(uri)
        return uri

    def edit(
        self, uri: str, start: tuple[int, int], end: tuple[int, int], text: str, version: int = 2
    ) -> None:
        place = {
            "start": {"line": start[0], "character": start[1]},
            "end": {"line": end[0], "character": end[1]},
        }
        document = {"uri": uri, "version": version}
        self.notify(
            "textDocument/didChange",
            {"textDocument": document, "contentChanges": [{"range": place, "text": text}]},
        )

    def save(self, uri: str, *, reason: int = 1) -> None:
        self.notify("textDocument/willSave", {"textDocument": {"uri": uri}, "reason": reason})
        self.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    def apply(self, edit: Json) -> None:
        """Apply a workspace edit to the open documents, as an editor does: last edit first."""
        versioned = {
            documentchange["textDocument"]["uri"]: documentchange["edits"]
            for documentchange in edit.get("documentChanges") or ()
        }
        for uri, edits in (edit.get("changes") or versioned).items():
            places = sorted(
                edits, key=lambda edit: (edit["range"]["start"]["line"], edit["range"]["start"]["character"])
            )
            changes = [{"range": place["range"], "text": place["newText"]} for place in reversed(places)]
            document = {"uri": uri, "version": 3}
            self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def actions(self, uri: str, line: int, **context: Any) -> list[Json]:
        """The quick fixes at a 0-based line."""
        at = {"line": line, "character": 0}
        params = {
            "textDocument": {"uri": uri},
            "range": {"start": at, "end": at},
            "context": {"diagnostics": [], **context},
        }
        request: list[Json] = self.request("textDocument/codeAction", params) or []
        return request

    def lenses(self, uri: str) -> list[str]:
        answer = self.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
        return [lens["command"]["title"] for lens in answer or ()]

    def command(self, name: str, *arguments: Any) -> Any:
        return self.request("workspace/executeCommand", {"command": name, "arguments": list(arguments)})

    def stop(self) -> int:
        """Shut down as an editor does; returns the server's exit status."""
        if self.process.poll() is None:
            self.request("shutdown")
            self.notify("exit")
        status = self.process.wait(DEADLINE)
        self.close()
        return status

    def close(self) -> None:
        """End the server in any state, and read its remaining output."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        for thread in self._threads:
            thread.join(DEADLINE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _read(self) -> None:
        pipe = self.process.stdout
        assert pipe is not None
        while True:
            length = 0
            while (line := pipe.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not line:
                break
            message = json.loads(pipe.read(length))
            self._serve(message)
            with self._seen:
                self.messages.append(message)
                self._seen.notify_all()
        with self._seen:
            self._closed = True
            self._seen.notify_all()

    def _serve(self, message: Json) -> None:
        """Answer the server's requests."""
        if "id" not in message or "method" not in message:
            return
        result: Any = None
        if message["method"] in self.unknown:
            error = {"code": -32601, "message": f"unknown method {message['method']}"}
            self._reply({"id": message["id"], "error": error})
            return
        if message["method"] == "workspace/configuration":
            result = [
                self.settings_by_folder.get(item.get("scopeUri") or "", self.settings)
                for item in message["params"]["items"]
            ]
        elif message["method"] == "workspace/applyEdit":
            result = {"applied": self.applies}
            if self.applies:
                self.apply(message["params"]["edit"])
        elif message["method"] == "window/showDocument":
            result = {"success": True}
        elif message["method"] == "fuselight/confirmRun":
            result = {"answer": self.confirm}
        elif message["method"] == "window/showMessageRequest":
            title = {"run": "Run", "never": "Not in This Folder"}.get(self.confirm)
            result = {"title": title} if title else None
        self._reply({"id": message["id"], "result": result})

    def _reply(self, message: Json) -> None:
        try:
            self.send(message)
        except BrokenPipeError:
            pass  # a server that has exited may leave a last request unanswered
        except ValueError:
            assert self.process.stdin is not None
            if not self.process.stdin.closed:  # so may a test that has closed the pipe
                raise

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while chunk := self.process.stderr.read1(65536):  # type: ignore[attr-defined]  # a BufferedReader
            self.stderr.extend(chunk)

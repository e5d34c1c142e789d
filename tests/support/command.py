"""The `fuselight` command in this process, with a worker that answers from reports."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.protocol import Answer, RunRequest
from fuselight.shared.report import Report
from fuselight_server.base.settings import Interpreter
from fuselight_server.cli.command_line import run_command
from fuselight_server.commands.started_worker import KeptWorker, StartedWorker


@dataclass(frozen=True)
class Result:
    """The output and exit code of a command."""

    exit_code: int
    stdout: str
    """Bytes that are not UTF-8 stand as surrogates."""
    stderr: str


def run_cli(*arguments: str) -> Result:
    """Run the command. Its errors are handled as for users; a bug is raised."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run_command(arguments)
        except SystemExit as ended:  # argparse's own way
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    out.flush()
    return Result(code, out.buffer.getvalue().decode("utf-8", "surrogateescape"), err.getvalue())


@dataclass
class AnsweringWorker:
    """Replaces a process with torch: answers each request with `answer`."""

    answer: Callable[[Any], Report]
    hello: Any = None
    requests: list[Any] = field(default_factory=list)

    async def run(self, request: RunRequest, _progress: Any, _partial: Any) -> Answer:
        self.requests.append(request)
        return Answer(request.id, self.answer(request))

    def put_in_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Serve the commands of this process."""

        def start(started: StartedWorker, *_given: Any, **_named: Any) -> None:
            started.choice = Interpreter("python", why="the test")

        async def keep(_kept: KeptWorker, *given: Any) -> StartedWorker:
            return StartedWorker(*given)

        async def ready(_started: StartedWorker) -> AnsweringWorker:
            return self

        async def close(_started: StartedWorker) -> None:
            """No process to end."""

        monkeypatch.setattr(StartedWorker, "__init__", start)
        monkeypatch.setattr(StartedWorker, "ready", ready)
        monkeypatch.setattr(StartedWorker, "close", close)
        monkeypatch.setattr(StartedWorker, "is_ready", False)
        monkeypatch.setattr(KeptWorker, "of", keep)

    @staticmethod
    def hello_of(report: Report) -> Any:
        """The handshake of a worker with the report's versions."""
        return SimpleNamespace(versions=report.versions, packages=())

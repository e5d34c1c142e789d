"""A real worker for tests: one host shared by the tests of many modules, its log shown when a test fails.

`analyse` writes a file and runs a target of it; directives are read out of its text, as `# fuselight:` comments.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import sys
import unittest.mock
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from fuselight.shared.protocol import (
    Answer,
    CaptureRequest,
    DirectiveLine,
    InputsPlan,
    Limits,
    Progress,
    Refused,
    RunRequest,
    Target,
)
from fuselight.shared.report import Failure, Report
from fuselight_server.base.settings import Interpreter
from fuselight_server.commands.started_worker import StartedWorker
from fuselight_server.execution.worker_client.client import Worker

T = TypeVar("T")
DEADLINE = 120.0
COMMAND_DEADLINE = 800.0
"""Seconds for a command that runs every file of a folder."""
GOOD = """\
import torch
# fuselight: f(f32[4])
def f(x):
    return x.sin()
"""
REACHED = "the loop is reached"
_DIRECTIVE = re.compile(r"# fuselight: *(?P<text>.*?)\s*$")


def prints_reached(report: Report) -> bool:
    return report.output is not None and REACHED in report.output.stdout


class LiveWorker:
    """A worker with its own event loop."""

    def __init__(self, folder: Path, interpreter: Interpreter | None = None, **options: Any) -> None:
        self.folder = folder
        self.lines: list[str] = []
        """The log."""
        self._logged = asyncio.Event()
        self.progress: list[Progress] = []
        self.loop = asyncio.new_event_loop()
        options.setdefault("sample_after", 1.0)
        self.worker = self.do(self._make(interpreter or Interpreter(sys.executable), options))

    async def _make(self, interpreter: Interpreter, options: dict[str, Any]) -> Worker:
        return Worker(interpreter, cwd=str(self.folder), log=self._log, **options)

    def _log(self, line: str) -> None:
        self.lines.append(line)
        self._logged.set()

    def move_to(self, folder: Path) -> None:
        """Write files into another folder from now on, and clear the log. The process keeps its working directory."""
        self.folder = folder
        self.lines.clear()
        self.progress.clear()

    async def logged(self, holds: Callable[[], T | None]) -> T:
        """Wait until `holds`, called after each line of the log, returns a true value."""
        while not (logged := holds()):
            self._logged.clear()
            await self._logged.wait()
        return logged

    def do(self, work: Coroutine[Any, Any, T], deadline: float = DEADLINE) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, deadline))

    def do_command(self, command: Coroutine[Any, Any, T]) -> T:
        """Do a use case with this worker: it neither starts one of its own nor ends this one."""

        def start(started: StartedWorker, *_: Any, **__: Any) -> None:
            started.choice = self.worker.interpreter

        async def ready(_: StartedWorker) -> Worker:
            await self.worker.start()
            return self.worker

        async def close(_: StartedWorker) -> None:
            """The next command uses it as well."""

        with unittest.mock.patch.multiple(
            StartedWorker, __init__=start, is_ready=True, ready=ready, close=close
        ):
            return self.do(command, COMMAND_DEADLINE)

    def request(self, source: str, name: str = "f", *, file: str = "model.py", **options: Any) -> RunRequest:
        """Write `source` to `file` and create the request to run its target `name`."""
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
        return make_request(path, source, name, **options)

    def run(self, request: RunRequest) -> Answer | Refused:
        self.progress.clear()
        return self.do(self.worker.run(request, self.progress.append))

    def report(self, request: RunRequest) -> Report:
        answer = self.run(request)
        assert isinstance(answer, Answer), answer
        assert answer.id == request.id
        return answer.report

    def analyse(self, source: str, name: str = "f", **options: Any) -> Report:
        return self.report(self.request(source, name, **options))

    def stopped(
        self,
        source: str,
        name: str = "f",
        *,
        seconds: float,
        reached: Callable[[Report], bool] = prints_reached,
        **options: Any,
    ) -> Report:
        """Run what does not end, until its limit. A machine that is too busy to reach its end gets a longer limit."""
        while True:
            report = self.analyse(source, name, seconds=seconds, **options)
            if reached(report):
                return report
            seconds *= 4
            assert seconds < DEADLINE, report

    def canceled_at(self, source: str, wanted: Callable[[Progress], bool]) -> None:
        """Run what does not end, and cancel it when it shows a wanted progress."""
        request = self.request(source, seconds=DEADLINE)
        self.progress.clear()

        async def run() -> None:
            is_shown = asyncio.Event()

            def show(progress: Progress) -> None:
                self.progress.append(progress)
                if wanted(progress):
                    is_shown.set()

            task = asyncio.ensure_future(self.worker.run(request, show))
            shown = asyncio.ensure_future(is_shown.wait())
            await asyncio.wait({task, shown}, return_when=asyncio.FIRST_COMPLETED)
            assert is_shown.is_set(), self.progress
            task.cancel()
            await asyncio.wait({task})

        self.do(run())

    def failure(self, source: str, name: str = "f", **options: Any) -> Failure:
        """Run it and return its one failure."""
        report = self.analyse(source, name, **options)
        assert len(report.failures) == 1, report.failures
        assert report.failures[0].next_step
        return report.failures[0]

    def close(self) -> None:
        self.do(self.worker.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


def body(text: str) -> str:
    """A program: `f` has a graph break, and then the body `text` from line 5 on."""
    indented = "\n".join(f"    {line}" for line in text.splitlines())
    return (
        "import os, sys, torch\n# fuselight: f(f32[4])\ndef f(x):\n    torch._dynamo.graph_break()\n"
        f"{indented}\n    return x.sin()\n"
    )


def wait_gone(pid: int, seconds: float = DEADLINE) -> None:
    """Wait until a process has ended; a zombie counts as ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([descriptor], [], [], seconds)
        assert ended, f"process {pid} lives on"
    finally:
        os.close(descriptor)


def make_request(
    path: Path,
    source: str,
    name: str,
    *,
    seconds: float = 60.0,
    memory_mb: int = 8192,
    output_kb: int = 64,
    overlays: dict[str, str] | None = None,
    **plan: Any,
) -> RunRequest:
    lines = source.splitlines()
    directives = tuple(
        DirectiveLine(number, len(line[: match.start("text")].encode()), match["text"])
        for number, line in enumerate(lines, 1)
        if (match := _DIRECTIVE.search(line))
    )
    last = name.rpartition(".")[2]
    defined = [
        n for n, line in enumerate(lines, 1) if re.match(rf"\s*((async )?def|class) {last}\b|{last} =", line)
    ]
    text = lines[defined[0] - 1].strip() if defined else ""
    kind = (
        "module" if text.startswith("class") else "method" if "." in name else "function" if name else "main"
    )
    line = defined[0] if defined else 1
    compiled = (line > 1 and "torch.compile" in lines[line - 2]) or "torch.compile" in text
    main = next((n for n, text in enumerate(lines, 1) if text.startswith("if __name__")), None)
    return CaptureRequest(
        id=7,
        generation=3,
        target=Target(str(path), name, kind, line, compiled),
        inputs=InputsPlan(directives=directives, main_line=main, **plan),
        roots=(str(path.parent),),
        overlays=overlays or {},
        limits=Limits(seconds, memory_mb, output_kb),
    )


__all__ = ["DEADLINE", "GOOD", "LiveWorker", "body", "make_request", "replace", "wait_gone"]

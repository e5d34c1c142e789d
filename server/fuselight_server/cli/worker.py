"""The worker of one command: started before it is needed, and asked for one report at a time.

Invariant: each request gives a report; a worker that cannot start or answer gives one that says so.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.protocol import Answer
from fuselight.report import Culprit, Failure
from fuselight_server.cli.terminal import print_untested, standard_error
from fuselight_server.findings.failures import failure_report
from fuselight_server.interpreters import InterpreterChoice, NoInterpreterError, choose
from fuselight_server.measured.timing_stats import has_times
from fuselight_server.store import project_root

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.protocol import Progress, Refused, RunRequest
    from fuselight.report import Report
    from fuselight_server.cli.options import CommandOptions
    from fuselight_server.worker_client.client import Worker


class StartedWorker:
    """The worker of one command, which starts when this is made."""

    def __init__(self, options: CommandOptions, *, sample_after: float = 5.0) -> None:
        self._problem: NoInterpreterError | None = None
        self.choice = InterpreterChoice("", "")
        self._worker: Worker | None = None
        try:
            self.choice = choose(options.python, project_root(options.paths[0]), os.environ)
        except NoInterpreterError as problem:
            self._problem = problem
            return
        from fuselight_server.worker_client.client import Worker  # noqa: PLC0415 - not for --help
        from fuselight_server.worker_client.process import Interpreter  # noqa: PLC0415 - the same

        log = standard_error().print if options.is_verbose else _ignore
        self._worker = Worker(
            Interpreter(self.choice.executable), cwd=str(Path.cwd()), log=log, sample_after=sample_after
        )
        self._start = asyncio.create_task(self._worker.start())

    async def ready(self) -> Worker:
        """The worker, once it has started: one that cannot start refuses its runs with the reason.

        Prints a notice if its torch is untested.
        """
        if self._worker is None:
            raise self._problem or NoInterpreterError("no Python was found")
        await asyncio.wait({self._start})
        if self._worker.hello is not None:
            print_untested(self._worker.hello.versions.torch)
        return self._worker

    async def close(self) -> None:
        """End it, started or not."""
        if self._worker is None:
            return
        self._start.cancel()
        await asyncio.gather(self._start, return_exceptions=True)
        await self._worker.close()


async def run_once(
    worker: Worker, request: RunRequest, choice: InterpreterChoice, show: Callable[[str], None]
) -> Report:
    """The run's report. A failed run gives a report of its failure, with what a benchmark had measured."""
    measured: list[Report] = []

    def progress(event: Progress) -> None:
        show(event.detail or event.phase)

    def partly(report: Report) -> None:
        measured[:] = [report] if has_times(report.measured) else []

    answer = await worker.run(request, progress, partly)
    if isinstance(answer, Answer):
        return answer.report
    refused = _refused(answer, worker, request, choice)
    return dataclasses.replace(measured[0], failures=refused.failures) if measured else refused


def _refused(answer: Refused, worker: Worker, request: RunRequest, choice: InterpreterChoice) -> Report:
    failure = answer.failure or Failure(Culprit.FUSELIGHT, "damaged_answer", f"the run was {answer.reason}")
    if failure.culprit is Culprit.ENVIRONMENT:
        named = "" if choice.executable in failure.message else f" ({choice.executable})"
        message = f"{failure.message}{named}; this interpreter comes from {choice.why}"
        step = failure.next_step or "Name an interpreter that has torch with --python PATH"
        failure = Failure(
            culprit=failure.culprit,
            kind=failure.kind,
            message=message,
            next_step=step,
            traceback=failure.traceback,
        )
    return failure_report(request, failure, worker.hello.versions if worker.hello else None)


def _ignore(_line: str) -> None:
    """No log is shown."""

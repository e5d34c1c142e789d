"""The targets of a command's paths, and the loop that runs them.

Invariant: one worker for all of them, one run after the other; what cannot be read or does not exist is a problem, and
the other targets run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.report import Problem
from fuselight_server.cli.outcome import CheckOutcome
from fuselight_server.cli.sources import python_files, read_text, shown_path
from fuselight_server.cli.worker import StartedWorker, run_once
from fuselight_server.runs.planning import PlannedRun, RunOptions, default_runs, named_runs
from fuselight_server.store import Store, project_root, recorded_calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from fuselight.protocol import RunRequest
    from fuselight.report import Report
    from fuselight_server.cli.options import CommandOptions
    from fuselight_server.interpreters import InterpreterChoice
    from fuselight_server.static.reading import Reading
    from fuselight_server.worker_client.client import Worker

Job = tuple[PlannedRun, RunOptions]
"""A run, and what is the same for every run of its project."""


@dataclass(frozen=True)
class TargetRun:
    """The run of one target, and the worker that does it."""

    request: RunRequest
    worker: Worker
    choice: InterpreterChoice
    """The interpreter, and why that one."""
    show: Callable[[str], None]
    """Shows progress."""

    async def report(self, request: RunRequest | None = None) -> Report:
        """The report of the request, or of another request in its place."""
        return await run_once(self.worker, request or self.request, self.choice, self.show)


async def report_each(
    options: CommandOptions,
    show: Callable[[str], None],
    report_of: Callable[[TargetRun, CheckOutcome], Awaitable[Report]],
    *,
    sample_after: float = 5.0,
) -> CheckOutcome:
    """Make a report of each target of the paths, in one worker, which is closed at the end."""
    worker = StartedWorker(options, sample_after=sample_after)
    outcome = CheckOutcome(interpreter=worker.choice.executable, why=worker.choice.why)
    try:
        outcome.readings = await asyncio.to_thread(read_sources, options.paths, outcome)
        outcome.problems.extend(unparsed(outcome.readings.values()))
        jobs = planned_jobs(outcome.readings, outcome, options)
        for target_run in target_runs(jobs, await worker.ready(), worker.choice, show):
            outcome.reports.append(await report_of(target_run, outcome))
    finally:
        await worker.close()
    return outcome


def target_runs(
    jobs: list[Job], worker: Worker, choice: InterpreterChoice, show: Callable[[str], None]
) -> Iterator[TargetRun]:
    """A run for each job, in order."""
    for number, (planned, run_options) in enumerate(jobs, 1):
        request = planned.request(number, number, run_options)
        if number == len(jobs):  # there is no later run to import anything for
            request = dataclasses.replace(request, preload=False)
        head = f"{number}/{len(jobs)} {shown_path(request.target.path)}: {request.target.name or '__main__'}"
        yield TargetRun(request, worker, choice, lambda text, head=head: show(f"{head}: {text}"))  # type: ignore[misc] # mypy infers no default


def texts_of(paths: Iterable[Path], outcome: CheckOutcome) -> dict[str, str]:
    """The text of each file by its path; a file that cannot be read is a problem."""
    texts: dict[str, str] = {}
    for path in python_files(paths):
        text = read_text(path)
        if isinstance(text, Problem):
            outcome.problems.append(text)
        else:
            texts[str(path)] = text
    return texts


def read_sources(paths: Iterable[Path], outcome: CheckOutcome) -> dict[str, Reading]:
    """Every Python file of the paths, read; a file that cannot be read is a problem."""
    return readings_of(texts_of(paths, outcome))


def readings_of(texts: dict[str, str]) -> dict[str, Reading]:
    """What static reading knows of each text."""
    from fuselight_server.static.document import read_source  # noqa: PLC0415 - while the worker starts

    return {path: read_source(path, text) for path, text in texts.items()}


def unparsed(readings: Iterable[Reading]) -> Iterator[Problem]:
    """Yield a problem for each file that does not parse: nothing of it is run."""
    for reading in readings:
        if reading.syntax_error is not None:
            what = f"{shown_path(reading.path)}:{reading.syntax_error.line}"
            yield Problem("source", what, "syntax error, so nothing in this file was run")


def planned_jobs(
    readings: dict[str, Reading],
    outcome: CheckOutcome,
    options: CommandOptions,
    *,
    default_sizes: dict[str, int] | None = None,
) -> list[Job]:
    """Every run of every file; a named target that does not exist is a problem."""
    jobs: list[Job] = []
    stores: dict[Path, Report | None] = {}
    targets = options.targets
    for path, reading in readings.items():
        if reading.syntax_error is not None:
            continue
        root = project_root(Path(path))
        if root not in stores:
            stores[root] = Store.at(root).read_report()
        run_options = RunOptions(
            roots=(str(root),),
            limits=options.limits,
            default_sizes=default_sizes or {},
            recorded=recorded_calls(stores[root], path),
        )
        planned = named_runs(reading, targets, run_options) if targets else default_runs(reading, run_options)
        jobs += [(one, run_options) for one in planned]
    known = {one.name for reading in readings.values() for one in reading.targets}
    known |= {one.target.name or "__main__" for one, _ in jobs}
    for name in targets:
        if name not in known:
            where = ", ".join(map(shown_path, readings))
            why = f"no class or function of this name in {where}{_suggestion(name, known)}"
            outcome.problems.append(Problem("targets", name, why))
    return jobs


def _suggestion(name: str, known: Iterable[str]) -> str:
    """Offer the name that was probably meant."""
    lowered = {one.lower(): one for one in sorted(known)}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    return f"; did you mean {lowered[close[0]]}?" if close else ""

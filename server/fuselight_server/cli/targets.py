"""The targets of a command's paths, and the loop that runs them.

Invariant: one worker for all of them, one run after the other; what cannot be read or is not there is a problem, and
the rest goes on.
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.report import Problem
from fuselight_server.cli.outcome import Outcome
from fuselight_server.cli.sources import python_files, read_text, shown_path
from fuselight_server.cli.started import StartedWorker, run_once
from fuselight_server.plan import PlannedRun, RunOptions, default_runs, named_runs
from fuselight_server.store import Store, project_root, recorded_calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from fuselight.protocol import Analyse, Limits
    from fuselight.report import Report
    from fuselight_server.interpreters import Choice
    from fuselight_server.static.reading import Reading
    from fuselight_server.worker_process import Worker

NO_TARGET = (
    "no target: name one with --target, or write above it how to call it, as `# fuselight: Net()(f32[8, 16])` does: "
    "docs/inputs.md"
)
"""What to do where there is nothing to run."""

Job = tuple[PlannedRun, RunOptions]
"""A run, and what is the same for every run of its project."""


@dataclass(frozen=True)
class Turn:
    """One target's turn in the loop."""

    request: Analyse
    worker: Worker
    choice: Choice
    """The interpreter, and why that one."""
    say: Callable[[str], None]
    """Told of the run's progress."""

    async def run(self, request: Analyse | None = None) -> Report:
        """The report of the request, or of another one in its place."""
        return await run_once(self.worker, request or self.request, self.choice, self.say)


async def report_each(
    paths: tuple[Path, ...],
    worker: StartedWorker,
    say: Callable[[str], None],
    report_of: Callable[[Turn, Outcome], Awaitable[Report]],
    *,
    targets: tuple[str, ...],
    limits: Limits,
) -> Outcome:
    """Give each target of the paths its turn in `worker`, which is closed in the end."""
    outcome = Outcome(interpreter=worker.choice.executable, why=worker.choice.why)
    try:
        outcome.readings = await asyncio.to_thread(read_sources, paths, outcome)
        outcome.problems.extend(unparsed(outcome.readings.values()))
        jobs = planned_jobs(outcome.readings, outcome, targets=targets, limits=limits)
        for turn in turns(jobs, await worker.ready(), worker.choice, say):
            outcome.reports.append(await report_of(turn, outcome))
    finally:
        await worker.close()
    return outcome


def turns(jobs: list[Job], worker: Worker, choice: Choice, say: Callable[[str], None]) -> Iterator[Turn]:
    """A turn for each job, in order."""
    for number, (planned, run_options) in enumerate(jobs, 1):
        request = planned.request(number, number, run_options)
        if number == len(jobs):  # there is no later run to import anything for
            request = dataclasses.replace(request, preload=False)
        head = f"{number}/{len(jobs)} {shown_path(request.target.path)}: {request.target.name or '__main__'}"
        yield Turn(request, worker, choice, functools.partial(_say, say, head))


def _say(say: Callable[[str], None], head: str, text: str) -> None:
    say(f"{head}: {text}")


def texts_of(paths: Iterable[Path], outcome: Outcome) -> dict[str, str]:
    """The text of each file by its path; one that cannot be read is a problem."""
    texts: dict[str, str] = {}
    for path in python_files(paths):
        text = read_text(path)
        if isinstance(text, Problem):
            outcome.problems.append(text)
        else:
            texts[str(path)] = text
    return texts


def read_sources(paths: Iterable[Path], outcome: Outcome) -> dict[str, Reading]:
    """Every Python file of the paths, read; one that cannot be read is a problem."""
    return readings_of(texts_of(paths, outcome))


def readings_of(texts: dict[str, str]) -> dict[str, Reading]:
    """What static reading knows of each text."""
    from fuselight_server.static.document import read_source  # noqa: PLC0415 - while the worker starts

    return {path: read_source(path, text) for path, text in texts.items()}


def unparsed(readings: Iterable[Reading]) -> Iterator[Problem]:
    """Yield a problem for each file of which nothing is run, as it is no Python."""
    for reading in readings:
        if reading.syntax_error is not None:
            what = f"{shown_path(reading.path)}:{reading.syntax_error.line}"
            yield Problem("source", what, "it does not parse, so nothing in this file was run")


def planned_jobs(
    readings: dict[str, Reading],
    outcome: Outcome,
    *,
    targets: tuple[str, ...],
    limits: Limits,
    default_sizes: dict[str, int] | None = None,
) -> list[Job]:
    """Every run of every file; a target that was named and is nowhere is a problem."""
    jobs: list[Job] = []
    stores: dict[Path, Report | None] = {}
    for path, reading in readings.items():
        if reading.syntax_error is not None:
            continue
        root = project_root(Path(path))
        if root not in stores:
            stores[root] = Store.at(root).read_report()
        run_options = RunOptions(
            roots=(str(root),),
            limits=limits,
            default_sizes=default_sizes or {},
            recorded=recorded_calls(stores[root], path),
        )
        planned = named_runs(reading, targets, run_options) if targets else default_runs(reading, run_options)
        jobs += [(one, run_options) for one in planned]
    there = {one.name for reading in readings.values() for one in reading.targets}
    ran = {one.target.name or "__main__" for one, _ in jobs}
    for name in targets:
        if name not in there | ran:
            where = ", ".join(map(shown_path, readings))
            why = f"no class or function of this name in {where}{_alike(name, there | ran)}"
            outcome.problems.append(Problem("targets", name, why))
    return jobs


def _alike(name: str, there: Iterable[str]) -> str:
    """Offer the name that was probably meant."""
    lowered = {one.lower(): one for one in sorted(there)}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    return f"; there is {lowered[close[0]]}" if close else ""

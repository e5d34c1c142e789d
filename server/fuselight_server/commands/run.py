"""What the processes of a program have recorded, as one job: findings, ranks, and which process failed where.

Invariant: nothing runs here. A process is said to have failed only where its launcher reports that.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.report import Location
from fuselight.shared.started_processes import ProcessEnd, logs_in
from fuselight.shared.worker_protocol import signal_name
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.opened_job import OpenedJob, OpenedProcess
from fuselight_server.commands.sources import shown_path
from fuselight_server.jobs.ranks.flight_recorder import DumpPlace
from fuselight_server.jobs.trace_log.log_ends import log_end

_SIGTERM = getattr(signal, "SIGTERM", 15)


@dataclass(frozen=True)
class ProcessRemark:
    """What is to be known of the end of a process."""

    label: str
    text: str
    failed: bool


async def open_run(
    logs: tuple[Path, ...],
    source: tuple[Path, ...],
    started: float,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    dumps: str = "",
    snapshots: tuple[Path, ...] = (),
) -> tuple[OpenedJob, ...]:
    """Read what the processes of a program have recorded. Raises CommandError, and CancelledError once canceled.

    `source`: folders with the user's files; `started`: seconds since the epoch when the program was started. `dumps`:
    the start of the paths to which the user has torch write dumps of its flight recorder. `snapshots`: of the
    allocator, in the folder of the logs; there are logs or snapshots.
    """
    folder = (*logs, *snapshots)[0].parent
    # A folder that has nothing else gives the job its name.
    has_others = set(map(str, logs)) != logs_in(str(folder))
    paths = (*logs, *snapshots) if has_others else (folder,)
    request = OpenRequest(paths, source, ran_here=started, dumps=DumpPlace(dumps, started))
    return await open_jobs(request, show, token)


def process_remarks(
    jobs: Iterable[OpenedJob], ends: Collection[ProcessEnd], interrupted_at: float | None = None
) -> list[ProcessRemark]:
    """The processes that failed, the cause first, then those whose logs end within a compile.

    `interrupted_at`: when Ctrl-C ended the program, seconds since the epoch.
    """
    processes = [(job, process) for job in jobs for process in job.processes]
    remarks = []
    remaining = list(processes)
    for end in _causes(ends):
        own = [item for item in processes if _is_of(item[1], end)]
        remaining = [item for item in remaining if item not in own]
        compiling = next(
            (text for job, process in own for text in _compiling(job, process, interrupted_at)), ""
        )
        label = _label(end, own[0][1] if own else None)
        text = f"{_end_text(end)}{compiling and f'; {compiling}'}"
        remarks.append(ProcessRemark(label, text, failed=True))
    for job, process in remaining:
        remarks += [
            ProcessRemark(process.label, text, failed=False)
            for text in _compiling(job, process, interrupted_at)
        ]
    return remarks


def _causes(ends: Collection[ProcessEnd]) -> list[ProcessEnd]:
    """Without the processes that a launcher ended because another one had failed."""
    causes = [end for end in ends if end.code != -_SIGTERM]
    return causes or list(ends)


def _is_of(process: OpenedProcess, end: ProcessEnd) -> bool:
    if end.pid is not None and process.log.process is not None:
        return process.log.process == end.pid
    return process.log.rank is not None and process.log.rank == end.rank


def _label(end: ProcessEnd, process: OpenedProcess | None) -> str:
    """`rank 3`, or `process 4121 (number 1 of those that were spawned)`."""
    if process is not None and process.log.rank is not None:
        return process.label
    if end.rank is not None:
        return f"rank {end.rank}"
    name = f"process {end.pid}" if end.pid is not None else "a process"
    return name if end.number is None else f"{name} (number {end.number} of those that were spawned)"


def _end_text(end: ProcessEnd) -> str:
    if end.error:
        return f"failed with `{end.error}`"
    if end.code is None:
        return "failed"
    if end.code >= 0:
        return f"ended with exit code {end.code}"
    text = f"was ended by {signal_name(-end.code)}"
    if -end.code == getattr(signal, "SIGKILL", 9):
        text += ", which is what happens when memory runs out"
    return text


def _compiling(job: OpenedJob, process: OpenedProcess, interrupted_at: float | None) -> Iterator[str]:
    """The compile that a log ends in, or that Ctrl-C has ended."""
    compiled = log_end(process.log).compile
    if compiled is not None:
        yield from _compile_text(job, compiled.location, "its log ends while {} was being compiled")
    elif interrupted_at is not None and _ends_in_interrupt(process, interrupted_at):
        last = process.log.compiles[-1].location
        yield from _compile_text(job, last, "was compiling {} when it was interrupted")


def _compile_text(job: OpenedJob, location: Location | None, text: str) -> Iterator[str]:
    if location is not None:
        local = job.files.shown(location)
        yield text.format(f"`{local.function}` ({shown_path(local.path)}:{local.line})")


def _ends_in_interrupt(process: OpenedProcess, interrupted_at: float) -> bool:
    """Whether Ctrl-C ended the last compile: torch records its end then, with no guards and no failure.

    A process that does not compile at that moment writes nothing more into its log.
    """
    metrics = process.log.compiles[-1].metrics if process.log.compiles else None
    if metrics is None or metrics.guards is not None or metrics.fail_type is not None:
        return False
    try:
        return Path(process.log.file).stat().st_mtime >= interrupted_at
    except OSError:
        return False

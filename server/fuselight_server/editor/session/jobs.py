"""Opens the logs of jobs for the editor, and closes them.

Invariant: nothing of a job runs, so that logs open in a workspace that is not trusted, too. What is shown while logs
are read is replaced by the whole result, and is gone after a cancel.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.formatting import format_count
from fuselight_server.commands.open import ChooseFile, OpenRequest, open_jobs
from fuselight_server.commands.opened_job import OpenedJob
from fuselight_server.editor.results.jobs import JobResult, job_result_of
from fuselight_server.editor.session.state import State
from fuselight_server.jobs.reports.mapping import is_of_job

_PROGRESS_SECONDS = 0.1
"""Least time between two texts of progress."""


@dataclass(frozen=True)
class SourceCoverage:
    """Which files of a job's own code are in the source folders."""

    mapped: int
    missing: tuple[str, ...]
    """Paths in the job."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether none of them is here, so that findings have no local lines."""
        return bool(self.missing) and not self.mapped


@dataclass
class Opening:
    """Logs that are being read."""

    source: str
    """URI of the log or folder."""
    token: CancelToken = field(default_factory=CancelToken)
    words: str = "reading"
    """Its progress."""
    is_followed: bool = False
    """Whether it goes on while the logs grow."""


class JobSession:
    """The openings in progress, and what becomes of them."""

    def __init__(self, state: State) -> None:
        """Start with none."""
        self._state = state
        self.openings: dict[str, Opening] = {}
        """By URI of the log or folder."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when an opening began, moved on or ended, and when jobs were opened or closed."""

    async def open(
        self,
        source: str,
        paths: tuple[Path, ...],
        folders: tuple[Path, ...],
        choose: ChooseFile,
        *,
        is_followed: bool = False,
    ) -> tuple[JobResult, ...]:
        """Read logs and show their jobs; replaces those of an earlier opening of `source`.

        `folders` have the source of the job. With `is_followed` it goes on while the logs grow; a cancel then keeps
        what was read. Raises CommandError, and asyncio.CancelledError once canceled.
        """
        earlier = self.openings.pop(source, None)
        if earlier is not None:
            earlier.token.cancel()
        opening = self.openings[source] = Opening(source, is_followed=is_followed)
        self.on_change()
        is_shown = False

        def show_part(opened: tuple[OpenedJob, ...]) -> None:
            nonlocal is_shown
            if self.openings.get(source) is opening:
                is_shown = True
                if is_followed:
                    opening.words = read_so_far(opened)
                self._accept(source, opened)

        def show(words: str) -> None:
            if not (is_followed and is_shown):  # what was read says more than which log is read
                self._moved(opening, words)

        try:
            opened = await open_jobs(
                OpenRequest(paths, folders, is_followed=is_followed),
                _Throttled(show),
                opening.token,
                choose=choose,
                on_partial=show_part,
            )
        except BaseException:
            if is_shown and self.openings.get(source) is opening:
                self._accept(source, ())
            raise
        finally:
            is_current = self.openings.get(source) is opening
            if is_current:
                del self.openings[source]
            self.on_change()
        return self._accept(source, opened) if is_current else ()

    def cancel(self, source: str) -> None:
        """End the reading of logs."""
        opening = self.openings.get(source)
        if opening is not None:
            opening.token.cancel()

    def stop_following(self) -> None:
        """Read on in no job; what was read stays."""
        for opening in list(self.openings.values()):
            if opening.is_followed:
                opening.token.cancel()

    def close(self, ids: tuple[str, ...]) -> None:
        """Close jobs and remove their findings. Those that are followed are read no further."""
        for source in {self._state.jobs[key].source for key in ids if key in self._state.jobs}:
            if source in self.openings and self.openings[source].is_followed:
                self.openings.pop(source).token.cancel()
        self._state.close_jobs(ids)
        self.on_change()

    def end(self) -> None:
        """End every opening: the session ends."""
        for opening in list(self.openings.values()):
            opening.token.cancel()

    def _moved(self, opening: Opening, words: str) -> None:
        if self.openings.get(opening.source) is opening and opening.words != words:
            opening.words = words
            self.on_change()

    def _accept(self, source: str, opened: tuple[OpenedJob, ...]) -> tuple[JobResult, ...]:
        jobs = tuple(job_result_of(number, source, job) for number, job in enumerate(opened))
        self._state.accept_jobs(jobs, source)
        self.on_change()
        return jobs


class _Throttled:
    """Brings texts from the thread that reads logs to the event loop, not too often."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show, self._loop = show, asyncio.get_running_loop()
        self._next = 0.0

    def __call__(self, words: str) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PROGRESS_SECONDS
            self._loop.call_soon_threadsafe(self._show, words)


def sources_of(opened: OpenedJob) -> SourceCoverage:
    """Return which files of the job's own code are here."""
    own = [path for path in opened.files.evidence if is_of_job(path)]
    missing = tuple(path for path in own if path not in opened.files.local)
    return SourceCoverage(len(own) - len(missing), missing)


def summary_of(opened: OpenedJob) -> str:
    """`12 findings in 8 processes`, `1 finding in 2 snapshots`."""
    findings = format_count(len(opened.findings), "finding")
    return f"{findings} in {opened.size}"


def read_so_far(opened: tuple[OpenedJob, ...]) -> str:
    """`12 compiles, 3 findings in 2 processes`: of all jobs of the logs that are followed."""
    processes = [process for job in opened for process in job.processes]
    compiles = format_count(sum(len(process.log.compiles) for process in processes), "compile")
    findings = format_count(sum(len(job.findings) for job in opened), "finding")
    return f"{compiles}, {findings} in {format_count(len(processes), 'process', 'processes')}"

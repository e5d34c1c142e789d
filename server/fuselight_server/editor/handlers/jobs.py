"""The logs of jobs for the client: requests that open and close them, their page, progress.

Invariant: a job that cannot be opened is answered with a message that says what to do, never with an error.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from fuselight.shared.report.visible import visible
from fuselight_server.base.command_error import CommandError
from fuselight_server.editor.handlers.protocol import JOBS_CHANGED, Written, written_page
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.handlers.timed_requests import shown_path
from fuselight_server.editor.handlers.work_progress import ShownWork, WorkProgress
from fuselight_server.editor.messages.answers import FollowedJob, JobEntry, JobsChanged, OpenedJobs
from fuselight_server.editor.messages.params import CloseJobParams, JobParams, OpenJobParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.job_page import closed_page, page_of
from fuselight_server.editor.presenters.job_page_types import JobPage
from fuselight_server.editor.results.jobs import JobResult
from fuselight_server.editor.session.jobs import Opening, sources_of, summary_of
from fuselight_server.jobs.reports.mapping import AmbiguousFile

NONE_OF_THESE = "None of these"
_MAX_ASKED = 4
"""Files that a question offers."""


# Requests


async def open_job(server: Server, params: OpenJobParams) -> OpenedJobs:
    """Answer `fuselight/openJob`: read logs, and show their findings on the lines of the source."""
    paths = [path for uri in params.paths if (path := convert.path(uri)) is not None]
    if not paths:
        return _refused("Name a log or a folder with logs on this machine.")
    folders = _source_folders(server, params.source)
    if not folders:
        return _refused(
            "Open a folder with the job's source first, or choose one: findings appear on its lines.",
            needs_source=True,
        )
    try:
        jobs = await server.analysis.jobs.open(
            params.paths[0], tuple(map(Path, paths)), folders, _chooser(server), is_followed=params.follow
        )
    except CommandError as error:
        return _refused(str(error))
    except asyncio.CancelledError:
        return _refused("", canceled=True)
    return _opened(jobs)


def _source_folders(server: Server, chosen: Sequence[str]) -> tuple[Path, ...]:
    """The workspace folders, then the folders that the user has chosen for the source of jobs."""
    workspace = [folder.path for folder in server.state.folders.values() if folder.uri]
    others = [path for uri in chosen if (path := convert.path(uri)) is not None]
    return tuple(Path(path) for path in dict.fromkeys((*workspace, *others)) if Path(path).is_dir())


def _refused(message: str, *, needs_source: bool = False, canceled: bool = False) -> OpenedJobs:
    return {"jobs": [], "message": message, "needsSource": needs_source, "canceled": canceled}


def _opened(jobs: tuple[JobResult, ...]) -> OpenedJobs:
    elsewhere = [job for job in jobs if sources_of(job.opened).is_elsewhere]
    message = ""
    if elsewhere:
        first, *others = sources_of(elsewhere[0].opened).missing
        more = f" and {len(others):,} more" if others else ""
        message = (
            f"The source of the job is not in this workspace: `{first}`{more}. "
            "Choose the folder that has it, and its findings appear on its lines."
        )
    return {
        "jobs": [_described(job) for job in jobs],
        "message": message,
        "needsSource": bool(elsewhere),
        "canceled": False,
    }


def _described(job: JobResult) -> JobEntry:
    return {
        "id": job.id,
        "source": job.source,
        "name": job.opened.name,
        "when": job.when,
        "summary": summary_of(job.opened),
        "partial": job.opened.is_partial,
    }


def _followed(opening: Opening) -> FollowedJob:
    name = PurePath(convert.path(opening.source) or opening.source).name
    return {"name": visible(name), "words": visible(opening.words)}


def _chooser(server: Server) -> Any:
    async def choose(file: AmbiguousFile) -> str | None:
        """Ask which local file a file of the job is; None: none of them."""
        names = {shown_path(server, path): path for path in file.candidates[:_MAX_ASKED]}
        question = f"Which local file is `{file.path}` of the job?"
        answer = await server.ui.offer(question, (*names, NONE_OF_THESE))
        return names.get(answer or "")

    return choose


def close_job(server: Server, params: CloseJobParams) -> None:
    """Answer `fuselight/closeJob`: remove a job and its findings; without one, all of them."""
    ids = tuple(server.state.jobs) if params.job is None else (params.job,)
    server.analysis.jobs.close(ids)


async def answer_page(server: Server, params: JobParams) -> Written:
    """Answer `fuselight/job`: the page of a job, compared with another one if that is open."""
    job = server.state.jobs.get(params.job)
    shown = closed_page(params.job) if job is None else await page(server, job, params.against)
    return Written(await asyncio.to_thread(written_page, shown))


async def page(server: Server, job: JobResult, against: str | None) -> JobPage:
    """Make the page of a job, off the event loop."""
    base = server.state.jobs.get(against or "")
    others = tuple(other for other in server.state.jobs.values() if other is not job)
    return await asyncio.to_thread(page_of, job, base, others, _Shown(server).path)


class _Shown:
    """Paths as the page shows them. Read once: the page is made in a thread."""

    def __init__(self, server: Server) -> None:
        self._folders = sorted(
            (folder.path for folder in server.state.folders.values() if folder.uri), key=len, reverse=True
        )

    def path(self, path: str) -> str:
        """A path below its workspace folder; any other as a whole."""
        for folder in self._folders:
            if path.startswith(folder.rstrip(os.sep) + os.sep):
                return os.path.relpath(path, folder)
        return path


# Progress


class JobProgress:
    """Shows the logs that are being read, cancels what the user cancels, and lists the open jobs to the client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._progress: WorkProgress[str] = WorkProgress(server)
        """By the URI of the log or folder."""
        self._listed: JobsChanged = {"jobs": [], "followed": []}

    def update(self) -> None:
        """Begin, move on and end what the client shows."""
        self._list()
        openings = self._server.analysis.jobs.openings
        self._progress.show({source: _work(opening) for source, opening in openings.items()})

    def _list(self) -> None:
        openings = self._server.analysis.jobs.openings.values()
        listed: JobsChanged = {
            "jobs": [_described(job) for job in self._server.state.jobs.values()],
            "followed": [_followed(opening) for opening in openings if opening.is_followed],
        }
        if listed != self._listed:
            self._listed = listed
            self._server.announce(JOBS_CHANGED, listed)

    def cancel(self, token: str | int) -> bool:
        """Cancel the opening that a token belongs to; False where it is none."""
        source = self._progress.work_of(token)
        if source is not None:
            self._server.analysis.jobs.cancel(source)
        return source is not None


def _work(opening: Opening) -> ShownWork:
    return ShownWork(opening.words, "Following a job" if opening.is_followed else "Opening a job")

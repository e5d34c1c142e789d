"""What runs do, for the client: the status of each folder, and changes of timed runs.

Invariant: a status is sent when it changes, and `idle` with generation N only when every run up to N has ended and its
findings are published. `fuselight/measuredChanged` is sent once for each benchmark, and `fuselight/tunedChanged` for
each search, that began, moved on, ended, is of another text now or has its lines elsewhere, and for nothing else.
"""

from __future__ import annotations

import sys

from lsprotocol import types

from fuselight.shared.report import Tier
from fuselight.shared.worker_launch import platform_problem
from fuselight_server.editor.handlers.protocol import MEASURED_CHANGED, TUNED_CHANGED
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.answers import FolderState, FolderStatus, TargetChanged
from fuselight_server.editor.results.run_progress import describe, results_summary
from fuselight_server.editor.session.state import Folder
from fuselight_server.editor.session.target_device import choose
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.queue import Running


def statuses(server: Server) -> list[FolderStatus]:
    """Make the status of every workspace folder, and of what lies outside any."""
    folders = [folder for key, folder in server.state.folders.items() if key]
    return [_status(server, folder) for folder in folders]


def _status(server: Server, folder: Folder) -> FolderStatus:
    runs = server.analysis.runs
    running = [run for run in runs.in_flight.values() if run.job.worker_key.folder == folder.path]
    waiting = [job for job in runs.queue.waiting.values() if job.worker_key.folder == folder.path]
    interpreter = server.analysis.workers.interpreter(folder)
    state, text, detail = _words(
        server, folder, running, len(waiting), has_interpreter=interpreter is not None
    )
    return {
        "folder": folder.uri,
        "state": state,
        "text": text,
        "detail": detail,
        "generation": runs.settled,
        "interpreter": interpreter.executable if interpreter else None,
        "why": interpreter.why if interpreter else None,
        "torch": folder.torch,
        "device": choose(folder.settings).status(),
        "running": [run.job.key.words for run in running],
        "verifying": verifying(server, folder),
    }


def verifying(server: Server, folder: Folder) -> list[str]:
    """Titles of the fixes of a folder whose verification is in progress or waits."""
    active = server.analysis.fixes.tasks.active.values()
    return [task.title for task in active if server.state.folder_of(task.path) is folder]


def _words(  # noqa: PLR0911 - one return a state
    server: Server, folder: Folder, running: list[Running], waiting: int, *, has_interpreter: bool
) -> tuple[FolderState, str, str]:
    """State, text and detail."""
    if not server.state.trusted:
        return (
            "untrusted",
            "not trusted",
            "This workspace is not trusted: Fuselight reads its code, but runs none of it.",
        )
    if running:
        detail = "; ".join(describe(run) for run in running)
        if waiting:
            detail += f"; {waiting} waiting"
        starting = all(run.progress is None for run in running) and folder.torch is None
        name = running[0].job.key.words
        return ("starting", "starting", detail) if starting else ("running", name, detail)
    if not has_interpreter:
        return (
            "noInterpreter",
            "no interpreter",
            "No Python interpreter was found: select one that has torch.",
        )
    if folder.problem and platform_problem(sys.platform) is not None:
        return "idle", "no runs", folder.problem
    if folder.problem:
        return "noInterpreter", "no torch", folder.problem
    if folder.consent == "never":
        return "idle", "runs off", "Fuselight won't run code in this folder, as you chose."
    results = [
        target_result
        for target_result in server.state.results.values()
        if server.state.folder_of(target_result.key.path) is folder
    ]
    if not results:
        return "idle", "ready", "Save a file, or run a target from its code lens."
    return ("idle", *results_summary(results))


def cancelled(server: Server, params: types.WorkDoneProgressCancelParams) -> None:
    """Answer `window/workDoneProgress/cancel`."""
    works = (server.verifications, server.job_progress, server.repro_progress)
    if any(work.cancel(params.token) for work in works):
        return
    key = server.ui.run_of(params.token)
    if key is not None:
        server.analysis.runs.cancel([key])


class TimedRunNotifications:
    """Notifies the client of timed runs that began, moved on, ended, or are of another text now: once each."""

    def __init__(self) -> None:
        self._sent: dict[Key, tuple[object, ...]] = {}

    def update(self, server: Server) -> frozenset[str]:
        """Send what differs from what was sent last; return the files whose findings of benchmarks may differ, too."""
        runs = server.analysis.runs
        known: dict[Key, tuple[object, ...]] = {
            key: (
                measured_result.generation,
                measured_result.unfinished,
                measured_result.is_stored,
                measured_result.shown.stale,
                measured_result.shown.moves,
                measured_result.seconds,
            )
            for key, measured_result in server.state.measured.items()
        }
        for key, search in server.state.tunings.items():
            known[key] = (
                search.generation,
                search.unfinished,
                search.written,
                search.shown.stale,
                search.seconds,
            )
        now: dict[Key, tuple[object, ...]] = {}
        asked = server.analysis.consent.asked
        preparing = server.analysis.tunings.preparing
        in_flight = [
            key for key in (*runs.in_flight, *runs.queue.waiting, *asked, *preparing) if key.is_timed
        ]
        for key in (*known, *in_flight):
            running = runs.in_flight.get(key)
            now[key] = (
                *known.get(key, ()),
                key in in_flight,
                key in asked,
                key in preparing,
                describe(running) if running else "",
            )
        changed = [key for key in now.keys() | self._sent.keys() if now.get(key) != self._sent.get(key)]
        for key in changed:
            where: TargetChanged = {"uri": server.uri_of(key.path), "target": key.name}
            server.announce(TUNED_CHANGED if key.tier is Tier.TUNED else MEASURED_CHANGED, where)
        self._sent = now
        there = [server.state.measured[key] for key in changed if key in server.state.measured]
        return frozenset(path for measured_result in there for path in measured_result.paths())

"""Live runs: processes of a folder's worker that imported the texts of a target's last run, to trace edits in.

Invariant: a target has at most one, all targets together at most `MAX_LIVE_RUNS`, and it has the texts of the result
that it was started for. It ends with that result, when idle, when its files are closed, and with the worker.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from fuselight.shared.protocol import Answer, LiveReady, LiveRequest, Progress, Refused, Retrace, RunRequest
from fuselight.shared.report import Report
from fuselight_server.base.background import BackgroundTasks, log_failures
from fuselight_server.base.files import disk_text
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.target_result import keys_of
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.execution.runs.keys import Key

MAX_LIVE_RUNS = 3
"""Each keeps a process with the user's model."""
IDLE_SECONDS = 300.0
"""After so long without an edit a live run is ended."""
_MAX_FAILURES = 2
"""Live runs of one result that may end by themselves."""
_ENDED = "the tracer ended by itself; the log says why"


@runtime_checkable
class LiveWorker(Protocol):
    """A worker that keeps live runs."""

    async def run_live(
        self,
        request: LiveRequest,
        on_progress: Callable[[Progress], None],
        on_ready: Callable[[LiveReady], None],
    ) -> Answer | Refused:
        """Run until the live run ends; `retrace` works from `on_ready` on. Canceling it ends the live run."""
        ...

    async def retrace(
        self, request: Retrace, on_early: Callable[[Report], None] | None = None
    ) -> Answer | Refused:
        """Trace functions again; canceling it ends the trace. `on_early` gets what is found before the end."""
        ...


class RanTexts:
    """The texts that ran: from the request of the run, else from the disk or the editor, checked by their hash."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._requests: dict[Key, RunRequest] = {}
        """Of the last run of each target: it has the unsaved texts of then."""
        self._known: dict[tuple[Key, str], tuple[str, str]] = {}
        """Hash and text of the files that were edited since: a save replaces them on the disk."""

    def accepted(self, key: Key, request: RunRequest | None) -> None:
        """Keep the request of a target's new result, and what belongs to targets with results."""
        if request is not None:
            self._requests[key] = request
        captures = self._state.captures
        self._requests = {name: kept for name, kept in self._requests.items() if name in captures}
        self._known = {
            name: kept for name, kept in self._known.items() if name[0] in captures and name[0] != key
        }

    def last_request(self, key: Key) -> RunRequest | None:
        """Return the request of a target's last run; None for a run of an earlier session."""
        return self._requests.get(key)

    def remember(self, result: CaptureResult, path: str, text: str) -> None:
        """Keep the text of a file if it is the one that ran: an edit or another program may replace it everywhere."""
        wanted = result.report.files.get(path, "")
        if (result.key, path) not in self._known and wanted in keys_of(text):
            self._known[result.key, path] = wanted, text

    def text(self, result: CaptureResult, path: str) -> str | None:
        """Return the text of a file that ran; None where nobody has it any more."""
        wanted = result.report.files.get(path, "")
        known = self._known.get((result.key, path))
        if known is not None and known[0] == wanted:
            return known[1]
        document = self._state.documents.at(path)
        open_now = document.source.text if document is not None else None
        text = _text_of(wanted, self._overlay(result.key, path), path, open_now)
        if text is not None:
            self._known[result.key, path] = wanted, text
        return text

    async def overlays(self, result: CaptureResult) -> dict[str, str] | None:
        """Return the texts that ran of files which are others on the disk now; None where one is lost."""
        open_now = {
            document.path: document.source.text
            for document in self._state.documents.values()
            if document.runnable
        }
        known = {path: text for (key, path), (_, text) in self._known.items() if key == result.key}
        request = self._requests.get(result.key)
        kept = {**(request.overlays if request is not None else {}), **known}
        return await asyncio.to_thread(_overlays, dict(result.report.files), kept, open_now)

    def _overlay(self, key: Key, path: str) -> str | None:
        request = self._requests.get(key)
        return None if request is None else request.overlays.get(path)


def _overlays(files: dict[str, str], kept: dict[str, str], open_now: dict[str, str]) -> dict[str, str] | None:
    overlays = {}
    for path, wanted in files.items():
        text = _text_of(wanted, kept.get(path), path, open_now.get(path))
        if text is None:
            return None
        if disk_text(path) != text:
            overlays[path] = text
    return overlays


def _text_of(wanted: str, kept: str | None, path: str, open_now: str | None) -> str | None:
    for text in (kept, disk_text(path), open_now):
        if text is not None and wanted in keys_of(text):
            return text
    return None


@dataclass(eq=False)
class LiveRunHandle:
    """The live run of one result."""

    key: Key
    files: dict[str, str]
    """The hashes of the texts that it has imported."""
    worker: LiveWorker
    identity: int
    """For `Retrace.live`: no other live run of the session has it."""
    ready: LiveReady | None = None
    """Its functions, once it waits for traces."""
    used: float = field(default_factory=time.monotonic)
    timer: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None

    def traced(self, path: str) -> frozenset[str]:
        """Return the functions of a file that can be traced again."""
        known = self.ready.functions if self.ready is not None else ()
        return frozenset(function.name for function in known if function.path == path and not function.reason)

    def untraceable(self, path: str) -> dict[str, str]:
        """Return the functions of a file whose arguments were not kept, and why."""
        known = self.ready.functions if self.ready is not None else ()
        return {
            function.name: function.reason for function in known if function.path == path and function.reason
        }

    def entry(self, path: str) -> str | None:
        """Return the function of a file that the target's calls enter; None where it cannot be traced again."""
        if path != self.key.path:
            return None
        traced = self.traced(path)
        return next((text for text in (self.key.name, f"{self.key.name}.forward") if text in traced), None)

    async def retrace(
        self,
        path: str,
        text: str,
        names: Iterable[str],
        seconds: float,
        on_early: Callable[[Report], None] | None = None,
    ) -> Answer | Refused:
        """Trace functions of a file again with another text."""
        self.used = time.monotonic()
        if self.ready is None:
            return Refused(0, "no_live")
        request = Retrace(0, self.identity, path, text, tuple(names), seconds)
        return await self.worker.retrace(request, on_early)


class LiveRuns:
    """Starts and ends live runs."""

    def __init__(
        self,
        state: State,
        texts: RanTexts,
        *,
        worker: Callable[[Folder], LiveWorker | None],
        plan: Callable[[Key, str, RunRequest | None], RunRequest | None],
        moved: Callable[[LiveRunHandle], None],
    ) -> None:
        """Start with none. `moved` is called with a live run that is ready, or has ended by itself.

        `worker` gives the worker of a folder, if runs can work there; `plan` the request of a target, from the text of
        its file that ran and the request of that run.
        """
        self._state, self._texts = state, texts
        self._worker, self._plan, self._moved = worker, plan, moved
        self._runs: dict[Key, LiveRunHandle] = {}
        self._failures: dict[Key, int] = {}
        """How often the live run of each target's result has ended by itself."""
        self._tasks = BackgroundTasks(log_failures(state.log))
        self._numbers = itertools.count(1)

    def of(self, key: Key) -> LiveRunHandle | None:
        """Return the live run of a target."""
        return self._runs.get(key)

    def accepted(self, result: CaptureResult) -> None:
        """End the live run of an older result of a target, if that ran other texts."""
        self._failures = {key: count for key, count in self._failures.items() if key in self._state.captures}
        self._failures.pop(result.key, None)
        run = self._runs.get(result.key)
        if run is not None and run.files != result.report.files:
            self.end(run, "a newer run has ended")

    async def start(self, result: CaptureResult) -> str:
        """Start the live run of a result; returns why that cannot be, empty if there is one."""
        key = result.key
        if self._has_failed(key):
            return _ENDED
        overlays = await self._texts.overlays(result)
        if key in self._runs:
            return ""
        newest = self._state.captures.get(key)
        is_newest = newest is not None and newest.reported is result
        if not is_newest or self._has_failed(
            key
        ):  # a newer run, or another attempt, while the texts were read
            return _ENDED if is_newest else "a newer run has ended"
        text = self._texts.text(result, key.path)
        request = (
            None if overlays is None or text is None else self._plan(key, text, self._texts.last_request(key))
        )
        if request is None:
            return "the text of the last run is lost: save to run again"
        worker = self._worker(self._state.folder_of(key.path))
        if worker is None:
            return "no interpreter can run it: see the status bar"
        self._make_room()
        identity = next(self._numbers)
        request = replace(request, id=identity, overlays=overlays or {}, automatic=True)
        run = self._runs[key] = LiveRunHandle(key, dict(result.report.files), worker, identity)
        what = f"live run of {key.words}"
        run.task = self._tasks.start(self._keep(run, request.of_kind(LiveRequest)), what)
        run.task.add_done_callback(functools.partial(self._task_ended, run))
        self._state.log(f"live run of {key.words} in {key.path}")
        return ""

    def _task_ended(self, run: LiveRunHandle, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            # A defect of ours, which another attempt would meet again.
            self._failures[run.key] = _MAX_FAILURES
            self._forget(run)
            self._moved(run)

    def _has_failed(self, key: Key) -> bool:
        return self._failures.get(key, 0) >= _MAX_FAILURES

    def lost(self, run: LiveRunHandle) -> None:
        """Take in that the worker no longer has a live run."""
        self._failures[run.key] = self._failures.get(run.key, 0) + 1
        self.end(run, "the worker no longer has it")

    def end(self, run: LiveRunHandle, why: str) -> None:
        """End a live run."""
        self._state.log(f"live run of {run.key.words} is ended: {why}")
        self._forget(run)
        if run.task is not None:
            run.task.cancel()

    def end_where(self, condition: Callable[[LiveRunHandle], bool], why: str) -> None:
        """End the live runs for which `condition` holds."""
        for run in [run for run in self._runs.values() if condition(run)]:
            self.end(run, why)

    def forgive(self) -> None:
        """Let live runs that ended by themselves start again: their worker was replaced."""
        self._failures.clear()

    async def close(self) -> None:
        """End all."""
        self.end_where(lambda _run: True, "the session ends")
        await self._tasks.wait()

    async def _keep(self, run: LiveRunHandle, request: LiveRequest) -> None:
        """Wait for the end of a live run."""
        start = time.monotonic()

        def on_ready(ready: LiveReady) -> None:
            run.ready, run.used = ready, time.monotonic()
            count = sum(not function.reason for function in ready.functions)
            took = run.used - start
            self._state.log(f"live run of {run.key.words} is ready after {took:.2f} s: {count} functions")
            self._watch(run)
            self._moved(run)

        outcome = await run.worker.run_live(request, lambda _progress: None, on_ready)
        if self._runs.get(run.key) is not run:
            return
        self._forget(run)
        # One that never became ready would fail again.
        self._failures[run.key] = _MAX_FAILURES if run.ready is None else self._failures.get(run.key, 0) + 1
        if isinstance(outcome, Refused):
            failure, why = outcome.failure, outcome.reason
        else:
            failure, why = next(iter(outcome.report.failures), None), "it answered"
        self._state.log(f"live run of {run.key.words} has ended: {failure.message if failure else why}")
        self._moved(run)

    def _watch(self, run: LiveRunHandle) -> None:
        """End a live run once it has been idle for long."""
        left = run.used + IDLE_SECONDS - time.monotonic()
        if left <= 0:
            self.end(run, f"idle for {IDLE_SECONDS:g} s")
        else:
            run.timer = asyncio.get_running_loop().call_later(left, self._watch, run)

    def _make_room(self) -> None:
        """End the live runs that were used least recently, so that one more is allowed."""
        by_use = sorted(self._runs.values(), key=lambda run: run.used)
        for run in by_use[: max(len(by_use) + 1 - MAX_LIVE_RUNS, 0)]:
            self.end(run, "other targets need one")

    def _forget(self, run: LiveRunHandle) -> None:
        if run.timer is not None:
            run.timer.cancel()
        if self._runs.get(run.key) is run:
            del self._runs[run.key]

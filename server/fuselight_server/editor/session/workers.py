"""The workers of a session: started by the first run that needs one, and ended when they are replaced.

Invariant: a folder has at most one worker for runs and one for benchmarks, but for a worker that still has runs: it
ends once another is started and nothing waits for it. One benchmark or comparison of results runs at a time.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from fuselight.shared.protocol import Answer, Progress, Refused, RunRequest
from fuselight.shared.report import Failure, Report
from fuselight_server.base.formatting import format_count
from fuselight_server.base.settings import Interpreter, Settings
from fuselight_server.editor.results.run_progress import WAITING
from fuselight_server.editor.session.comparison_run import run_compared
from fuselight_server.editor.session.live_runs import LiveWorker
from fuselight_server.editor.session.session import Session
from fuselight_server.editor.session.state import Folder
from fuselight_server.execution.runs.kernel_cache import run_cached
from fuselight_server.execution.runs.keys import WorkerKey
from fuselight_server.execution.runs.queue import OwnedWorker, Run
from fuselight_server.explain.findings.failures import failure_report


def worker_key(folder: Folder, interpreter: Interpreter, *, for_benchmarks: bool = False) -> WorkerKey:
    """Return which worker runs the code of a folder, with the folder's settings as they are now."""
    return WorkerKey(
        executable=interpreter.executable,
        args=interpreter.args,
        folder=folder.path,
        environment=tuple(sorted(folder.settings.environment.items())),
        for_benchmarks=for_benchmarks,
    )


class Workers:
    """Starts, finds and ends workers."""

    def __init__(
        self,
        session: Session,
        *,
        make_worker: Callable[[WorkerKey, Settings, Callable[[str], None]], OwnedWorker],
        find_interpreter: Callable[[Folder], Interpreter | None],
    ) -> None:
        """Start with no worker."""
        self._session, self._state = session, session.state
        self._make_worker = make_worker
        self.find_interpreter = find_interpreter
        """Finds an interpreter for a folder whose settings name none."""
        self.benchmark_turn = asyncio.Lock()
        """Held by the benchmark or the comparison in flight."""
        self.started: dict[WorkerKey, OwnedWorker] = {}
        """The workers that have been started and not ended."""

    def interpreter(self, folder: Folder) -> Interpreter | None:
        """Return the interpreter for a folder: the client's choice, else the first that is found."""
        return folder.settings.resolved_interpreter or self.find_interpreter(folder)

    def of_folder(self, folder: Folder) -> OwnedWorker | None:
        """Return a worker of a folder, if one was started."""
        return next((worker for key, worker in self.started.items() if key.folder == folder.path), None)

    def run(self, key: WorkerKey) -> Run:
        """Return how to run a request in a worker, started if needed; benchmarks and comparisons run one at a time."""
        run = functools.partial(run_cached, self._start(key), self._state.log)
        if not key.for_benchmarks:
            return run
        return functools.partial(_run_serialized, functools.partial(run_compared, run), self.benchmark_turn)

    def live(self, folder: Folder) -> LiveWorker | None:
        """Return the worker of a folder for live runs; None where no run can work."""
        interpreter = self.interpreter(folder)
        if interpreter is None or folder.problem is not None:
            return None
        worker = self._start(worker_key(folder, interpreter))
        return worker if isinstance(worker, LiveWorker) else None

    def failure_report(self, key: WorkerKey, request: RunRequest, failure: Failure) -> Report:
        """Make the report of a run that failed, with the versions that its worker sent."""
        worker = self.started.get(key)
        versions = worker.hello.versions if worker and worker.hello else None
        return failure_report(request, failure, versions, executable=key.executable)

    async def end(self, folder: str | None) -> None:
        """End the workers of a folder (None: all); the next run starts fresh ones."""
        ended = [self.started.pop(key) for key in (*self.started,) if folder is None or key.folder == folder]
        if ended:
            self._state.log(f"{format_count(len(ended), 'worker')} of {folder or 'all folders'} stopped")
        await asyncio.gather(*(worker.close() for worker in ended))

    async def close(self) -> None:
        """End every worker at once."""
        await asyncio.gather(*(worker.close() for worker in self.started.values()), return_exceptions=True)
        self.started.clear()

    def _start(self, key: WorkerKey) -> OwnedWorker:
        """Return the worker of `key`, started if needed."""
        worker = self.started.get(key)
        if worker is None:
            folder = self._state.folders.get(key.folder)
            settings = folder.settings if folder else self._state.outside_settings()
            self._state.log(f"worker for {key.folder}: {key.executable}")
            self._end_idle(key)
            worker = self.started[key] = self._make_worker(key, settings, self._state.log)
        return worker

    def _end_idle(self, successor: WorkerKey) -> None:
        """End the workers that `successor` replaces, as another interpreter was found; not those with runs."""
        busy = {job.worker_key for job in self._session.runs.queue.jobs()}
        for key in [key for key in self.started if key not in busy]:
            if (key.folder, key.for_benchmarks) == (successor.folder, successor.for_benchmarks):
                self._session.tasks.start(self.started.pop(key).close(), "ending a worker")


async def _run_serialized(
    run: Run,
    turn: asyncio.Lock,
    request: RunRequest,
    on_progress: Callable[[Progress], None],
    on_partial: Callable[[Report], None],
) -> Answer | Refused:
    """Run while no other benchmark or comparison does, of whichever folder or interpreter: they disturb each other."""
    if turn.locked():
        on_progress(Progress(request.id, "measure", WAITING))
    async with turn:
        return await run(request, on_progress, on_partial)

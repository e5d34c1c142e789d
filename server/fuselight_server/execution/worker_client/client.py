"""The worker process, owned: started on demand, watched, ended when idle, killed when it must be.

Invariant: `run` gives exactly one Answer or Refused per request whatever the worker does: dies, hangs, answers
nonsense. The state changes in `_become` alone, which logs it; a process that was started here never outlives `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from fuselight.shared.protocol import (
    Answer,
    Cancel,
    Hello,
    LiveReady,
    LiveRequest,
    Locate,
    Log,
    Message,
    Partial,
    Progress,
    Refused,
    Retrace,
    RunRequest,
    Shutdown,
    Started,
    ToWorker,
)
from fuselight.shared.report import Failure, Report
from fuselight.shared.worker_launch import worker_environment
from fuselight.shared.worker_protocol import Unreadable, damage, failure_of_ours, hello_problem, no_answer
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.worker_client.pending import (
    PendingRetrace,
    PendingRun,
    Watch,
    refuse_all,
    with_stack,
)
from fuselight_server.execution.worker_client.process import (
    CLOSE_LIMIT,
    WorkerFailed,
    WorkerProcess,
    begin,
    greeted,
)

_CANCEL_LIMIT = 5.0
"""Seconds from Cancel to its answer, before the whole worker is killed."""
_RETRACE_OVERTIME = 15.0
"""Seconds past its time limit after which a retrace is answered here."""


class WorkerState(enum.Enum):
    """Where a worker is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    FAILED = "failed"
    """It could not start: the same interpreter will not work before something changes."""
    CLOSED = "closed"


class Worker:
    """One worker of one interpreter. All methods belong to the event loop."""

    def __init__(
        self,
        interpreter: Interpreter,
        *,
        cwd: str,
        env: Mapping[str, str] | None = None,
        log: Callable[[str], None],
        idle_seconds: float = 600,
        sample_after: float = 5.0,
    ) -> None:
        self.interpreter = interpreter
        self.state = WorkerState.STOPPED
        self._hello: Hello | None = None
        self._cwd = cwd
        self._base_env = dict(os.environ if env is None else env)
        self._env = self._base_env
        self._log = log
        self._idle_seconds = idle_seconds
        self._watch = Watch(sample_after, log)
        self._process: WorkerProcess | None = None
        self._runs: dict[int, PendingRun] = {}
        self._retraces: dict[int, PendingRetrace] = {}
        self._numbers = itertools.count(1)
        self._starting = asyncio.Lock()
        self._greeting: asyncio.Future[Hello] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._packages: tuple[int, ...] = ()

    @property
    def hello(self) -> Hello | None:
        """What the host said of itself; None where none runs, or packages were installed or removed since then."""
        hello = self._hello
        return hello if hello is not None and _change_times(hello.packages) == self._packages else None

    async def start(self) -> Hello:
        """Start the process, if it is not running, and wait for its hello. Raises WorkerFailed."""
        async with self._starting:
            if self.state is WorkerState.CLOSED:
                raise WorkerFailed(failure_of_ours("the worker has been closed", "start another one"))
            if self._process is not None and self._hello is not None:
                return self._hello
            self._become(WorkerState.STARTING, self.interpreter.executable)
            try:
                self._hello = await self._launch()
            except WorkerFailed as failed:
                await self._kill(self._process)
                self._become(WorkerState.FAILED, failed.failure.message)
                raise
            except asyncio.CancelledError:
                await self._kill(self._process)
                self._become(WorkerState.STOPPED, "the start was cancelled")
                raise
            self._packages = _change_times(self._hello.packages)
            self._become(WorkerState.READY, f"torch {self._hello.versions.torch}, pid {self._hello.pid}")
            self._wait_idle()
            return self._hello

    async def run(
        self,
        request: RunRequest,
        on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None] | None = None,
    ) -> Answer | Refused:
        """Run a request and return its one answer, with the request's own id. Cancelling the task kills the run.

        `on_partial` is called with what is known of kernels each time that a graph is done.

        A host that died before the run had a process (killed while idle, as by a system short of memory) is replaced
        without a word to the user, once.
        """
        return await self._run(request, on_progress, on_partial, None)

    async def run_live(
        self,
        request: LiveRequest,
        on_progress: Callable[[Progress], None],
        on_ready: Callable[[LiveReady], None],
    ) -> Answer | Refused:
        """Open a live run and wait until it ends: idle for long, at a limit, in a crash, or as the task is cancelled.

        From the call of `on_ready` on, `retrace` asks it; `Retrace.live` is the request's own id, which no other live
        run of this worker may have.
        """
        return await self._run(replace(request, automatic=True), on_progress, None, on_ready)

    async def retrace(
        self, request: Retrace, on_early: Callable[[Report], None] | None = None
    ) -> Answer | Refused:
        """Ask a live run, and return the one answer, with the request's own id. Cancelling the task ends the trace.

        `on_early` is called with what is known each time that a frame with a graph break is compiled.
        An earlier request to the same live run that has no answer yet is refused as cancelled.
        """
        live = next((number for number, run in self._runs.items() if _is_live(run, request.live)), None)
        if live is None:
            return Refused(request.id, "no_live")
        await self._cancel_retraces(lambda retrace: retrace.request.live == request.live)
        number = next(self._numbers)
        pending = PendingRetrace(request, asyncio.get_running_loop().create_future(), on_early)
        self._retraces[number] = pending
        try:
            await self._send(replace(request, id=number, live=live, early=on_early is not None))
            limit = request.seconds + _RETRACE_OVERTIME
            done, _ = await asyncio.wait({pending.answer}, timeout=limit)
            if not done:
                pending.refuse("timeout", failure_of_ours("the live run gives no answer", "save the file"))
            return pending.answer.result()
        except asyncio.CancelledError:
            await self._cancel_retraces(lambda retrace: retrace is pending)
            raise
        finally:
            self._retraces.pop(number, None)

    async def _cancel_retraces(self, applies: Callable[[PendingRetrace], bool]) -> None:
        for number, pending in list(self._retraces.items()):
            if applies(pending) and not pending.answer.done():
                pending.refuse("cancelled")
                await self._send(Cancel(number))

    async def _run(
        self,
        request: RunRequest,
        on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None] | None,
        on_ready: Callable[[LiveReady], None] | None,
    ) -> Answer | Refused:
        answer, lost = await self._run_once(request, on_progress, on_partial, on_ready)
        if lost and self.state is not WorkerState.CLOSED:
            self._log("worker: it had died before the run began; the run goes to a new one")
            answer, _ = await self._run_once(request, on_progress, on_partial, on_ready)
        return answer

    async def _run_once(
        self,
        request: RunRequest,
        on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None] | None,
        on_ready: Callable[[LiveReady], None] | None,
    ) -> tuple[Answer | Refused, bool]:
        """Run a request in the host as it is. Returns the answer, and whether the host was lost before it began."""
        try:
            await self._end_outdated(request.environment)
            await self.start()
        except WorkerFailed as failed:
            return Refused(request.id, "failed", failed.failure), False
        number = next(self._numbers)  # ours on the pipe: the caller's ids may repeat
        run = PendingRun(request, on_progress, asyncio.get_running_loop().create_future(), on_partial)
        run.on_ready = on_ready
        self._runs[number] = run
        self._become(WorkerState.BUSY, f"{request.target.name}, generation {request.generation}")
        self._wait_idle()
        overdue = functools.partial(self._give_up, self._process)
        watch = asyncio.create_task(
            self._watch.over(run, ask=lambda: self._send(Locate(number)), overdue=overdue)
        )
        try:
            await self._send(replace(request, id=number))
            answer = await asyncio.shield(run.answer)  # a cancel ends this wait, not what is waited for
        except asyncio.CancelledError:
            await _to_its_end(asyncio.create_task(self._cancel(number, run)))
            raise
        finally:
            watch.cancel()
            self._runs.pop(number, None)
            self._settle()
            self._wait_idle()
        return replace(with_stack(answer, run.sampled, request.roots), id=request.id), run.lost

    def _is_busy(self) -> bool:
        """Whether a run is active; a live one that waits is not."""
        return any(not run.is_waiting for run in self._runs.values())

    def _settle(self) -> None:
        if self.state is WorkerState.BUSY and not self._is_busy():
            self._become(WorkerState.READY, "nothing left to run")

    async def close(self) -> None:
        """End the worker and everything that it started."""
        if self._idle is not None:
            self._idle.cancel()
        why = failure_of_ours("the worker was closed during the run", "run it again")
        self._refuse(why, "cancelled")
        await self._stop()
        if self.state is not WorkerState.CLOSED:
            self._become(WorkerState.CLOSED, "asked to")

    # Life

    def _become(self, state: WorkerState, why: str) -> None:
        if state is not self.state or state is WorkerState.BUSY:
            self._log(f"worker: {self.state.value} -> {state.value} ({why})")
        self.state = state

    async def _end_outdated(self, variables: Mapping[str, str]) -> None:
        """End a host that imported torch with other variables, or before packages were installed or removed.

        While another run is active, the host stays; this run gets the variables in its own process.
        """
        async with self._starting:
            wanted = worker_environment(self._base_env, variables)
            if self._is_busy() or self.state is WorkerState.CLOSED:
                return
            why = "the environment of its runs has changed" if wanted != self._env else ""
            if self._hello is not None and self.hello is None:
                why = "its installed packages have changed"
            self._env = wanted
            if why and self._process is not None:
                self._become(WorkerState.STOPPED, why)
                self._refuse(
                    failure_of_ours(f"the worker was started again: {why}", "save the file"), "cancelled"
                )
                await self._stop()

    def _refuse(self, failure: Failure, reason: str) -> None:
        """Answer everything that waits."""
        refuse_all(self._runs.values(), failure, reason)
        for pending in self._retraces.values():
            pending.refuse("no_live", failure)

    async def _launch(self) -> Hello:
        self._greeting = asyncio.get_running_loop().create_future()
        process = self._process = await begin(self.interpreter, cwd=self._cwd, env=self._env)
        process.tasks.append(asyncio.create_task(process.read_stderr(self._log)))
        process.tasks.append(asyncio.create_task(self._read_messages(process)))
        return await greeted(process, self._greeting)

    async def _stop(self) -> None:
        """End the process: ask, wait, kill."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError, RuntimeError, asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(self._send(Shutdown()), CLOSE_LIMIT)
        self._let_go(process)
        await process.wait_for_end()
        await self._kill(process)

    def _let_go(self, process: WorkerProcess) -> None:
        """From here on nothing that becomes of `process` concerns this worker, which may start another one."""
        if self._process is process:
            self._process = self._hello = None

    async def _kill(self, process: WorkerProcess | None) -> None:
        """Kill the process and the groups of its runs, and wait until it is gone."""
        if process is None:
            return
        self._let_go(process)
        await process.kill(run.pid for run in self._runs.values() if run.pid is not None)

    def _wait_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._idle_seconds > 0 and self.state is WorkerState.READY:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self._idle_seconds, lambda: loop.create_task(self._idle_out()))

    async def _idle_out(self) -> None:
        async with self._starting:  # a run that is requested now starts another process, after this one's end
            if self.state is WorkerState.READY and not self._runs:
                self._become(WorkerState.STOPPED, f"idle for {self._idle_seconds:g} s")
                await self._stop()

    async def _ended(self, process: WorkerProcess, why: str = "") -> None:
        """Settle everything that waits for a process which is gone or can no longer be understood.

        `why`: what it is ended for; empty if it ended by itself.
        """
        if process is not self._process:
            return
        # Whose end it is, is settled before anything is waited for: another process may be started in between.
        greeting, runs = self._greeting, list(self._runs.values())
        retraces = list(self._retraces.values())
        self._let_go(process)
        if greeting is not None and greeting.done() and self.state is not WorkerState.CLOSED:
            self._become(WorkerState.STOPPED, why or "it ended by itself")
        status = None if why else await process.status()
        await self._kill(process)
        end = process.conversation.end(why, status)
        if greeting is not None and not greeting.done():
            greeting.set_exception(WorkerFailed(end.start_failure()))
            return
        for run in runs:
            has_process = run.pid is not None
            run.lost = end.loses(has_process=has_process) and not run.answer.done()
            refuse_all([run], end.run_failure(run.last, has_process=has_process), "failed")
        for pending in retraces:
            pending.refuse("crashed", replace(end.run_failure(None, has_process=False), traceback=""))

    # Messages

    async def _send(self, message: ToWorker) -> None:
        if self._process is not None:  # else its runs have been refused already
            await self._process.send(message)

    async def _read_messages(self, process: WorkerProcess) -> None:
        stream = process.child.stdout
        why = ""
        try:
            while stream is not None and (data := await stream.read(1 << 20)):
                for incoming in process.conversation.receive(data):
                    # A large report takes long to decode: not on the loop that keystrokes wait for.
                    self._handle(
                        await asyncio.to_thread(incoming.message) if incoming.is_large else incoming.message()
                    )
            process.conversation.end_output()
        except Exception as error:  # noqa: BLE001 - a run whose answer nobody reads would wait for ever
            why = damage(error)
        await self._ended(process, why)

    def _handle(self, message: Message | Unreadable | None) -> None:
        if isinstance(message, Unreadable):
            self._handle_unreadable(message)
        elif isinstance(message, Hello):
            if self._greeting is not None and not self._greeting.done():
                self._greeting.set_result(message)
        elif isinstance(message, Log):
            self._log(f"worker {message.level}: {message.text}")
        elif isinstance(message, (Started, Progress, Partial, LiveReady, Answer, Refused)):
            run, retrace = self._runs.get(message.id), self._retraces.get(message.id)
            if run is not None:
                run.take_message(message)
                self._settle()
            elif retrace is not None and isinstance(message, (Partial, Answer, Refused)):
                retrace.take_message(message)
            elif isinstance(message, Answer):
                self._log(f"worker: dropped a late answer to run {message.id}")
        else:
            self._log("worker: skipped a message of a type that this version does not know")

    def _handle_unreadable(self, message: Unreadable) -> None:
        self._log(f"worker: a message cannot be read: {message.error}")
        data = message.data if isinstance(message.data, dict) else {}
        run, greeting = self._runs.get(data.get("id", -1)), self._greeting
        if data.get("type") == "Hello" and greeting is not None and not greeting.done():
            problem = hello_problem(data) or no_answer(f"its hello cannot be read: {message.error}")
            greeting.set_exception(WorkerFailed(problem))
        elif run is not None and data.get("type") in ("Answer", "Refused") and not run.answer.done():
            why = no_answer(f"its answer cannot be read: {message.error}")
            run.answer.set_result(Refused(run.request.id, "failed", why))

    # Runs

    async def _give_up(self, process: WorkerProcess | None) -> None:
        if process is not None:
            self._log("worker: it does not end a run that is past its limit; killing it")
            await self._ended(process, "it did not answer in time")

    async def _cancel(self, number: int, run: PendingRun) -> None:
        """End a run: ask the host to kill its group, and kill the host should it not do that in time."""
        if run.answer.done() or self._process is None:
            return
        process = self._process
        await self._send(Cancel(number))
        done, _ = await asyncio.wait({run.answer}, timeout=_CANCEL_LIMIT)
        if not done:
            self._log("worker: it does not answer to a cancel; killing it")
            await self._ended(process, "it did not answer to a cancel")


def _is_live(run: PendingRun, number: int) -> bool:
    return run.is_waiting and run.request.id == number and not run.answer.done()


def _change_times(folders: Iterable[str]) -> tuple[int, ...]:
    """Return when each folder last changed, as it does when a package is installed or removed; 0 for none."""
    times = []
    for folder in folders:
        try:
            times.append(Path(folder).stat().st_mtime_ns)
        except OSError:
            times.append(0)
    return tuple(times)


async def _to_its_end(task: asyncio.Task[None]) -> None:
    """Wait for `task` however often it is tried to stop this: a run that is left before its answer looks stuck."""
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    task.result()

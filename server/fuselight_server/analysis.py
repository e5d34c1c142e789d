"""What is run, when and in which worker: between what the user does and the queue of runs.

Invariant: user code runs only in a trusted workspace, in a folder where the user has agreed to it, and for a cause
that is logged. What a run found is placed where the text is now, not where it was when the run began.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fuselight.protocol import Analyse, Answer, Limits, Refused
from fuselight.report import Report, TargetRef, Tier, Versions
from fuselight_server.findings import Thresholds, findings
from fuselight_server.places import result_of
from fuselight_server.plan import MAIN, RunOptions, default_runs, named_runs, sizes
from fuselight_server.runs import Job, Key, Lane, Runner, Runs
from fuselight_server.state import disk_text, split_text, within
from fuselight_server.static.document import read_source
from fuselight_server.store import Store, recorded_calls

if TYPE_CHECKING:
    from fuselight_server.settings import ResolvedInterpreter, Settings
    from fuselight_server.state import Folder, State
    from fuselight_server.static.moves import Change
    from fuselight_server.static.reading import Reading

AUTOSAVE_SECONDS = 10.0
"""Least time between two runs of a file that nobody asked for but an automatic save."""

NO_RUN_CAN_WORK = frozenset({"no_torch", "old_torch", "interpreter"})
"""Kinds of failure of the interpreter itself: one such run is enough."""

PROGRAM = "fuselight run"
"""Name under which the findings of the last `fuselight run` are kept."""

SELECT_INTERPRETER = "fuselight.selectInterpreter"
"""The client's command by which the user chooses another."""


class OwnedWorker(Runner, Protocol):
    """A worker process, as far as we own it."""

    @property
    def hello(self) -> Any:
        """What it said first; None before."""
        ...

    async def close(self) -> None:
        """End the process."""
        ...


class Face(Protocol):
    """What the user sees; the LSP edge implements it."""

    def findings_changed(self, paths: Iterable[str]) -> None:
        """Publish what is known of these files."""
        ...

    def runs_changed(self) -> None:
        """Show which runs wait, move or ended."""
        ...

    def results_changed(self, paths: Iterable[str]) -> None:
        """Draw the reports of these files again."""
        ...

    def say(self, text: str, *, error: bool) -> None:
        """Tell the user."""
        ...

    async def confirm(self, folder: Folder, summary: str, interpreter: str) -> str:
        """Ask whether code may run in `folder`: `run`, `never` or `later`."""
        ...


class Analysis:
    """Decides on runs and takes in what they found."""

    def __init__(
        self,
        state: State,
        face: Face,
        *,
        make_worker: Callable[[Lane, Settings, Callable[[str], None]], OwnedWorker],
        find_interpreter: Callable[[Folder], ResolvedInterpreter | None],
    ) -> None:
        """Start with no worker: the first run starts one."""
        self._state = state
        self._face = face
        self._make_worker = make_worker
        self._find_interpreter = find_interpreter
        self._workers: dict[Lane, OwnedWorker] = {}
        self._changes: dict[Key, list[tuple[str, Change]]] = {}
        self._began: dict[str, tuple[float, str]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._asking: dict[str, list[Callable[[], None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._early: list[Callable[[], None]] | None = []
        self._identity = 0
        self.runs = Runs(
            worker=self._worker,
            deliver=self._deliver,
            changed=face.runs_changed,
            log=state.log,
            tell=lambda text: face.say(text, error=True),
        )

    @property
    def ready(self) -> bool:
        """Whether the client's settings are known; what is asked for before waits for them."""
        return self._early is None

    def begin(self) -> None:
        """Go on with what was asked for before the settings were known."""
        early, self._early = self._early or [], None
        for request in early:
            request()

    # What the user does

    def saved(self, path: str, *, automatic: bool) -> None:
        """Run what a saved file and the files that depend on it compile, if the settings say so."""
        if self._early is not None:
            self._early.append(lambda: self.saved(path, automatic=automatic))
            return
        document = self._state.at(path)
        folder = self._state.folder_of(path)
        if document is None or not document.runnable or folder.settings.run != "save":
            return
        if document.reading().syntax_error is not None:
            self._state.log(f"no run of {path}: it does not parse")
            return
        if automatic and not self._is_due(path):
            return
        self._request(folder, self._planned(path), "saved", supersede=not automatic)
        for dependent in self._dependents(path):
            self._request(
                self._state.folder_of(dependent),
                self._planned(dependent),
                f"{os.path.basename(path)} saved",  # noqa: PTH119 - paths stay text
                supersede=not automatic,
            )

    def command(self, path: str, target: str | None) -> None:
        """Run a target (None: what the file compiles) because the user asked for it."""
        if self._early is not None:
            self._early.append(lambda: self.command(path, target))
            return
        folder = self._state.folder_of(path)
        keys = self._planned(path) if target is None else (Key(path, "" if target == MAIN else target),)
        if not self._state.trusted:
            self._face.say("Fuselight runs no code in a workspace that is not trusted.", error=False)
        elif not keys:
            self._face.say(
                "Nothing here is compiled or has inputs: point at a target to run it.", error=False
            )
        elif folder.consent in {"never", "later"}:
            folder.consent = "unknown"
            self._request(folder, keys, "command", supersede=True)
        else:
            self._request(folder, keys, "command", supersede=True)

    def changed_on_disk(self, path: str) -> None:
        """Take in that a file which is not open was changed by something else."""
        if self._state.at(path) is not None or not self.ready:
            return
        for result in self._state.results.values():
            if path in result.depends:
                result.stale = True
        for dependent in self._dependents(path):
            folder = self._state.folder_of(dependent)
            if folder.settings.run == "save":
                self._request(folder, self._planned(dependent), "changed on disk", supersede=False)
        self._face.findings_changed([path])

    def gone(self, path: str) -> None:
        """Take in that a file or a folder was deleted, renamed or closed as a workspace folder."""
        self.runs.cancel([key for key in self._keys() if within(key.path, path)])
        self._face.findings_changed(self._state.forget(path))
        self._face.results_changed([path])

    def edited(self, path: str, change: Change) -> None:
        """Take in one change of an open document's text."""
        self._state.change(path, change)
        for changes in self._changes.values():
            changes.append((path, change))

    def cancel(self, path: str | None) -> None:
        """Cancel the runs of a file (None: all)."""
        self.runs.cancel(None if path is None else [key for key in self._keys() if key.path == path])

    async def restart(self, folder: str | None) -> None:
        """End the workers of a folder (None: all); the next run starts fresh ones."""
        lanes = [lane for lane in self._workers if folder is None or lane.folder == folder]
        queue = self.runs.queue
        jobs = (*queue.waiting.values(), *queue.running.values())
        self.runs.cancel([job.key for job in jobs if folder is None or job.lane.folder == folder])
        for lane in lanes:
            worker = self._workers.pop(lane)
            self._state.log(f"worker of {lane.folder} is stopped")
            await worker.close()
        for one in self._state.folders.values():
            if folder is None or one.path == folder:
                one.problem = one.torch = None
        self._face.runs_changed()

    async def close(self) -> None:
        """Cancel every run and end every worker."""
        for timer in self._timers.values():
            timer.cancel()
        await self.runs.close()
        await asyncio.gather(*(worker.close() for worker in self._workers.values()), return_exceptions=True)
        self._workers.clear()

    def rederive(self) -> None:
        """Make the findings of every kept report again, as the thresholds have changed."""
        for key, result in self._state.results.items():
            settings = self._state.folder_of(key.path).settings
            made = findings(result.report, thresholds=_thresholds(settings), read_line=self._state.read_line)
            fresh = result_of(key, result.generation, result.report, made)
            if not result.stale:
                result.own, result.places = fresh.own, fresh.places
        self._face.findings_changed(self.shown_paths())

    def shown_paths(self) -> frozenset[str]:
        """Return every file that some result says something about."""
        return frozenset(path for result in self._state.results.values() for path in result.paths())

    async def load_program(self, store: Store) -> None:
        """Show what the last `fuselight run` that wrote to `store` found.

        Not while the folder is not trusted: what came with it can say anything of any file, in our name.
        """
        if not self._state.trusted:
            return
        key = Key(str(store.report_path), PROGRAM)
        folder = self._state.folder_of(key.path)
        report = await asyncio.to_thread(store.read_report)
        if report is None:
            self._face.findings_changed(self._state.forget(key.path))
            return
        made = await asyncio.to_thread(
            findings, report, thresholds=_thresholds(folder.settings), read_line=_reader({})
        )
        written = store.report_path.stat().st_mtime if store.report_path.exists() else time.time()
        result = result_of(key, self.runs.generation, report, made)
        for live in result.own:
            if _modified(live.finding.span.path) > written:
                live.place.edited = result.stale = True
        before = self._state.results.get(key)
        self._state.keep(result)
        self._face.findings_changed(result.paths() | (before.paths() if before else frozenset()))
        self._face.results_changed(result.depends)

    def interpreter(self, folder: Folder) -> ResolvedInterpreter | None:
        """Return the interpreter for a folder: the client's choice, else the first that is found."""
        return folder.settings.resolved_interpreter or self._find_interpreter(folder)

    def worker_of(self, folder: Folder) -> OwnedWorker | None:
        """Return the worker of a folder, if one was started."""
        return next((worker for lane, worker in self._workers.items() if lane.folder == folder.path), None)

    # Requests

    def _keys(self) -> list[Key]:
        return [*self.runs.queue.waiting, *self.runs.queue.running]

    def _planned(self, path: str) -> tuple[Key, ...]:
        reading = self._reading(path)
        if reading is None:
            return ()
        options = self._options(self._state.folder_of(path), path, with_buffers=False)
        return tuple(Key(path, run.target.name) for run in default_runs(reading, options))

    def _dependents(self, path: str) -> list[str]:
        """Open files whose last results ran code of `path`."""
        return sorted(
            {
                key.path
                for key, result in self._state.results.items()
                if path in result.depends and key.path != path and self._state.at(key.path) is not None
            }
        )

    def _is_due(self, path: str) -> bool:
        """Whether an automatic save is worth a run now; if it will be later, see to it."""
        document = self._state.at(path)
        began, text = self._began.get(path, (float("-inf"), ""))
        if document is None or document.source.text == text:
            return False
        left = began + AUTOSAVE_SECONDS - time.monotonic()
        if left <= 0:
            return True
        if path not in self._timers:
            self._state.log(f"automatic save of {path}: the next run of it is in {left:.0f} s")

            def later() -> None:
                del self._timers[path]
                self.saved(path, automatic=True)

            self._timers[path] = asyncio.get_running_loop().call_later(left, later)
        return False

    def _request(self, folder: Folder, keys: tuple[Key, ...], cause: str, *, supersede: bool) -> None:
        if not keys or not self._state.trusted or folder.consent in {"never", "later"}:
            return
        interpreter = self.interpreter(folder)
        if interpreter is None:
            folder.problem = "no Python interpreter was found"
            self._face.runs_changed()
            return
        if folder.consent == "unknown":
            waiting = self._asking.setdefault(folder.path, [])
            waiting.append(lambda: self._request(folder, keys, cause, supersede=supersede))
            if len(waiting) == 1:
                self._spawn(self._ask(folder, keys, interpreter))
            return
        lane = Lane(
            executable=interpreter.executable,
            args=interpreter.args,
            folder=folder.path,
            environment=tuple(sorted(folder.settings.environment.items())),
        )
        generation = self.runs.next_generation()
        for key in keys:
            document = self._state.at(key.path)
            self._began[key.path] = (time.monotonic(), document.source.text if document else "")
            make = self._maker(key, folder, generation)
            self.runs.request(Job(key, lane, generation, cause, make), supersede=supersede)

    async def _ask(self, folder: Folder, keys: tuple[Key, ...], interpreter: ResolvedInterpreter) -> None:
        summary = _summary(keys, on_save=folder.settings.run == "save")
        answer = await self._face.confirm(folder, summary, interpreter.executable)
        folder.consent = answer if answer in {"run", "never"} else "later"
        self._state.log(f"runs in {folder.path}: {folder.consent}")
        for request in self._asking.pop(folder.path, []):
            request()
        self._face.runs_changed()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _maker(self, key: Key, folder: Folder, generation: int) -> Callable[[], Analyse | None]:
        def make() -> Analyse | None:
            reading = self._reading(key.path)
            if reading is None or not self._state.trusted:
                return None
            options = self._options(folder, key.path, with_buffers=True)
            planned = named_runs(reading, [key.name or MAIN], options)
            if not planned:
                return None
            self._identity += 1
            self._changes[key] = []
            return planned[0].request(self._identity, generation, options)

        return make

    def _reading(self, path: str) -> Reading | None:
        document = self._state.at(path)
        if document is not None:
            return document.reading()
        text = disk_text(path)
        return None if text is None else read_source(path, text)

    def _options(self, folder: Folder, path: str, *, with_buffers: bool) -> RunOptions:
        settings = folder.settings
        own = (folder.path,)
        others = tuple(one.path for one in self._state.folders.values() if one.uri and one is not folder)
        roots = own + others
        return RunOptions(
            roots=roots,
            limits=Limits(seconds=settings.limits.seconds, memory_mb=settings.limits.memory_mb),
            default_sizes=sizes(settings.inputs.default_sizes),
            dynamo_config=settings.dynamo.config,
            environment=settings.environment,
            overlays=self._state.overlays(roots, path) if with_buffers else {},
            recorded=recorded_calls(self._program(path), path),
        )

    def _program(self, path: str) -> Report | None:
        """Return what the last `fuselight run` for a file learnt: that of the nearest store at or above it."""
        stores = {
            os.path.dirname(os.path.dirname(key.path)): result.report  # noqa: PTH120 - paths stay text
            for key, result in self._state.results.items()
            if key.name == PROGRAM
        }
        return stores.get(max((root for root in stores if within(path, root)), key=len, default=""))

    def _worker(self, lane: Lane) -> Runner:
        worker = self._workers.get(lane)
        if worker is None:
            folder = self._state.folders.get(lane.folder)
            settings = folder.settings if folder else self._state.outside_settings()
            self._state.log(f"worker for {lane.folder}: {lane.executable}")
            worker = self._workers[lane] = self._make_worker(lane, settings, self._state.log)
        return worker

    # Answers

    async def _deliver(self, job: Job, request: Analyse, outcome: Answer | Refused) -> None:
        folder = self._state.folder_of(job.key.path)
        report = outcome.report if isinstance(outcome, Answer) else self._failed(job, request, outcome)
        if report is None:
            return
        self._note_environment(folder, job, report)
        made = await asyncio.to_thread(
            findings, report, thresholds=_thresholds(folder.settings), read_line=_reader(request.overlays)
        )
        result = result_of(job.key, job.generation, report, made)
        for path, change in self._changes.pop(job.key, []):
            result.change(path, change)
        before = self._state.results.get(job.key)
        self._state.keep(result)
        self._face.findings_changed(result.paths() | (before.paths() if before else frozenset()))
        self._face.results_changed({job.key.path, *result.depends})

    def _failed(self, job: Job, request: Analyse, outcome: Refused) -> Report | None:
        """Make a report of a run that gave none: nothing but its failure."""
        if outcome.failure is None:
            self._state.log(f"run {job.generation} was refused: {outcome.reason}")
            return None
        worker = self._workers.get(job.lane)
        hello = worker.hello if worker else None
        versions = hello.versions if hello else Versions(
            python="", torch=None, triton=None, fuselight="", platform=platform.platform(),
            executable=job.lane.executable,
        )  # fmt: skip
        target = request.target
        return Report(
            versions=versions,
            target=TargetRef(path=target.path, name=target.name, line=target.line, kind=target.kind),
            tier=Tier.CAPTURE,
            generation=job.generation,
            failures=(outcome.failure,),
            roots=request.roots,
        )

    def _tell(self, text: str) -> None:
        """Say that an interpreter runs nothing; a client that can offer another one says it with the offer."""
        if SELECT_INTERPRETER not in self._state.client.commands:
            self._face.say(text, error=True)

    def _note_environment(self, folder: Folder, job: Job, report: Report) -> None:
        """Keep what a run says of its interpreter; where no run can work, the rest of the queue need not try."""
        broken = next((one for one in report.failures if one.kind in NO_RUN_CAN_WORK), None)
        if broken is None:
            folder.problem = None
            folder.torch = report.versions.torch or folder.torch
        else:
            if folder.problem != broken.message:
                folder.problem = broken.message
                self._tell(f"{broken.message} {broken.next_step}".strip())
            same = [key for key, one in self.runs.queue.waiting.items() if one.lane == job.lane]
            self.runs.queue.drop(same)
        self._state.log(f"run {job.generation}: {len(report.frames)} frames, {len(report.breaks)} breaks")


def _summary(keys: tuple[Key, ...], *, on_save: bool) -> str:
    """What would be run: `import model.py, call Net and run its __main__ block, on each save`."""
    name = os.path.basename(keys[0].path)  # noqa: PTH119 - paths stay text
    names = [key.name for key in keys if key.name]
    calls = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")  # noqa: PLR2004 - what one line holds
    steps = [f"import {name}"]
    steps += [f"call {calls}"] if names else []
    steps += ["run its __main__ block"] if len(names) < len(keys) else []
    text = " and ".join([", ".join(steps[:-1]), steps[-1]])
    return f"{text}, on each save" if on_save else text


def _thresholds(settings: Settings) -> Thresholds:
    return Thresholds(guard_count=settings.guards.warn_count, guard_us=settings.guards.warn_microseconds)


def _reader(overlays: dict[str, str]) -> Callable[[str, int], str | None]:
    """Read lines of files as a run saw them: the unsaved buffers that went with it, else the disk."""
    kept: dict[str, list[str]] = {}

    def read_line(path: str, line: int) -> str | None:
        lines = kept.get(path)
        if lines is None:
            text = overlays.get(path, disk_text(path))
            lines = kept[path] = split_text(text or "")
        return lines[line - 1] if 0 < line <= len(lines) else None

    return read_line


def _modified(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0

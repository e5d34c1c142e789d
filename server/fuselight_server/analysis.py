"""What is run, when and in which worker: between what the user does and the queue of runs.

Invariant: user code runs only in a trusted workspace, in a folder where the user has agreed to it, and for a cause
that is logged. What runs found is taken in by `outcomes.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from fuselight.protocol import Analyse, Answer, Refused
from fuselight.report import Tier
from fuselight_server.bench_runs import Benches, InTurn
from fuselight_server.consent import Consent
from fuselight_server.kernel_runs import KernelRuns
from fuselight_server.measured.planning import measure_request
from fuselight_server.outcomes import Outcomes, failed_report
from fuselight_server.pace import Early, Pace
from fuselight_server.plan import MAIN, default_runs, named_runs
from fuselight_server.runs import Job, Key, Lane, OwnedWorker, Runner, Runs
from fuselight_server.state import disk_text, within
from fuselight_server.static.document import read_source

if TYPE_CHECKING:
    from fuselight.protocol import MeasurePlan
    from fuselight.report import Report
    from fuselight_server.face import Face
    from fuselight_server.settings import ResolvedInterpreter, Settings
    from fuselight_server.state import Folder, State
    from fuselight_server.static.reading import Reading

NO_RUN_CAN_WORK = frozenset({"no_torch", "old_torch", "interpreter"})
"""Kinds of failure of the interpreter itself: one such run is enough."""

SELECT_INTERPRETER = "fuselight.selectInterpreter"
"""The client's command by which the user chooses another."""


class Analysis:
    """Decides on runs."""

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
        self._pace = Pace(state)
        self.consent = Consent(state, face)
        self._tasks: set[asyncio.Task[None]] = set()
        self.early = Early()
        self._identity = 0
        self.outcomes = Outcomes(state, face, generation=lambda: self.runs.generation)
        self.benches = Benches(state, face, self.outcomes)
        self.runs = Runs(
            worker=self._worker,
            deliver=self._deliver,
            changed=self._runs_changed,
            log=state.log,
            tell=lambda text: face.say(text, error=True),
            partly=self._take_in_part,
        )

    @property
    def ready(self) -> bool:
        """Whether the client's settings are known; what is asked for before waits for them."""
        return self.early.over

    def begin(self) -> None:
        """Go on with what was asked for before the settings were known."""
        self.early.end()

    # What the user does

    def saved(self, path: str, *, automatic: bool) -> None:
        """Run what a saved file and the files that depend on it compile, if the settings say so."""
        if self.early.keep(lambda: self.saved(path, automatic=automatic)):
            return
        document = self._state.at(path)
        folder = self._state.folder_of(path)
        if document is None or not document.runnable or folder.settings.run != "save":
            return
        if document.reading().syntax_error is not None:
            self._state.log(f"no run of {path}: it does not parse")
            return
        if automatic and not self._pace.is_due(path, lambda: self.saved(path, automatic=True)):
            return
        for one in (path, *self._dependents(path)):
            cause = "saved" if one == path else f"{os.path.basename(path)} saved"  # noqa: PTH119 - paths stay text
            wanted = self._wanted_on_save(one)
            self._request(self._state.folder_of(one), wanted, cause, supersede=not automatic)

    def command(
        self, path: str, target: str | None, tier: Tier = Tier.CAPTURE, plan: MeasurePlan | None = None
    ) -> None:
        """Run a target (None: what the file compiles) because the user asked for it; tier measured by a plan."""
        if self.early.keep(lambda: self.command(path, target, tier, plan)):
            return
        folder = self._state.folder_of(path)
        planned = self._planned(path) if target is None else (Key(path, "" if target == MAIN else target),)
        keys = tuple(dataclasses.replace(key, tier=tier) for key in planned)
        if not self._state.trusted:
            self._face.say("Fuselight runs no code in a workspace that is not trusted.", error=False)
        elif not keys:
            self._face.say(
                "Nothing here is compiled or has inputs: point at a target to run it.", error=False
            )
        else:
            if folder.consent in {"never", "later"}:
                folder.consent = "unknown"
            self._request(folder, keys, "command", supersede=True, plan=plan)

    def compile(self, key: Key) -> None:
        """Compile the kernel that `key` names, as its text is asked for; once, however often it is."""
        if key not in self._keys():
            self._request(self._state.folder_of(key.path), (key,), "its text is shown", supersede=False)

    def changed_on_disk(self, path: str) -> None:
        """Take in that a file which is not open was changed by something else."""
        if self._state.at(path) is not None or not self.ready:
            return
        changed = self.outcomes.changed_on_disk(path)
        for dependent in self._dependents(path):
            folder = self._state.folder_of(dependent)
            if folder.settings.run == "save":
                self._request(folder, self._wanted_on_save(dependent), "changed on disk", supersede=False)
        self._face.findings_changed([path])
        if changed:
            self._face.results_changed(changed)

    def gone(self, path: str) -> None:
        """Take in that a file or a folder was deleted, renamed or closed as a workspace folder."""
        self.runs.cancel([key for key in self._keys() if within(key.path, path)])
        self.outcomes.gone(path)
        self._face.findings_changed(self._state.forget(path))
        self._face.results_changed([path])

    def cancel(self, path: str | None) -> None:
        """Cancel the runs of a file, but for benchmarks, which have a button of their own (None: all runs)."""
        mine = [key for key in self._keys() if key.path == path and key.tier is not Tier.MEASURED]
        self.runs.cancel(None if path is None else mine)

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
        self._pace.close()
        await self.runs.close()
        await asyncio.gather(*(worker.close() for worker in self._workers.values()), return_exceptions=True)
        self._workers.clear()

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
        reading = self.reading(path)
        if reading is None:
            return ()
        options = self.outcomes.options_for(self._state.folder_of(path), path, with_buffers=False)
        return tuple(Key(path, run.target.name) for run in default_runs(reading, options))

    def _wanted_on_save(self, path: str) -> tuple[Key, ...]:
        """What a save runs: every target, then, where the settings say so, the kernels of each."""
        kernels = self._state.folder_of(path).settings.kernels.when == "onSave"
        tiers = (Tier.CAPTURE, Tier.KERNELS) if kernels else (Tier.CAPTURE,)
        return tuple(dataclasses.replace(key, tier=tier) for tier in tiers for key in self._planned(path))

    def _dependents(self, path: str) -> list[str]:
        """Open files whose last results ran code of `path`."""
        return sorted(
            {
                key.path
                for key, result in self._state.results.items()
                if path in result.depends and key.path != path and self._state.at(key.path) is not None
            }
        )

    def _request(
        self,
        folder: Folder,
        keys: tuple[Key, ...],
        cause: str,
        *,
        supersede: bool,
        plan: MeasurePlan | None = None,
    ) -> None:
        if not keys or not self._state.trusted or folder.consent in {"never", "later"}:
            return
        interpreter = self.interpreter(folder)
        if interpreter is None:
            folder.problem = "no Python interpreter was found"
            self._face.runs_changed()
            return
        if folder.consent == "unknown":
            again = functools.partial(self._request, folder, keys, cause, supersede=supersede, plan=plan)
            question = self.consent.wait(folder, keys, interpreter, again)
            if question is not None:
                self._spawn(question)
            return
        lane = Lane(
            executable=interpreter.executable,
            args=interpreter.args,
            folder=folder.path,
            environment=tuple(sorted(folder.settings.environment.items())),
            measures=plan is not None,
        )
        generation = self.runs.next_generation()
        for key in keys:
            if key.tier is Tier.CAPTURE:
                self._pace.began(key.path)
            make = self._maker(key, folder, generation, plan)
            self.runs.request(Job(key, lane, generation, cause, make), supersede=supersede)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _maker(
        self, key: Key, folder: Folder, generation: int, plan: MeasurePlan | None
    ) -> Callable[[], Analyse | None]:
        def make() -> Analyse | None:
            reading = self.reading(key.path)
            if reading is None or not self._state.trusted:
                return None
            options = self.outcomes.options_for(folder, key.path, with_buffers=True)
            planned = named_runs(reading, [key.name or MAIN], options)
            if not planned:
                return None
            self._identity += 1
            self.outcomes.begin(key)
            request = planned[0].request(self._identity, generation, options)
            if plan is not None:
                self.benches.begin(key)
                return measure_request(request, plan)
            return self.outcomes.request_for(key, request)

        return make

    def reading(self, path: str) -> Reading | None:
        """Read a file as the editor has it, else as it is on disk; None where it cannot be read."""
        document = self._state.at(path)
        if document is not None:
            return document.reading()
        text = disk_text(path)
        return None if text is None else read_source(path, text)

    def _worker(self, lane: Lane) -> Runner:
        worker = self._workers.get(lane)
        if worker is None:
            folder = self._state.folders.get(lane.folder)
            settings = folder.settings if folder else self._state.outside_settings()
            self._state.log(f"worker for {lane.folder}: {lane.executable}")
            self._end_idle_workers(lane)
            worker = self._workers[lane] = self._make_worker(lane, settings, self._state.log)
        runner = KernelRuns(worker, self._state.log)
        return InTurn(runner, self.benches.turn) if lane.measures else runner

    def _end_idle_workers(self, lane: Lane) -> None:
        """End the workers that `lane` replaces, as another interpreter was found, where they have nothing to do."""
        queue = self.runs.queue
        busy = {job.lane for job in (*queue.waiting.values(), *queue.running.values())}
        for one in [one for one in self._workers if one not in busy]:
            if (one.folder, one.measures) == (lane.folder, lane.measures):
                self._spawn(self._workers.pop(one).close())

    # Answers

    def _runs_changed(self) -> None:
        self.outcomes.collect_for(self.runs.in_flight)
        self.benches.watch(self.runs.in_flight)
        self._face.runs_changed()

    async def _take_in_part(self, job: Job, report: Report | None) -> None:
        taking = self.benches if job.key.tier is Tier.MEASURED else self.outcomes
        await taking.take_in_part(job, report)

    async def _deliver(self, job: Job, request: Analyse, outcome: Answer | Refused) -> None:
        if isinstance(outcome, Answer):
            report = outcome.report
        elif outcome.failure is None:
            self._state.log(f"run {job.generation} was refused: {outcome.reason}")
            return
        else:
            worker = self._workers.get(job.lane)
            versions = worker.hello.versions if worker and worker.hello else None
            report = failed_report(job, request, outcome.failure, versions)
        self._note_environment(self._state.folder_of(job.key.path), job, report)
        if job.key.tier is Tier.MEASURED:
            await self.benches.take_in(job, report)
        elif job.key.tier is Tier.KERNELS:
            await self.outcomes.take_in_kernels(job, report)
        else:
            await self.outcomes.take_in(job, report, request.overlays)

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

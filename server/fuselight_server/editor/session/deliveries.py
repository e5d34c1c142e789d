"""The outcomes of runs, each brought to what keeps results of its tier.

Invariant: what a run says of its interpreter is taken in before its result; where no run can work there, none waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.protocol import Answer, Refused, RunRequest
from fuselight.shared.report import Tier
from fuselight_server.base.files import within
from fuselight_server.editor.session.run_ends import LOST, RunEnd
from fuselight_server.editor.session.triggers import ASKED, Trigger
from fuselight_server.explain.findings.failures import lacks_inputs
from fuselight_server.explain.searches.words import progress_best

if TYPE_CHECKING:
    from fuselight.shared.report import Report
    from fuselight_server.editor.session.background import BackgroundTasks
    from fuselight_server.editor.session.benchmarks import BenchmarkSession
    from fuselight_server.editor.session.environment_notices import EnvironmentNotices
    from fuselight_server.editor.session.fix_session import FixSession
    from fuselight_server.editor.session.intake import ResultIntake
    from fuselight_server.editor.session.live import LivePredictions
    from fuselight_server.editor.session.run_requests import RunRequests
    from fuselight_server.editor.session.save_runs import SaveRuns
    from fuselight_server.editor.session.state import State
    from fuselight_server.editor.session.stored_results import StoredResults
    from fuselight_server.editor.session.target_runs import TargetRuns
    from fuselight_server.editor.session.tunings import TuningSession
    from fuselight_server.editor.session.workers import Workers
    from fuselight_server.execution.runs.keys import Key
    from fuselight_server.execution.runs.queue import Job, Runs


class UnrunnableTargets:
    """Targets that the interpreter of their folder could not run, and that run again once it is another one."""

    def __init__(self, state: State, runs: Runs, environments: EnvironmentNotices) -> None:
        self._state, self._runs, self._environments = state, runs, environments
        self._keys: set[Key] = set()

    def note(self, job: Job, report: Report) -> None:
        """Take in what a run says of its interpreter; where no run can work, the rest of the queue need not try."""
        folder = self._state.folder_of(job.key.path)
        if self._environments.note(folder, job.key, report, explicit=job.cause == ASKED.cause):
            self._keys.discard(job.key)
            return
        same = [
            key for key, waiting in self._runs.queue.waiting.items() if waiting.worker_key == job.worker_key
        ]
        self._runs.queue.drop(same)
        self._keys.update({job.key, *same})

    def forget(self, path: str) -> None:
        """Forget the targets of a file or a folder that is gone."""
        self._keys = {key for key in self._keys if not within(key.path, path)}

    def run_again(self, folder: str | None, targets: TargetRuns, requests: RunRequests) -> None:
        """Drop the failures of an interpreter that could run nothing, and run their targets again.

        They stay known until one of their runs works: a further change may cancel these runs.
        """
        keys = [key for key in self._keys if folder in {None, self._state.folder_of(key.path).path}]
        self._keys.difference_update(key for key in keys if key.is_timed or key.kernel)
        by_path: dict[str, list[Key]] = {}
        for key in keys:
            result = self._state.results.get(key)
            self._state.drop([key])
            if result is not None and result.last_complete is not None:
                self._state.accept(result.last_complete)
            if not key.is_timed and not key.kernel and targets.reading(key.path) is not None:
                by_path.setdefault(key.path, []).append(key)
        for again in by_path.values():
            requests.request(tuple(again), Trigger("the interpreter was changed", automatic=True))


class Deliveries:
    """Takes in what runs find."""

    def __init__(
        self,
        state: State,
        runs: Runs,
        *,
        workers: Workers,
        unrunnable: UnrunnableTargets,
        intake: ResultIntake,
        benches: BenchmarkSession,
        tunings: TuningSession,
        stored: StoredResults,
        live: LivePredictions,
        fixes: FixSession,
        saves: SaveRuns,
        tasks: BackgroundTasks,
    ) -> None:
        self._state, self._runs, self._workers = state, runs, workers
        self._unrunnable, self._intake, self._benches = unrunnable, intake, benches
        self._tunings, self._stored, self._live = tunings, stored, live
        self._saves, self._tasks, self._fixes = saves, tasks, fixes

    async def accept_part(self, job: Job, report: Report | None) -> None:
        """Take in what a run has found so far; None: the run was canceled."""
        if job.key.tier is Tier.TUNED:
            running = self._runs.in_flight.get(job.key)
            if running is not None and report is not None and report.tuned is not None:
                running.remark = progress_best(report.tuned)
            await self._tunings.accept_part(job, report)
        else:
            intake = self._benches if job.key.tier is Tier.MEASURED else self._intake
            await intake.accept_part(job, report)

    async def accept(self, job: Job, request: RunRequest, outcome: Answer | Refused) -> None:
        """Take in the end of a run."""
        if isinstance(outcome, Answer):
            report = outcome.report
        elif outcome.failure is None:
            self._state.log(f"run {job.generation} was refused: {outcome.reason}")
            self._state.note_run_end(job.key, RunEnd(LOST))
            return
        else:
            report = self._workers.failure_report(job.worker_key, request, outcome.failure)
        self._unrunnable.note(job, report)
        self._state.log(f"run {job.generation}: {len(report.frames)} frames, {len(report.breaks)} breaks")
        if job.key.tier is Tier.MEASURED:
            await self._benches.accept(job, report)
        elif job.key.tier is Tier.TUNED:
            await self._tunings.accept(job, report)
        else:
            await self._accept_result(job, request, report)

    async def _accept_result(self, job: Job, request: RunRequest, report: Report) -> None:
        await self._intake.accept(job, report, request.overlays)
        result = self._state.captures.get(job.key)
        if job.key.tier is Tier.CAPTURE:
            self._live.accepted(job.key, request)
        if result is not None and result.report is report:
            if lacks_inputs(report):
                self._tasks.start(self._intake.look_for_programs(result), "looking for programs with inputs")
            await self._stored.keep(result)
            self._fixes.try_cures(result)
            self._fixes.try_left_cures()
        self._saves.run_again(job.key)

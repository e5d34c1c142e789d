"""The outcomes of runs, from the end of a run to what the client is asked to show.

`Deliveries` brings a report to what keeps results of its tier; `ResultIntake` makes the result, moves it to where the
text is now and puts it into the state, which notes the files that look different; `ChangeNotices` has the user
interface publish these files, once for each step of the event loop (`handlers/diagnostics.py` makes the list).

Invariant: what a run says of its interpreter is taken in before its result; where no run can work there, none waits.
Edits made during a run are applied to its result before the result is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fuselight.shared.protocol import Answer, Refused, RunRequest
from fuselight.shared.report import Assembled, Report, Tier
from fuselight_server.editor.results.captures import CaptureResult, read_capture
from fuselight_server.editor.results.kernels import KernelResult, kernel_result_of, what_is_missing
from fuselight_server.editor.results.own_kernels import merged
from fuselight_server.editor.results.report_reading import line_reader, thresholds_of
from fuselight_server.editor.results.run_ends import LOST, RunEnd
from fuselight_server.editor.results.target_result import TargetResult
from fuselight_server.editor.session.environments import Environments
from fuselight_server.editor.session.fix_session import FixSession
from fuselight_server.editor.session.live import LivePredictions
from fuselight_server.editor.session.run_requests import SaveRuns
from fuselight_server.editor.session.session import Session
from fuselight_server.editor.session.state import State
from fuselight_server.editor.session.stored_results import StoredResults
from fuselight_server.editor.session.timed_results import TimedSession
from fuselight_server.editor.session.ui import Ui
from fuselight_server.editor.session.workers import Workers
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.queue import Job
from fuselight_server.explain.findings.failures import lacks_inputs
from fuselight_server.explain.kernels.own_kernels import OWN
from fuselight_server.explain.searches.words import progress_best
from fuselight_server.source.input_programs import find_programs

_OFFERED = 3
"""Programs that are offered for the inputs of a target."""


class Deliveries:
    """Takes in what runs find."""

    def __init__(
        self,
        session: Session,
        workers: Workers,
        *,
        environments: Environments,
        timed: Mapping[Tier, TimedSession[Any]],
        stored: StoredResults,
        live: LivePredictions,
        fixes: FixSession,
        saves: SaveRuns,
    ) -> None:
        self._session, self._state, self._workers = session, session.state, workers
        self._environments, self._timed, self._stored = environments, timed, stored
        self._live, self._fixes, self._saves = live, fixes, saves
        self.on_capture: Callable[[Job, CaptureResult], None] = lambda _job, _result: None
        """Called with the result of each capture that was accepted."""
        self.intake = ResultIntake(session)

    async def accept_part(self, job: Job, report: Report | None) -> None:
        """Take in what a run has found so far; None: the run was canceled."""
        running = self._session.runs.in_flight.get(job.key)
        if running is not None and report is not None and report.tuned is not None:
            running.remark = progress_best(report.tuned)
        await self._timed.get(job.key.tier, self.intake).accept_part(job, report)

    async def accept_outcome(self, job: Job, request: RunRequest, outcome: Answer | Refused) -> None:
        """Take in the end of a run."""
        if isinstance(outcome, Answer):
            report = outcome.report
        elif outcome.failure is None:
            self._state.log(f"run {job.generation} was refused: {outcome.reason}")
            self._state.note_run_end(job.key, RunEnd(LOST))
            return
        else:
            report = self._workers.failure_report(job.worker_key, request, outcome.failure)
        self._environments.note(job, report)
        self._state.log(f"run {job.generation}: {len(report.frames)} frames, {len(report.breaks)} breaks")
        if job.key.tier in self._timed:
            await self._timed[job.key.tier].accept_report(job, report)
        else:
            await self._accept_result(job, request, report)

    async def _accept_result(self, job: Job, request: RunRequest, report: Report) -> None:
        await self.intake.accept_report(job, report, request.overlays)
        result = self._state.captures.get(job.key)
        if job.key.tier is Tier.CAPTURE:
            self._live.accepted(job.key, request)
        if result is not None and result.report is report:
            if lacks_inputs(report):
                self._session.tasks.start(
                    self.intake.look_for_programs(result), "looking for programs with inputs"
                )
            await self._stored.keep_capture(result)
            self._fixes.try_cures(result)
            self._fixes.try_left_cures()
            self.on_capture(job, result)
        self._saves.run_again(job.key)


class ResultIntake:
    """Makes results of the reports of tiers capture and kernels."""

    def __init__(self, session: Session) -> None:
        self._state, self._edits = session.state, session.edits

    async def accept_report(self, job: Job, report: Report, overlays: Mapping[str, str]) -> None:
        """Show what a run found, which saw the unsaved texts `overlays`."""
        if job.key.kernel:
            self._accept_kernel(job.key, report)
            return
        result = await self._result(job, report, overlays)
        if self._edits.catch_up(result, ended=True):
            self._state.accept_compared(result)

    async def accept_part(self, job: Job, report: Report | None) -> None:
        """Show the kernels that a run has generated so far; None: the run was canceled.

        Then the result before is shown again; where there is none, the partial one stays.
        """
        if report is None:
            self._state.discard_partial(job.key, job.generation)
        elif job.key.tier is Tier.KERNELS and report.generated:
            result = await self._result(job, report, {})
            if self._edits.catch_up(result, ended=False):
                result.unfinished = what_is_missing(report)
                self._state.accept_result(result)

    async def _result(self, job: Job, report: Report, overlays: Mapping[str, str]) -> TargetResult:
        """Make the result of a report, off the event loop: a report of a thousand kernels takes seconds."""
        thresholds = thresholds_of(self._state.folder_of(job.key.path).settings)
        if job.key.tier is Tier.KERNELS:
            return await asyncio.to_thread(kernel_result_of, job.key, job.generation, report, thresholds)
        return await asyncio.to_thread(
            read_capture, job.key, job.generation, report, thresholds, line_reader(overlays)
        )

    async def look_for_programs(self, result: CaptureResult) -> None:
        """Find programs of the workspace that give inputs to a target without any, off the event loop."""
        target = result.report.target
        folder = self._state.folder_of(target.path)
        folders = [folder.path, *(folder.path for folder in self._state.folders.values() if folder.uri)]
        is_function = target.kind in {"function", "variable"}
        find = functools.partial(find_programs, target.path, target.name, folders, is_function=is_function)
        programs = await asyncio.to_thread(find)
        tried = self._state.input_programs.get((target.path, target.name))
        # One that was run and gave no inputs is not offered again.
        result.input_programs = tuple(program for program in programs if program.path != tried)[:_OFFERED]
        if self._state.captures.get(result.key) is result:
            self._state.mark_results([target.path])

    def _accept_kernel(self, key: Key, report: Report) -> None:
        """Store what one kernel was compiled to with the report that has its source."""
        self._edits.drop(key)
        if key.kernel.startswith(f"{OWN}:"):
            self._accept_own_kernels(key, report)
            return
        result = self._state.kernels.get(key.of_target)
        assembled_kernel = report.assembled.get(key.kernel)
        if assembled_kernel is None and report.failures:
            why = f"{report.failures[0].message}. {report.failures[0].next_step}".rstrip()
            assembled_kernel = Assembled(failure=why)
        if result is not None and assembled_kernel is not None:
            asked = assembled_kernel.disassembled or key.disassemble
            result.shown.keep_assembled(key.kernel, replace(assembled_kernel, disassembled=asked))
            self._state.mark_results([key.path])

    def _accept_own_kernels(self, key: Key, report: Report) -> None:
        """Store what a further run has compiled of the user's own kernels with the capture that lists them."""
        result = self._state.captures.get(key.as_capture)
        if result is None:
            return
        shown = result.shown
        shown.compiled_forms |= {key.kernel.split(":", maxsplit=1)[1]}
        shown.report = merged(shown.report, report)
        self._state.mark_results({key.path, *(kernel.location.path for kernel in report.own_kernels)})

    def rederive(self) -> None:
        """Make the findings of every report again, after a change of the thresholds."""
        for key, result in self._state.results.items():
            thresholds = thresholds_of(self._state.folder_of(key.path).settings)
            if isinstance(result, (CaptureResult, KernelResult)):
                result.shown.derive(thresholds, self._state.documents.read_line)
                self._state.mark_findings(result.paths())


class ChangeNotices:
    """Shows the changes of a state."""

    def __init__(self, state: State, ui: Ui) -> None:
        """Show every change of `state` from now on."""
        self._state = state
        self._ui = ui
        self._is_scheduled = False
        state.on_change = self._schedule_changes

    def _schedule_changes(self) -> None:
        """Show what changed once the event loop has finished its current step."""
        if not self._is_scheduled:
            with contextlib.suppress(RuntimeError):  # no loop runs: the next call takes these changes, too
                asyncio.get_running_loop().call_soon(self.show_changes)
                self._is_scheduled = True

    def show_changes(self) -> None:
        """Show the files that look different since the last call."""
        self._is_scheduled = False
        findings, results = self._state.take_changes()
        if findings:
            self._ui.findings_changed(findings)
        if results:
            self._ui.results_changed(results)

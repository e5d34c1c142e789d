"""Results of reports: findings are made, moved to where the text is now, stored in the state and shown.

Invariant: edits made during a run are applied to its result before the result is shown.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from fuselight.shared.report import Assembled, Tier
from fuselight_server.editor.results.captures import CaptureResult, read_capture
from fuselight_server.editor.results.changes import capture_changes, kernel_changes
from fuselight_server.editor.results.kernels import KernelResult, kernel_result_of, what_is_missing
from fuselight_server.editor.session.report_reading import line_reader, thresholds_of
from fuselight_server.source.input_programs import find_programs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuselight.shared.report import Report
    from fuselight_server.editor.results.target_result import TargetResult
    from fuselight_server.editor.session.run_edits import RunEdits
    from fuselight_server.editor.session.state import State
    from fuselight_server.execution.runs.keys import Key
    from fuselight_server.execution.runs.queue import Job

_OFFERED = 3
"""Programs that are offered for the inputs of a target."""


class ResultIntake:
    """Makes results of the reports of tiers capture and kernels."""

    def __init__(self, state: State, edits: RunEdits) -> None:
        """Start without results."""
        self._state = state
        self._edits = edits

    async def accept(self, job: Job, report: Report, overlays: Mapping[str, str]) -> None:
        """Show what a run found, which saw the unsaved texts `overlays`."""
        if job.key.kernel:
            self._accept_kernel(job.key, report)
            return
        result = await self._result(job, report, overlays)
        if self._edits.catch_up(result, ended=True):
            self._compare(result)
            self._state.accept(result)

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
                self._state.accept(result)

    async def _result(self, job: Job, report: Report, overlays: Mapping[str, str]) -> TargetResult:
        """Make the result of a report, off the event loop: a report of a thousand kernels takes seconds."""
        thresholds = thresholds_of(self._state.folder_of(job.key.path).settings)
        if job.key.tier is Tier.KERNELS:
            return await asyncio.to_thread(kernel_result_of, job.key, job.generation, report, thresholds)
        return await asyncio.to_thread(
            read_capture, job.key, job.generation, report, thresholds, line_reader(overlays)
        )

    def show_again(self, result: CaptureResult) -> None:
        """Show a result that was made for the texts that the files have now."""
        if result.verified:
            self._compare(result)
        self._state.accept(result)

    def _compare(self, result: TargetResult) -> None:
        """Say what differs from the last complete result of the target."""
        older = self._state.results.get(result.key)
        before = older.last_complete if older is not None else None
        if isinstance(before, CaptureResult) and isinstance(result, CaptureResult):
            result.compare(capture_changes(before, result))
        elif isinstance(before, KernelResult) and isinstance(result, KernelResult) and result.has_data:
            result.headline, changes = kernel_changes(before, result)
            result.compare(changes)
        for text in result.changes:
            self._state.log(f"{result.key.words}: {text}")

    def accept_trials(self, result: CaptureResult, report: Report) -> None:
        """Show the findings of a result again with the trials of its cures, unless its lines have moved since."""
        if result.stale or self._state.captures.get(result.key) is not result:
            return
        result.report = replace(result.report, trials=report.trials, problems=report.problems)
        vars(result).pop("priorities", None)
        result.derive(thresholds_of(self._state.folder_of(result.key.path).settings), self._state.read_line)
        self._state.mark_findings(result.paths())
        for trial in report.trials:
            outcome = trial.refused or f"{trial.before} to {trial.after} {trial.cure.goal.value}"
            self._state.log(
                f"{result.key.words}: tried {trial.cure.kind.value} {trial.cure.subjects}: {outcome}"
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
        result = self._state.kernels.get(key.of_target)
        assembled_kernel = report.assembled.get(key.kernel)
        if assembled_kernel is None and report.failures:
            why = f"{report.failures[0].message}. {report.failures[0].next_step}".rstrip()
            assembled_kernel = Assembled(failure=why)
        if result is not None and assembled_kernel is not None:
            asked = assembled_kernel.disassembled or key.disassemble
            result.shown.keep_assembled(key.kernel, replace(assembled_kernel, disassembled=asked))
            self._state.mark_results([key.path])

    def rederive(self) -> None:
        """Make the findings of every report again, after a change of the thresholds."""
        for key, result in self._state.results.items():
            thresholds = thresholds_of(self._state.folder_of(key.path).settings)
            if isinstance(result, (CaptureResult, KernelResult)):
                result.shown.derive(thresholds, self._state.read_line)
                self._state.mark_findings(result.paths())

"""The fastest configuration of each target on this machine, verified, and written for replay.

Invariant: what is written was measured and compared in this search. A search that is ended early keeps the best so
far, unconfirmed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.report import Report, Tuned
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.fix import FixedFiles
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.targets import TargetRun, report_each
from fuselight_server.explain.searches.decisions import (
    WrittenDecision,
    tuned_path,
    unwritable,
    write_decision,
)
from fuselight_server.explain.searches.measurements import is_tentative
from fuselight_server.explain.searches.planning import FIX_SHARE, tune_request, with_preparation
from fuselight_server.explain.searches.words import progress_best, with_best
from fuselight_server.fixes.verification.attempts import FixStatus
from fuselight_server.fixes.verification.fixer import FixOptions


@dataclass
class TargetSearch:
    """One target: its search, and what became of the result."""

    report: Report
    written: WrittenDecision | None = None
    """None without a result."""


@dataclass
class TuningOutcome:
    """The searches of the command, and what could not be searched."""

    checked: CheckOutcome = field(default_factory=CheckOutcome)
    searches: list[TargetSearch] = field(default_factory=list)
    is_stopped: bool = False
    """Whether a search was canceled: the targets after it are left out."""

    @property
    def has_result(self) -> bool:
        """Whether a search has decided."""
        return any(search.report.tuned is not None and search.report.tuned.result for search in self.searches)


def check_output(paths: Iterable[Path], output: str | None) -> None:
    """Raise CommandError where a search would find out at its end that its result cannot be written."""
    for path in dict.fromkeys(tuned_path(str(path), output) for path in paths if path.exists()):
        problem = unwritable(path)
        if problem:
            raise CommandError(problem)


async def find_fastest(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    plan: TunePlan,
    output: str | None = None,
    has_fixes: bool = True,
    has_artifacts: bool = False,
) -> TuningOutcome:
    """Search for each target of the paths, one after the other.

    `output` names the tuned file; `has_fixes`: whether fixes are verified and tried; `has_artifacts`: whether the
    winner's compiled code is saved. A cancel ends a search with the best so far, if there is any; where none goes on,
    it raises asyncio.CancelledError.
    """
    searches = _Searches(
        plan,
        output,
        has_fixes=has_fixes,
        has_artifacts=has_artifacts,
        texts=options.texts,
        notify=options.notify,
    )
    outcome = searches.outcome

    async def report_of(target_run: TargetRun, checked: CheckOutcome) -> Report:
        outcome.checked.sources = checked.sources
        report = await searches.search(target_run, checked)
        outcome.checked.reports.append(report)
        if outcome.is_stopped:
            raise _StoppedError
        return report

    with contextlib.suppress(_StoppedError):
        # Sampling a process stops it, which would falsify its times.
        outcome.checked = await report_each(
            options, show, token, report_of, sample_after=0.0, splits_programs=True
        )
    return outcome


class _Searches:
    """The searches of one command."""

    def __init__(
        self,
        plan: TunePlan,
        output: str | None,
        *,
        has_fixes: bool,
        has_artifacts: bool,
        texts: Mapping[str, str],
        notify: Callable[[str], None],
    ) -> None:
        self.outcome = TuningOutcome()
        self._plan, self._output = plan, output
        self._has_fixes, self._has_artifacts = has_fixes, has_artifacts
        self._texts = texts
        self._notify = notify

    async def search(self, target_run: TargetRun, outcome: CheckOutcome) -> Report:
        """Search for one target, and write its result. Raises asyncio.CancelledError."""
        start = time.monotonic()
        path = target_run.request.target.path
        fixed, titles = await self._fixes(target_run, outcome) if self._has_fixes else ({}, ())
        spent = time.monotonic() - start
        plan = dataclasses.replace(
            self._plan,
            budget_seconds=max(self._plan.budget_seconds - spent, 1.0),
            fixed=fixed,
            fixes=titles,
            artifacts=str(tuned_path(path, self._output).parent) if self._has_artifacts else "",
        )
        report = await self._measured(target_run, plan)
        report = with_preparation(report, spent)
        self.outcome.searches.append(TargetSearch(report, self._written(report.tuned, path)))
        return report

    def _written(self, tuned: Tuned | None, path: str) -> WrittenDecision | None:
        if tuned is None or tuned.result is None:
            return None
        return write_decision(tuned.result, path, self._output, is_tentative=is_tentative(tuned))

    async def _measured(self, target_run: TargetRun, plan: TunePlan) -> Report:
        """The report of the search; that of a canceled one has what was known by then. Raises _StoppedError."""
        known: list[Report] = []

        def partly(report: Report) -> None:
            known[:] = [report]

        def show(text: str) -> None:
            best = progress_best(known[0].tuned) if known and known[0].tuned is not None else ""
            target_run.show(with_best(text, best))

        run = dataclasses.replace(target_run, show=show)
        request = tune_request(target_run.request, plan)
        try:
            return await run.run_report(request, partly)
        except asyncio.CancelledError:
            if not target_run.token.is_canceled:
                raise
            self.outcome.is_stopped = True
        if known:
            return known[0]
        raise _StoppedError

    async def _fixes(
        self, target_run: TargetRun, outcome: CheckOutcome
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Texts with the fixes that pass in a part of the budget, and the titles of these fixes."""
        with owned_folder("tune") as folder:
            files = FixedFiles(FixOptions(), folder, writes=False, texts=self._texts, notify=self._notify)

            async def fix() -> None:
                first = await files.report_of(target_run, outcome)
                if first.breaks or first.recompiles:
                    await files.fixer.fix(target_run, first, FixOptions())

            target_run.show("looking for graph breaks and recompilations that a verified fix removes")
            with contextlib.suppress(asyncio.TimeoutError, TimeoutError):  # those that passed by then count
                await asyncio.wait_for(fix(), FIX_SHARE * self._plan.budget_seconds)
        passed = [attempt for attempt in files.attempts if attempt.status is FixStatus.PASSED]
        titles = tuple(dict.fromkeys(attempt.remedy.title for attempt in passed))
        return dict(files.fixer.texts.changed), titles


class _StoppedError(Exception):
    """A search was ended early: the targets after it are left out."""

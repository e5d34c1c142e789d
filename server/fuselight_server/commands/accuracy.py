"""Whether the compiled calls of the targets give the results of eager mode; of a wrong call, the stage and the cure.

Invariant: what the runs show is in `Report.results`, so that every face reads the Report alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from fuselight.shared.report import Problem, Report
from fuselight_server.base.formatting import format_target
from fuselight_server.commands.check import ReportOf, report_as_is
from fuselight_server.commands.findings import without_ignored
from fuselight_server.commands.targets import TargetRun, report_each
from fuselight_server.explain.findings import findings_of_results
from fuselight_server.explain.findings.common.result_words import compared_calls, wrong_calls
from fuselight_server.fixes.verification.accuracy_runs import RESULTS
from fuselight_server.fixes.verification.wrong_results import compare_results

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.protocol import AccuracyRequest
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.commands.accuracy_options import AccuracyPlan
    from fuselight_server.commands.options import CommandOptions
    from fuselight_server.commands.outcome import CheckOutcome


class ResultsState(Enum):
    """The verdict on a target."""

    AS_EAGER = "as_eager"
    DIFFERS = "differs"
    NOT_COMPARED = "not_compared"
    """It failed, or none of its calls could be compared."""


@dataclass
class AccuracyOutcome:
    """The targets with the findings of their results, and what the command could not do."""

    check: CheckOutcome

    @property
    def exit_code(self) -> int:
        """0: compared calls of every target, all as in eager mode; 1: a call differs; 2: a target was not compared."""
        states = [state_of(report) for report in self.check.reports]
        if self.check.problems or not states or ResultsState.NOT_COMPARED in states:
            return 2
        return int(ResultsState.DIFFERS in states)


def state_of(report: Report) -> ResultsState:
    """The verdict on the target of a report."""
    if report.results is not None and wrong_calls(report.results):
        return ResultsState.DIFFERS
    if report.failures or report.results is None or not compared_calls(report.results):
        return ResultsState.NOT_COMPARED
    return ResultsState.AS_EAGER


async def compare(
    options: CommandOptions, show: Callable[[str], None], token: CancelToken, *, plan: AccuracyPlan
) -> AccuracyOutcome:
    """Compare the calls of each target. Raises asyncio.CancelledError once the token is canceled."""

    async def compared(target_run: TargetRun, _outcome: CheckOutcome) -> Report:
        return await compare_target(target_run, plan)

    outcome = await report_each(options, show, token, compared)
    rows = [
        finding
        for report in outcome.reports
        for finding in findings_of_results(report, read_line=outcome.sources.line)
    ]
    kept = without_ignored(tuple(dict.fromkeys(rows)), outcome.readings)
    outcome.findings = sorted(kept, key=lambda row: (row.span.path, row.span.start, row.code, row.title))
    return AccuracyOutcome(outcome)


def with_results(plan: AccuracyPlan, report_of: ReportOf = report_as_is) -> ReportOf:
    """Report a target as `report_of` does, and add the comparison of its results. A failed comparison is a problem."""

    async def report_with_results(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        report = await report_of(target_run, outcome)
        if report.failures:
            return report
        compared = await compare_target(target_run, plan)
        outcome.problems += [
            Problem(RESULTS, f"results of {format_target(report.target.name)}", failure.message)
            for failure in compared.failures
        ]
        problems = tuple(dict.fromkeys((*report.problems, *compared.problems)))
        return dataclasses.replace(report, results=compared.results, problems=problems)

    return report_with_results


async def compare_target(target_run: TargetRun, plan: AccuracyPlan) -> Report:
    """The report of one target with its calls compared."""

    async def run(request: AccuracyRequest, words: str) -> Report:
        shown = target_run.with_show(lambda text: target_run.show(f"{words}: {text}"))
        asked = dataclasses.replace(request, training=plan.training, device=plan.device, against=plan.against)
        return await shown.run_report(asked)

    return await compare_results(
        target_run.request,
        run,
        locate_seconds=plan.locate_seconds,
        tries=plan.tries,
        kernels=plan.kernels,
    )

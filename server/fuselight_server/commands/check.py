"""The findings of files: one worker for all of their targets.

Invariant: the same reading, plan, worker and findings as the language server.
"""

from __future__ import annotations

import asyncio
import functools
import json
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from fuselight.shared.codec import encode
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.report import Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.finding import by_place
from fuselight_server.base.remedies import RemedyState
from fuselight_server.commands.findings import SourceHints, answered_targets, compose_findings
from fuselight_server.commands.known_fixes import reports_of
from fuselight_server.commands.measured_lines import measured_eager_times
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import shown_path
from fuselight_server.commands.targets import TargetRun, report_each
from fuselight_server.explain.findings import Thresholds, findings
from fuselight_server.explain.findings.common.catalogue import Origin
from fuselight_server.explain.findings.static import example_unread
from fuselight_server.fixes.verification.cure_trials import (
    SHARE,
    CureTrials,
    TrialBudget,
    try_cures,
    wanted_cures,
)
from fuselight_server.source.reading import Reading, StaticTarget

ReportOf: TypeAlias = "Callable[[TargetRun, CheckOutcome], Awaitable[Report]]"
NO_THRESHOLDS = Thresholds()
TRIES: dict[str, float | None] = {"0": 0.0, "some": SHARE, "all": None}
"""By name, the part of a command's time that trials of cures may take; None: as much as they need."""


async def report_as_is(target_run: TargetRun, _outcome: CheckOutcome) -> Report:
    """Report one target by its capture alone."""
    return await target_run.run_report()


async def try_advice(
    target_run: TargetRun,
    report: Report,
    budget: TrialBudget,
    outcome: CheckOutcome,
    *,
    tries_fixes: bool = False,
) -> Report:
    """The report of a target with the trials that it lacks, as far as the budget allows.

    `tries_fixes`: whether the program is also run with the text of each fix, where no verification follows.
    """

    async def further(tried_report: Report, without: Report, trials: CureTrials) -> None:
        from fuselight_server.fixes.verification.text_trials import try_texts  # noqa: PLC0415 - as below

        tried = await try_texts(
            *(tried_report, without, trials.request, trials.answer),
            read=outcome.sources.text_or_none,
            may_go_on=lambda: trials.has_time,
            show=lambda text: target_run.show(f"trying {text}"),
        )
        outcome.tried_fixes.update({finding.identity: entries for finding, entries in tried.items()})

    may_try = tries_fixes and bool(wanted_cures(report, outcome.sources.line))
    if tries_fixes and not may_try and budget.allows(2 * sum(report.phases.values())):
        from fuselight_server.fixes.verification.text_trials import may_try_texts  # noqa: PLC0415 - LibCST takes as long as all else in a check

        may_try = may_try_texts(report, outcome.sources.text_or_none)
    return await try_cures(
        target_run.request,
        report,
        target_run.run_report,
        budget=budget,
        read_line=outcome.sources.line,
        show=lambda text: target_run.show(f"trying advice: {text}"),
        further=further if may_try else None,
    )


async def analyze(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    thresholds: Thresholds = NO_THRESHOLDS,
    default_sizes: dict[str, int] | None = None,
    report_of: ReportOf = report_as_is,
    uses_kept: bool = False,
    tries: float | None = SHARE,
    keeps_partial: bool = False,
) -> CheckOutcome:
    """Read the files, run their targets one after the other in one worker, and make the findings.

    `tries`: the part of the command's time that trials of cures may take in addition; None for all of them.
    `keeps_partial`: whether a canceled check has the findings until then, and no asyncio.CancelledError is raised.
    """
    budget = TrialBudget(tries)

    async def completed(
        report: Report, target_run: TargetRun, outcome: CheckOutcome, *, is_kept: bool = False
    ) -> Report:
        try:
            return await try_advice(target_run, report, budget, outcome, tries_fixes=not is_kept)
        except asyncio.CancelledError:
            if not (keeps_partial and token.is_canceled):
                raise
            return report  # what was found stays, without the trials that the user has stopped

    async def tried(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        return await completed(await report_of(target_run, outcome), target_run, outcome)

    async def with_trials(
        report: Report, start: Callable[[], Awaitable[TargetRun]], outcome: CheckOutcome
    ) -> Report:
        if not wanted_cures(report, outcome.sources.line):
            return report
        return await completed(report, await start(), outcome, is_kept=True)

    outcome = await report_each(
        options,
        show,
        token,
        tried,
        default_sizes=default_sizes,
        uses_kept=uses_kept,
        with_trials=with_trials if tries is None else None,
        keeps_partial=keeps_partial,
    )
    shared_findings(outcome, thresholds)
    if not keeps_partial:
        token.check()
    return outcome


def shared_findings(outcome: CheckOutcome, thresholds: Thresholds = NO_THRESHOLDS) -> None:
    """Make the findings of the outcome from its reports and readings."""
    ran = [
        finding
        for report in outcome.reports
        for finding in findings(report, thresholds=thresholds, read_line=outcome.sources.line)
        if finding.code != "FL502"
        or report.target.kind != "call"  # a problem of the command: a name it does not know
    ]
    called = {
        (frame.location.path, frame.location.line) for report in outcome.reports for frame in report.frames
    }
    hints = [_hints(reading, outcome) for reading in outcome.readings.values()]
    kept = compose_findings(
        ran, hints, outcome.readings, served=called, has_run=functools.partial(has_run, outcome.reports)
    )
    outcome.findings = sorted(kept, key=by_place)
    outcome.eager_us = measured_eager_times(outcome.reports, outcome.priorities, outcome.sources.line)


def has_run(reports: Sequence[Report], path: str, origin: Origin) -> bool:
    """Whether a run of a check went through a file to its end, and finds the codes of an origin."""
    if origin is Origin.SOURCE:
        return True
    of_file = (report for report in reports if path == report.target.path or path in report.files)
    ran = [report for report in of_file if not report.failures]
    if not ran:
        return False
    if origin is Origin.RANKS:
        return any(report.world is not None for report in ran)
    if origin is Origin.RESULTS:
        return any(report.results is not None for report in ran)
    return origin is Origin.CAPTURE or (origin is Origin.NOTEBOOK and path.endswith(SUFFIX))


def _hints(reading: Reading, outcome: CheckOutcome) -> SourceHints:
    answered = answered_targets(reading, outcome.reports)
    # Where nothing of a file can run, its targets do not lack inputs.
    most = None if reading.syntax_error is None else 0
    return SourceHints(reading, answered, most, functools.partial(_example, outcome, reading))


def _example(outcome: CheckOutcome, reading: Reading, target: StaticTarget) -> str:
    """A directive's call of a target, from the signature of what it calls."""
    answers, text = outcome.answers, outcome.sources.text(reading.path)
    if not isinstance(text, str):
        return example_unread(target)
    question = ("call", text, json.dumps(encode(target), sort_keys=True))
    known = answers.recall(reading.path, *question) if answers is not None else None
    if known is not None:
        return known
    from fuselight_server.source.example_calls import call_for  # noqa: PLC0415 - few checks need it

    call = call_for(text, target)
    if answers is not None:
        answers.remember(reading.path, call, (), *question)
    return call


def fix_command(outcome: CheckOutcome, targets: tuple[str, ...] = (), arguments: tuple[str, ...] = ()) -> str:
    """The command that tries a fix of a finding; empty where no list of remedies has one that is not tried.

    The line to fix first counts before others. `targets`: those that the user named; `arguments`: of the program.
    """
    program = f" -- {shlex.join(arguments)}" if arguments else ""
    changing = ""
    ranks = {
        (priority.cost.path, priority.cost.line): rank for rank, priority in enumerate(outcome.priorities)
    }
    for finding in sorted(
        outcome.findings,
        key=lambda finding: ranks.get((finding.span.path, finding.span.line), len(ranks)),
    ):
        fixes = [fix for fix in finding.remedies if fix.is_fix and fix.state is not RemedyState.REFUSED]
        for report in reports_of(finding, outcome)[:1] if fixes else ():
            named = [f"--target {shlex.quote(name)}" for name in targets if name == report.target.name]
            command = " ".join(["fuselight fix", shlex.quote(shown_path(report.target.path)), *named])
            if not all(fix.changes_behavior for fix in fixes):
                return f"{command}{program}"
            changing = changing or f"{command} --allow-behavior-changes{program}"
    return changing

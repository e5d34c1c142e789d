"""Tries the cures of a report's recompilations: further runs of the target, one for each, within a budget of time.

Invariant: a trial changes no report but by what it found. What there is no time for stays untried, and a program that
compiles something else each time it runs has no trials.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight.shared.protocol import CaptureRequest
from fuselight.shared.report import CureRun, Problem, Rung
from fuselight_server.base.finding import rank
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from fuselight_server.explain.findings.common.context import TRIALS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fuselight.shared.protocol import RunRequest
    from fuselight.shared.report import CallCure, CureTrial, Report

SHARE = 0.3
"""Of the time of a command that trials may take in addition."""
LEAST = 20.0
"""Seconds that trials may take of however short a command: each is a whole run, and untried advice is of no use."""
MAX_TRIALS = 40
"""Trials of one target, however much time there is."""
_EXPENSIVE = 1.5
"""A trial is not begun if the longest run so far, times this, does not fit into the rest of the budget."""


@dataclass
class TrialBudget:
    """Seconds for the trials of one command: a share of all other time since it was made, or LEAST if that is more."""

    share: float | None = SHARE
    """None: there is no such limit. 0: nothing is tried."""
    most: float | None = None
    """Seconds that trials may take in all; None: there is no such limit."""
    clock: Callable[[], float] = time.perf_counter
    spent: float = 0.0
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def allows(self, seconds: float) -> bool:
        """Whether a run that takes so long fits."""
        if self.most is not None and self.spent + seconds > self.most:
            return False
        if self.share is None:
            return True
        others = self.clock() - self._started - self.spent
        return self.share > 0 and self.spent + seconds <= max(self.share * others, LEAST)


async def try_cures(
    request: RunRequest,
    report: Report,
    run: Callable[[RunRequest], Awaitable[Report]],
    *,
    budget: TrialBudget,
    read_line: Callable[[str, int], str | None],
    show: Callable[[str], None] = lambda _text: None,
) -> Report:
    """The report with the trials of its cures, those of the worst findings first; itself if there is nothing to try.

    Trials are compared with a run without a change and never with the report: the program may compile something else
    when it runs again, which would count for the change. If that run differs from the report, nothing is tried.
    """
    cures = wanted_cures(report, read_line)
    seconds = sum(report.phases.values())
    if not cures or not isinstance(request, CaptureRequest) or not _may_try(request, report):
        return report
    if not budget.allows(2 * seconds):  # the run for comparison, and one trial
        return report

    capture = request
    report = dataclasses.replace(
        report, problems=tuple(problem for problem in report.problems if problem.stage != TRIALS)
    )

    async def timed(cure: CallCure | None, calls: int | None) -> Report:
        nonlocal seconds
        start = budget.clock()
        answer = await run(dataclasses.replace(capture, trial=CureRun(cure, calls), preload=False))
        seconds = max(seconds, budget.clock() - start)
        budget.spent += budget.clock() - start
        return answer

    show("calls without a change")
    without = await timed(None, None)
    if request.automatic and not _is_same(without, report):
        capture = dataclasses.replace(capture, automatic=False)  # the user's run went to the program's end
        without = await timed(None, None)
    if not _is_same(without, report):
        why = (
            f"the run for comparison ended early: {without.failures[0].message}"
            if without.failures and not report.failures
            else "the program compiled something else when it ran again"
        )
        return dataclasses.replace(report, problems=(*report.problems, Problem(TRIALS, "cures", why)))
    calls = without.trial.calls if without.trial is not None else None
    trials: list[CureTrial] = []
    for number, cure in enumerate(cures[:MAX_TRIALS], 1):
        if not budget.allows(_EXPENSIVE * seconds):
            break
        if any(trial.cures and trial.after <= 1 and trial.cure in cure.changes for trial in trials):
            continue  # a part of it is enough
        show(f"change {number} of {min(len(cures), MAX_TRIALS)}")
        trials.append(trial_of(cure, without, await timed(cure, calls)))
    return dataclasses.replace(report, trials=(*report.trials, *trials))


def wanted_cures(report: Report, read_line: Callable[[str, int], str | None]) -> tuple[CallCure, ...]:
    """The cures of the report's findings that were not tried, each once, those of the worst findings first."""
    known = {trial.cure for trial in report.trials}
    ordered = sorted(findings(report, read_line=read_line), key=rank)
    cures = dict.fromkeys(cure for finding in ordered for cure in finding.cures)
    return tuple(cure for cure in cures if cure not in known)


def _is_same(without: Report, report: Report) -> bool:
    """Whether the run for comparison compiled as often as the run of the report."""
    return without.trial is not None and len(without.compiles) == len(report.compiles)


def _may_try(request: CaptureRequest, report: Report) -> bool:
    """Whether the calls can be made again: those of several ranks are not, nor those of a run that failed.

    A run that the recompile limit ended is tried: a cure takes it further.
    """
    is_complete = all(failure.kind == "recompile_limit" for failure in report.failures)
    is_run = report.inputs is not None and report.inputs.rung not in {Rung.PROGRAM, Rung.KERNEL, Rung.TRACE}
    return is_run and request.world is None and not request.changes and is_complete

"""Tries the cures of a report's recompilations: further runs of the target, one for each, within a budget of time.

Invariant: a trial changes no report but by what it found. What there is no time for stays untried, and a program that
compiles something else each time it runs has no trials.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from fuselight.shared.protocol import CaptureRequest, RunRequest
from fuselight.shared.report import CallCure, CureGoal, CureKind, CureRun, CureTrial, Problem, Report, Rung
from fuselight_server.base.finding import rank
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.advice import together
from fuselight_server.explain.findings.advice.trial_verdict import is_harmless, trial_of
from fuselight_server.explain.findings.common.context import TRIALS
from fuselight_server.fixes.verification.joint_trials import joint_cures, smaller, uncovered_cures

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
    further: FurtherTrials | None = None,
) -> Report:
    """The report with the trials of its cures, those of the worst findings first; itself if there is nothing to try.

    Trials are compared with a run without a change and never with the report: the program may compile something else
    when it runs again, which would count for the change. If that run differs from the report, nothing is tried.
    `further` may try something else after them.
    """
    cures = wanted_cures(report, read_line)
    seconds = sum(report.phases.values())
    if not (cures or further is not None) or not isinstance(request, CaptureRequest):
        return report
    if why := _obstacle(request, report):
        return _with_problem(report, why) if cures and budget.allows(0) else report
    if not budget.allows(2 * seconds):  # the run for comparison, and one trial
        return report
    trials = CureTrials(request, run, budget, read_line, show)
    without = await trials.compare(automatic=request.automatic)
    if request.automatic and not _is_same(without, report):
        without = await trials.compare(automatic=False)  # the user's run went to the program's end
    if not _is_same(without, report):
        why = (
            f"the run for comparison ended early: {without.failures[0].message}"
            if without.failures and not report.failures
            else "the program compiled something else when it ran again"
        )
        return _with_problem(report, why) if cures else report
    report = await trials.each(_with_problem(report), without)
    if further is not None:
        await further(report, without, trials)
    is_open = trials.is_full and bool(wanted_cures(report, read_line))
    return _with_problem(report, f"{MAX_TRIALS} changes were tried before it") if is_open else report


class CureTrials:
    """The trials of one report, with the runs that they need."""

    def __init__(
        self,
        request: CaptureRequest,
        run: Callable[[RunRequest], Awaitable[Report]],
        budget: TrialBudget,
        read_line: Callable[[str, int], str | None],
        show: Callable[[str], None],
    ) -> None:
        self.request = request
        self._run, self._budget, self._read_line, self._show = run, budget, read_line, show
        self._seconds, self._count = 0.0, 0
        self._tried: set[CallCure] = set()
        self._uncovered: dict[CallCure, None] = {}
        """What may help against the breaks that single changes have moved to."""

    async def compare(self, *, automatic: bool) -> Report:
        """Make the calls without a change, as all trials are compared with them."""
        self._show("calls without a change")
        self.request = dataclasses.replace(self.request, automatic=automatic)
        return await self._answer(CureRun())

    async def each(self, report: Report, without: Report) -> Report:
        """Try the changes of the findings, then several at once where none helps alone, then what leaves code out."""
        self._tried.update(trial.cure for trial in report.trials)
        report = await self._alone(report, without, lambda cure: cure.kind is not CureKind.OUTSIDE)
        shown = findings(report, read_line=self._read_line)
        for joint in joint_cures(shown, report.trials, self._uncovered):
            if any(trial.leaves_one and {*trial.cure.changes} <= {*joint} for trial in report.trials):
                continue
            async for trial in self._of_several(joint, without):
                report = _with_trial(report, trial)
        return await self._alone(report, without, lambda cure: cure.kind is CureKind.OUTSIDE)

    async def _alone(self, report: Report, without: Report, takes: Callable[[CallCure], bool]) -> Report:
        """Try the changes of the findings that `takes` accepts, also those that the trials bring up."""
        seen: set[CallCure] = set()
        while new := [
            cure for cure in wanted_cures(report, self._read_line) if cure not in seen and takes(cure)
        ]:
            most = min(self._count + len(new), MAX_TRIALS)
            for cure in new:
                if not self._may_go_on:
                    return report
                seen.add(cure)
                if any(trial.leaves_one and trial.cure in cure.changes for trial in report.trials):
                    continue  # a part of it is enough
                self._show(f"change {self._count + 1} of {most}")
                report = _with_trial(report, await self._trial(cure, without))
        return report

    @property
    def is_full(self) -> bool:
        """Whether there were as many trials as a report may have."""
        return self._count >= MAX_TRIALS

    @property
    def has_time(self) -> bool:
        """Whether there is time for one more run."""
        return self._budget.allows(_EXPENSIVE * self._seconds)

    @property
    def _may_go_on(self) -> bool:
        return not self.is_full and self.has_time

    async def _answer(self, trial: CureRun) -> Report:
        return await self.answer(dataclasses.replace(self.request, trial=trial, preload=True))

    async def answer(self, request: RunRequest) -> Report:
        """Make a run, whose time counts."""
        start = self._budget.clock()
        answer = await self._run(request)
        taken = self._budget.clock() - start
        self._seconds = max(self._seconds, taken)
        self._budget.spent += taken
        return answer

    async def _trial(self, cure: CallCure, without: Report) -> CureTrial:
        # Past an exception of the program, calls may show what a change costs.
        is_further = bool(without.failures) and cure.goal is CureGoal.BREAKS
        counts = None if is_further else without.trial
        answer = await self._answer(CureRun(cure, counts.calls if counts is not None else None))
        self._count += 1
        self._tried.add(cure)
        trial = trial_of(cure, without, answer, self._read_line)
        if cure.goal is CureGoal.BREAKS and trial.refused and is_harmless(trial):
            known, shown = (findings(each, read_line=self._read_line) for each in (without, answer))
            self._uncovered |= dict.fromkeys(uncovered_cures(shown, known))
        return trial

    async def _of_several(self, joint: list[CallCure], without: Report) -> AsyncIterator[CureTrial]:
        """The trials of several changes, and of fewer of them as long as they help as much as all."""
        pending, best = [joint], None
        while pending and self._may_go_on:
            parts = pending.pop(0)
            cure = together(parts)
            if cure in self._tried:
                continue
            self._show(f"{len(parts)} changes together")
            trial = await self._trial(cure, without)
            yield trial
            if trial.cures and (best is None or trial.saves_as_much_as(best)):
                best, pending = trial, smaller(parts)
            elif best is None and parts is joint:
                pending += smaller(parts)  # one of them may be without any effect


FurtherTrials = Callable[[Report, Report, CureTrials], Awaitable[None]]
"""Tries more; it gets the report with its trials, the run without a change, and what makes further runs."""


def _with_trial(report: Report, trial: CureTrial) -> Report:
    return dataclasses.replace(report, trials=(*report.trials, trial))


def _with_problem(report: Report, why: str = "") -> Report:
    """The report with the reason why there are no further trials of it, in place of an earlier one."""
    problems = tuple(problem for problem in report.problems if problem.stage != TRIALS)
    more = (Problem(TRIALS, "cures", why),) if why else ()
    return dataclasses.replace(report, problems=(*problems, *more))


def wanted_cures(report: Report, read_line: Callable[[str, int], str | None]) -> tuple[CallCure, ...]:
    """The cures of the report's findings that were not tried, each once, those of the worst findings first."""
    known = {trial.cure for trial in report.trials}
    ordered = sorted(findings(report, read_line=read_line), key=rank)
    cures = dict.fromkeys(cure for finding in ordered for cure in finding.cures)
    return tuple(cure for cure in cures if cure not in known)


def _is_same(without: Report, report: Report) -> bool:
    """Whether the run for comparison compiled as often as the run of the report."""
    return without.trial is not None and len(without.compiles) == len(report.compiles)


def _obstacle(request: CaptureRequest, report: Report) -> str:
    """Why the calls cannot be made again; empty if they can.

    A run that an exception or the recompile limit ended is tried: a cure may take it further.
    """
    if request.world is not None:
        return "no run of several ranks is made for it"
    failure = next((item for item in report.failures if item.kind not in _MAY_GO_FURTHER), None)
    if failure is not None:
        return f"a run for it would end early, too: {failure.message}"
    is_run = report.inputs is not None and report.inputs.rung not in {Rung.PROGRAM, Rung.KERNEL, Rung.TRACE}
    return "" if is_run and not request.changes else "its calls cannot be made again"


_MAY_GO_FURTHER = frozenset({"exception", "fullgraph", "recompile_limit"})
"""Kinds of failures after which a run with a change is compared up to the call that failed."""

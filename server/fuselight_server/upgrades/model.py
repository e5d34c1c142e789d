"""What differs between the runs of targets with two releases of torch, as data.

Invariant: a fact that one of the sides does not have is None or not compared, and is never called a difference. Both
sides ran the same source on the same machine. `before` is the side of `--from`, `after` that of `--to`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from fuselight_server.base.finding import Finding, SourceLine
from fuselight_server.jobs.comparison.model import ChangeVerdict, FindingChange, FindingState, FunctionChange
from fuselight_server.upgrades.numerics import result_change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.shared.report import ReleaseCall, Report, Versions
    from fuselight_server.upgrades.times import TimeDifference


@dataclass(frozen=True)
class SideReports:
    """What one side ran of a target."""

    capture: Report
    kernels: Report | None = None
    """Tier kernels; None: not requested."""
    outputs: tuple[Report, ...] = ()
    """Results of calls, of each thing that a program compiles; the later side compares them with the earlier one."""

    measured: tuple[Report, ...] = ()
    """Benchmarks, of each thing that a program compiles; empty if not requested."""

    @property
    def reports(self) -> tuple[Report, ...]:
        """All of them."""
        return tuple(
            report
            for report in (self.capture, self.kernels, *self.outputs, *self.measured)
            if report is not None
        )


@dataclass(frozen=True)
class ComparedRuns:
    """The runs of one target with both releases."""

    path: str
    name: str
    before: SideReports
    after: SideReports


class TargetState(Enum):
    """Which sides ran a target to its end."""

    COMPARED = "compared"
    ONLY_BEFORE = "runs only before"
    ONLY_AFTER = "runs only after"
    NEITHER = "with neither version"


class RegressionKind(Enum):
    """What `--fail-on` names."""

    FAILURES = "failures"
    """A target, or the generation of its kernels, that fails only after."""
    FINDINGS = "findings"
    """A new warning or error."""
    RECOMPILATIONS = "recompilations"
    KERNELS = "kernels"
    """More kernels for graphs with as many operators."""
    NUMERICS = "numerics"
    """Results that changed by more than rounding."""
    TIMES = "times"
    """Measured calls that take longer."""


@dataclass(frozen=True, slots=True)
class LineKernels:
    """The kernels with operators of a line, on one side."""

    kernels: int
    """Launches of generated kernels and library calls."""
    fused_with: Counter[tuple[SourceLine, ...]]
    """The lines that each of these kernels computes."""
    estimate_us: float | None
    """The line's part of their estimated time; None: no kernel has an estimate."""


@dataclass(frozen=True, slots=True)
class KernelLineChange:
    """A line of the source whose kernels differ."""

    place: SourceLine
    before: LineKernels | None
    """None: no kernel has an operator of the line."""
    after: LineKernels | None

    @property
    def is_fused_differently(self) -> bool:
        """Whether its operators share their kernels with other lines than before."""
        before, after = (side.fused_with if side else Counter() for side in (self.before, self.after))
        return before != after


@dataclass(frozen=True)
class TargetComparison:
    """One target with both releases."""

    path: str
    name: str
    state: TargetState
    findings: tuple[FindingChange, ...]
    """Those that can be compared: what a failed run did not reach is in `uncompared`."""
    uncompared: tuple[FindingChange, ...] = ()
    """Findings of the side that ran, where the other side failed."""
    functions: tuple[FunctionChange, ...] = ()
    lines: tuple[KernelLineChange, ...] = ()
    own: tuple[Finding, ...] = ()
    """FL931 to FL934: differences that are findings of neither side."""
    calls: tuple[ReleaseCall, ...] = ()
    """The results of calls with both releases."""
    times: tuple[TimeDifference, ...] = ()
    """Measured times, if requested."""
    is_undecided: bool = False
    """Whether one side ended at a limit, lacks a package or could not answer, which says nothing about torch."""
    device: str | None = None
    """For which the kernels were generated; None: no kernels on both sides."""
    notes: tuple[str, ...] = ()

    def findings_in(self, state: FindingState) -> tuple[FindingChange, ...]:
        """The findings with a state."""
        return tuple(change for change in self.findings if change.state is state)

    def regressions(self) -> Iterator[RegressionKind]:
        """The kind of each regression."""
        worse = [change.finding for change in self.findings if change.verdict is ChangeVerdict.REGRESSION]
        failures = sum(map(is_failure, worse))
        yield from (RegressionKind.FINDINGS for _ in range(len(worse) - failures))
        is_lost = self.state is TargetState.ONLY_BEFORE and not self.is_undecided
        yield from (RegressionKind.FAILURES for _ in range(failures or int(is_lost)))
        for function in self.functions:
            if function.recompilations is ChangeVerdict.REGRESSION:
                yield RegressionKind.RECOMPILATIONS
            if function.kernels is ChangeVerdict.REGRESSION:
                yield RegressionKind.KERNELS
        for call in self.calls:
            if result_change(call).verdict is ChangeVerdict.REGRESSION:
                yield RegressionKind.NUMERICS
        for time in self.times:
            if time.verdict is ChangeVerdict.REGRESSION:
                yield RegressionKind.TIMES

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        verdicts = [change.verdict for change in self.findings]
        for function in self.functions:
            verdicts += [function.recompilations, function.kernels, function.graphs]
        verdicts += [result_change(call).verdict for call in self.calls]
        verdicts += [time.verdict for time in self.times]
        if self.is_undecided or self.lines or self.own or self.state is not TargetState.COMPARED:
            return False
        return all(verdict is ChangeVerdict.SAME for verdict in verdicts)


def is_failure(finding: Finding) -> bool:
    """Whether a finding says what ended a run."""
    return finding.code.startswith("FL4") or finding.code in {"FL501", "FL504"}


@dataclass(frozen=True)
class UpgradeComparison:
    """All targets with both releases."""

    before: Versions
    after: Versions
    targets: tuple[TargetComparison, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def regressions(self) -> Counter[RegressionKind]:
        """How many regressions of each kind."""
        return Counter(kind for target in self.targets for kind in target.regressions())

"""What differs between a job and an earlier one, as data.

Invariant: a fact that a log does not have is None, and two facts of which one is None are never called a difference.
Paths are local where the job's source is here. Compile times are of one run each, so small differences are noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from fuselight_server.base.finding import Finding, Severity
from fuselight_server.jobs.trace_log.model import CacheName, CacheState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.shared.report import Location
    from fuselight_server.jobs.caches.model import CacheCause

NOISE_PART = 0.1
"""Of the earlier time: a smaller difference of two single runs is noise."""
NOISE_SECONDS = 0.05
"""A smaller difference of two single runs is noise."""


class ChangeVerdict(Enum):
    """How a difference is to be read."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    CHANGE = "change"
    """Neither better nor worse by itself."""
    SAME = "same"


class FindingState(Enum):
    """What became of a finding."""

    NEW = "new"
    FIXED = "fixed"
    MOVED = "moved"
    """The same code, function and text of the line, on another line."""
    SAME = "same"


@dataclass(frozen=True, slots=True)
class FindingChange:
    """A finding in both jobs, or in one of them."""

    state: FindingState
    finding: Finding
    """As the later job has it; that of the earlier job if it is fixed."""
    before: Finding | None
    """As the earlier job has it; None if it is new."""
    function: str | None
    """Function that the line is in, if the logs name it."""
    text: str | None
    """The line as the log of `finding` quotes it."""

    @property
    def verdict(self) -> ChangeVerdict:
        """New warnings and errors are regressions, as in a check against a baseline."""
        if self.state is FindingState.SAME:
            return ChangeVerdict.SAME
        if self.state is FindingState.MOVED or self.finding.severity < Severity.WARNING:
            return ChangeVerdict.CHANGE
        return ChangeVerdict.REGRESSION if self.state is FindingState.NEW else ChangeVerdict.IMPROVEMENT


@dataclass(frozen=True, slots=True)
class TimeChange:
    """Compile time of one run each, in seconds. None: the logs do not have it, or nothing was compiled."""

    before: float | None
    after: float | None

    @property
    def is_noise(self) -> bool:
        """Whether the difference is below 10% or below 50 ms."""
        if self.before is None or self.after is None:
            return False
        difference = abs(self.after - self.before)
        return difference < max(NOISE_SECONDS, NOISE_PART * self.before)

    @property
    def verdict(self) -> ChangeVerdict:
        """A longer time is a regression if the difference is not noise."""
        if self.before is None or self.after is None or self.is_noise:
            return ChangeVerdict.SAME
        return ChangeVerdict.REGRESSION if self.after > self.before else ChangeVerdict.IMPROVEMENT


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """What one job compiled of a function, or of the rest of a function after a graph break."""

    location: Location
    """First line of the function; the line where the code resumes if it does."""
    compiles: int
    operators: tuple[int, ...]
    """Of each graph, in the order of compiles."""
    recompilations: int
    reasons: tuple[str, ...]
    """Why it was compiled again, each once, in the order of compiles."""
    seconds: float | None
    kernels: tuple[str, ...] | None
    """Names of generated kernels and library calls, in the order of the generated code; None: no log has the code."""
    code_key: str | None
    """Hash of the generated code without paths and comments; equal keys are equal code. None: no log has the code."""

    @property
    def graphs(self) -> int:
        """How many graphs."""
        return len(self.operators)


@dataclass(frozen=True, slots=True)
class FunctionChange:
    """A compiled function in both jobs, or in one of them."""

    name: str
    """`Net.forward`; `Net.forward, resumed` for the code after a graph break."""
    is_resumed: bool
    location: Location
    """In the later job, else in the earlier one."""
    before: FunctionFacts | None
    after: FunctionFacts | None

    @property
    def is_in_both(self) -> bool:
        """Whether both jobs compiled it."""
        return self.before is not None and self.after is not None

    @property
    def time(self) -> TimeChange:
        """Its compile time."""
        before, after = (facts.seconds if facts else None for facts in (self.before, self.after))
        return TimeChange(before, after)

    @property
    def recompilations(self) -> ChangeVerdict:
        """More recompilations are a regression; a function of one job alone has none before."""
        before, after = (facts.recompilations if facts else 0 for facts in (self.before, self.after))
        if before == after:
            return ChangeVerdict.SAME
        return ChangeVerdict.REGRESSION if after > before else ChangeVerdict.IMPROVEMENT

    @property
    def new_reasons(self) -> tuple[str, ...]:
        """Why it is compiled again in the later job alone."""
        known = self.before.reasons if self.before else ()
        return tuple(reason for reason in (self.after.reasons if self.after else ()) if reason not in known)

    @property
    def fixed_reasons(self) -> tuple[str, ...]:
        """Why it was compiled again in the earlier job alone."""
        known = self.after.reasons if self.after else ()
        return tuple(reason for reason in (self.before.reasons if self.before else ()) if reason not in known)

    @property
    def graphs(self) -> ChangeVerdict:
        """Other graphs: their number, or the operators in them. Recompilations and findings say which are worse."""
        before, after = (facts.operators if facts else () for facts in (self.before, self.after))
        return ChangeVerdict.SAME if before == after else ChangeVerdict.CHANGE

    @property
    def kernels(self) -> ChangeVerdict:
        """More kernels for the same graphs are a regression, for other graphs a change."""
        before, after = self.before, self.after
        if before is None or after is None or before.kernels is None or after.kernels is None:
            return ChangeVerdict.SAME
        if before.operators != after.operators or len(before.kernels) == len(after.kernels):
            return ChangeVerdict.SAME if before.kernels == after.kernels else ChangeVerdict.CHANGE
        return (
            ChangeVerdict.REGRESSION
            if len(after.kernels) > len(before.kernels)
            else ChangeVerdict.IMPROVEMENT
        )

    @property
    def is_code_same(self) -> bool | None:
        """Whether the generated code is the same; None if a log does not have it."""
        keys = [facts.code_key for facts in (self.before, self.after) if facts is not None]
        return None if len(keys) < 2 or None in keys else keys[0] == keys[1]  # noqa: PLR2004 - both


@dataclass(frozen=True, slots=True)
class CacheChange:
    """Lookups of a cache that ended in another state than in the earlier job, or that missed in both jobs."""

    cache: CacheName
    is_remote: bool
    before: CacheState
    after: CacheState
    function: str | None
    location: Location | None
    """First line of the compiled function."""
    count: int
    lost_seconds: float | None
    """Estimate for lookups that no longer hit: what a hit would have saved."""
    causes: tuple[CacheCause, ...]
    """Why the cache missed or was bypassed, compared with the earlier job."""

    @property
    def verdict(self) -> ChangeVerdict:
        """A hit that was lost is a regression, a hit that is new an improvement."""
        if self.before is CacheState.HIT:
            return ChangeVerdict.REGRESSION
        return ChangeVerdict.IMPROVEMENT if self.after is CacheState.HIT else ChangeVerdict.CHANGE


class ConditionKind(Enum):
    """What a condition of a job is."""

    VERSION = "version"
    VARIABLE = "variable"
    """An environment variable."""
    SETTING = "setting"
    """A factor of the cache keys: a setting of torch, the precision of matrix multiplications, ..."""
    RANKS = "ranks"


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """A condition under which the jobs ran that differs."""

    kind: ConditionKind
    name: str
    """`torch`, `TORCH_LOGS`, `torch._inductor.config.max_fusion_size`."""
    before: str | None
    """None: not set, or recorded as a hash alone."""
    after: str | None


@dataclass(frozen=True, slots=True)
class JobComparison:
    """A job, compared with an earlier one."""

    name: str
    base: str
    """Name of the earlier job."""
    rank: int | None
    """Whose compiles are compared; None: those of the processes without a rank. Findings are those of all ranks."""
    base_rank: int | None
    findings: tuple[FindingChange, ...]
    """New ones first, then fixed, moved and equal ones; by place within each."""
    functions: tuple[FunctionChange, ...]
    """Each compiled function, the most expensive first."""
    time: TimeChange
    """Compile time of all functions."""
    caches: tuple[CacheChange, ...]
    conditions: tuple[ConditionChange, ...]
    notes: tuple[str, ...] = ()
    """What a reader should know of the comparison."""

    def findings_in(self, state: FindingState) -> tuple[FindingChange, ...]:
        """The findings with a state."""
        return tuple(change for change in self.findings if change.state is state)

    @property
    def regressions(self) -> int:
        """How many regressions of every kind, the total time left out if a function explains it."""
        return sum(verdict is ChangeVerdict.REGRESSION for verdict in self._verdicts())

    def _verdicts(self) -> Iterator[ChangeVerdict]:
        yield from (change.verdict for change in self.findings)
        yield from (change.verdict for change in self.caches)
        times = [change.time.verdict for change in self.functions]
        yield from times
        if ChangeVerdict.REGRESSION not in times:
            yield self.time.verdict
        for change in self.functions:
            yield from (change.recompilations, change.kernels)

"""The differences of two jobs as rows of text: the same in the terminal and on a page.

Invariant: each difference is one row, under one verdict. `show_path` turns the path of a file into what a reader sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Location
from fuselight_server.base.formatting import (
    format_change,
    format_count,
    format_first,
    format_list,
    format_time,
)
from fuselight_server.jobs.caches.words import CACHE_NAMES, STATE_NAMES
from fuselight_server.jobs.comparison.model import (
    CacheChange,
    ChangeVerdict,
    ConditionChange,
    ConditionKind,
    FindingState,
    FunctionChange,
    FunctionFacts,
    JobComparison,
    TimeChange,
)

MAX_ROWS = 50
"""Rows of one kind in text; JSON has all."""
_MAX_NAMES = 6
"""Kernels or reasons that are listed."""
_LONGEST = 120
"""Characters of a reason that are shown."""
_SECOND = 1e6
_ABSENT = {ConditionKind.VARIABLE: "not set", ConditionKind.RANKS: "not recorded"}


def condition_row(change: ConditionChange) -> str:
    """`torch: 2.11.0 -> 2.13.0`."""
    if change.before is None and change.after is None:
        return f"{change.name} differs"
    absent = _ABSENT.get(change.kind, "unknown")
    return f"{change.name}: {change.before or absent} -> {change.after or absent}"


def summary(comparison: JobComparison) -> str:
    """Count the findings by state, and compare the compile times."""
    counts = Counter(change.state for change in comparison.findings)
    states = ", ".join(f"{counts[state]:,} {state.value}" for state in FindingState)
    time = _time(comparison.time)
    return f"Findings: {states}." + (f" Compile time: {time}." if time else "")


def change_rows(
    comparison: JobComparison, verdict: ChangeVerdict, show_path: Callable[[str], str] = str
) -> Iterator[str]:
    """The differences with a verdict, a row each. New findings are left out: they are shown with their source."""
    rows_of = _Rows(comparison, show_path)
    for kind in rows_of.kinds:
        rows = list(kind(verdict))
        yield from rows[:MAX_ROWS]
        if len(rows) > MAX_ROWS:
            yield f"and {len(rows) - MAX_ROWS:,} more of this kind: the JSON has all"


@dataclass(frozen=True)
class _Rows:
    comparison: JobComparison
    show_path: Callable[[str], str]

    @property
    def kinds(self) -> tuple[Callable[[ChangeVerdict], Iterator[str]], ...]:
        """The kinds of rows, in the order in which they are shown."""
        return (
            self._finding_rows,
            self._recompilation_rows,
            self._cache_rows,
            self._time_rows,
            self._kernel_rows,
            self._graph_rows,
        )

    def _finding_rows(self, verdict: ChangeVerdict) -> Iterator[str]:
        for change in self.comparison.findings:
            if change.verdict is not verdict or change.state is FindingState.NEW:
                continue
            finding = change.finding
            place = f"{self.show_path(finding.span.path)}:{finding.span.line}"
            if change.state is FindingState.MOVED and change.before is not None:
                place += f" (was line {change.before.span.line})"
            was = (
                f"; the line was `{change.text}`"
                if change.state is FindingState.FIXED and change.text
                else ""
            )
            name = f"{finding.severity.name.lower()}[{finding.code}]"
            yield f"{change.state.value}: {name} {place}: {finding.title}{was}"

    def _recompilation_rows(self, verdict: ChangeVerdict) -> Iterator[str]:
        for change in self.comparison.functions:
            if change.recompilations is not verdict:
                continue
            before, after = (facts.recompilations if facts else 0 for facts in (change.before, change.after))
            is_more = verdict is ChangeVerdict.REGRESSION
            reasons = change.new_reasons if is_more else change.fixed_reasons
            word = "now" if is_more else "no longer"
            because = f"; {word} because: {_listed(reasons)}" if reasons else ""
            yield f"recompilations of {self._function(change)}: {before:,} -> {after:,}{because}"

    def _cache_rows(self, verdict: ChangeVerdict) -> Iterator[str]:
        for change in self.comparison.caches:
            if change.verdict is verdict:
                yield self._cache(change)

    def _cache(self, change: CacheChange) -> str:
        name = f"remote {CACHE_NAMES[change.cache]}" if change.is_remote else CACHE_NAMES[change.cache]
        where = f" of {self._named(change.function, change.location)}" if change.location is not None else ""
        count = f" ({change.count:,} lookups)" if change.count > 1 else ""
        lost = f", lost ~{_seconds(change.lost_seconds)}" if change.lost_seconds else ""
        causes = "; ".join(cause.text.rstrip(".") for cause in change.causes)
        states = (
            "missed in both jobs"
            if change.before is change.after
            else f"{STATE_NAMES[change.before]} -> {STATE_NAMES[change.after]}"
        )
        return f"{name}{where}: {states}{count}{lost}{f': {causes}' if causes else ''}"

    def _time_rows(self, verdict: ChangeVerdict) -> Iterator[str]:
        for change in self.comparison.functions:
            if change.time.verdict is verdict:
                yield f"compile time of {self._function(change)}: {_time(change.time)}"
        if self.comparison.time.verdict is verdict:
            yield f"compile time of all functions: {_time(self.comparison.time)}{_unpaired(self.comparison)}"

    def _kernel_rows(self, verdict: ChangeVerdict) -> Iterator[str]:
        for change in self.comparison.functions:
            if change.kernels is verdict:
                yield f"kernels of {self._function(change)}: {_kernels(change)}"

    def _graph_rows(self, verdict: ChangeVerdict) -> Iterator[str]:
        if verdict is not ChangeVerdict.CHANGE:
            return
        for change in self.comparison.functions:
            if change.before is None or change.after is None:
                word = "compiled only before" if change.after is None else "compiled only now"
                facts = change.after or change.before
                yield f"{word}: {self._function(change)}: {_graphs(facts)}{_seconds_of(facts)}"
            elif change.graphs is ChangeVerdict.CHANGE:
                yield f"graphs of {self._function(change)}: {_graphs(change.before)} -> {_graphs(change.after)}"
            elif change.is_code_same is False:
                yield f"generated code of {self._function(change)}: changed, with as many operators in the graphs"

    def _function(self, change: FunctionChange) -> str:
        return self._named(
            f"the rest of {change.name}" if change.is_resumed else change.name, change.location
        )

    def _named(self, name: str | None, location: Location | None) -> str:
        where = "" if location is None else f" ({self.show_path(location.path)}:{location.line})"
        return f"{name or 'a function'}{where}"


def _unpaired(comparison: JobComparison) -> str:
    """`; 2 functions were compiled only before, 1 only now`."""
    before, after = (
        sum(facts is None for facts in one_side)
        for one_side in (
            [change.after for change in comparison.functions],
            [change.before for change in comparison.functions],
        )
    )
    if not before and not after:
        return ""
    return f"; functions compiled only before: {before:,}, only now: {after:,}"


def _time(change: TimeChange) -> str:
    if change.before is None or change.after is None:
        return ""
    part = f"{format_change(change.after / change.before - 1)}, " if change.before else ""
    noise = ", within noise" if change.is_noise else ""
    return f"{_seconds(change.before)} -> {_seconds(change.after)} ({part}one run each{noise})"


def _seconds(seconds: float) -> str:
    return format_time(seconds * _SECOND)


def _kernels(change: FunctionChange) -> str:
    """`2 -> 3; now: triton_poi_fused_add_1; no longer: triton_poi_fused_mul_0`."""
    before, after = (
        Counter(facts.kernels or ()) if facts else Counter() for facts in (change.before, change.after)
    )
    parts = [f"{sum(before.values()):,} -> {sum(after.values()):,}"]
    for word, names in (("now", after.keys() - before.keys()), ("no longer", before.keys() - after.keys())):
        if names:
            parts.append(f"{word}: {_listed(sorted(names))}")
    return "; ".join(parts)


def _seconds_of(facts: FunctionFacts | None) -> str:
    return (
        "" if facts is None or facts.seconds is None else f", compiled in {_seconds(facts.seconds)} (one run)"
    )


def _graphs(facts: FunctionFacts | None) -> str:
    """`1 graph of 4 operators`, `2 graphs of 4 and 3 operators`, `9 graphs of 3 to 8 operators`, `no graph`."""
    if facts is None or not facts.operators:
        return "no graph"
    numbers = format_list(f"{number:,}" for number in facts.operators)
    if facts.graphs > _MAX_NAMES:
        numbers = f"{min(facts.operators):,} to {max(facts.operators):,}"
    noun = "operator" if facts.operators[-1] == 1 else "operators"
    return f"{format_count(facts.graphs, 'graph')} of {numbers} {noun}"


def _listed(names: Sequence[str]) -> str:
    shown = (name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..." for name in names)
    return format_first([f"`{name}`" for name in shown], _MAX_NAMES)

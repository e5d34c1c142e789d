"""What an edit changed, told after the run behind it: breaks that are gone or new, and what kernels cost now.

Invariant: two runs are compared only where both came to their end without a failure, so that nothing is called gone
which was not reached; a finding is the same one where the edits since have moved its line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.kernel_results import differences
from fuselight_server.kernels import Place
from fuselight_server.kernels.words import line_ranges, microseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fuselight_server.kernel_results import KernelResult
    from fuselight_server.places import Live, Result

_NOUNS = {
    "FL107": "break",
    **dict.fromkeys(("FL101", "FL102", "FL103", "FL104", "FL105"), "frame in eager"),
    "FL201": "recompilation",
    **dict.fromkeys(("FL301", "FL302"), "specialisation"),
}


def capture_changes(before: Result, after: Result) -> tuple[str, ...]:
    """Say what became of the findings of a run, as `line 42: break gone`, those that are gone first."""
    if before.report.failures or after.report.failures:
        return ()
    return _of_findings(before.own, after.own, after.key.path)


def kernel_changes(before: KernelResult, after: KernelResult) -> tuple[str, tuple[str, ...]]:
    """Say what became of a target, in one line and in several: its findings, its kernels as a whole, each of its lines.

    `line 42: break gone; 7 -> 3 kernels; ~812 us -> ~430 us`. Kernels for different devices are not compared.
    """
    if before.report.failures or after.report.failures:
        return "", ()
    found = _of_findings(before.captured, after.captured, after.key.path)
    lines = differences(before, after)
    parts = [first_of(found)] if found else []
    if before.report.target_device == after.report.target_device:
        times = [microseconds(one.us) for one in (before, after)]
        if before.count != after.count:
            parts.append(f"{before.count} -> {after.count} kernels")
        if times[0] != times[1]:
            parts.append(f"{times[0]} -> {times[1]}")
    every = (*found, *lines)
    return "; ".join(parts) or first_of(lines), every


def first_of(changes: tuple[str, ...]) -> str:
    """Return the first, and how many more there are; empty for none."""
    if not changes:
        return ""
    return changes[0] + (f" and {len(changes) - 1} more" if len(changes) > 1 else "")


def noun(code: str) -> str | None:
    """What a finding of this code is called; None for one that says nothing of how code compiles."""
    return "break" if code.startswith("GB") else _NOUNS.get(code)


def _of_findings(before: Iterable[Live], after: Iterable[Live], path: str) -> tuple[str, ...]:
    old, new = set(_named(before)), set(_named(after))

    def where(place: Place) -> str:
        return line_ranges([place], beside=Place(path, 0))

    gone = [
        f"{where(place)}{' (deleted)' if deleted else ''}: {name} gone"
        for place, name, deleted in sorted(old - new)
    ]
    return (*gone, *(f"{where(place)}: new {name}" for place, name, _ in sorted(new - old)))


def _named(lives: Iterable[Live]) -> Iterator[tuple[Place, str, bool]]:
    """Yield the line of each finding, what that is called, and whether the line was deleted: then it is the old one."""
    for live in lives:
        name, gone = noun(live.finding.code), live.place.gone
        span = live.finding.span if gone else live.place.span
        if name is not None:
            yield Place(span.path, span.line), name, gone

"""What an edit changed, shown after the run that follows it: breaks that are gone or new, and new costs of kernels.

Invariant: two runs are compared only where both ended without a failure, so that nothing is called gone that was not
reached. A finding is the same one where edits have moved its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import format_estimate, format_line_ranges
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.kernels import KernelResult, differences
from fuselight_server.editor.results.target_result import TargetResult
from fuselight_server.source.positions import TrackedFinding

_NOUNS = {
    "FL107": "break",
    **dict.fromkeys(("FL101", "FL102", "FL103", "FL104", "FL105"), "uncompiled function"),
    "FL201": "recompilation",
    **dict.fromkeys(("FL301", "FL302"), "specialization"),
}


def compare(before: TargetResult | None, after: TargetResult) -> None:
    """Note on a result what differs from the one before, where the two can be compared."""
    if isinstance(before, CaptureResult) and isinstance(after, CaptureResult):
        after.compare(capture_changes(before, after))
    elif isinstance(before, KernelResult) and isinstance(after, KernelResult) and after.has_data:
        after.headline, changes = kernel_changes(before, after)
        after.compare(changes)


def capture_changes(before: CaptureResult, after: CaptureResult) -> tuple[str, ...]:
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
    findings = _of_findings(before.captured, after.captured, after.key.path)
    is_comparable = _has_kernels(before) and _has_kernels(after)
    lines = differences(before, after) if is_comparable else ()
    parts = [first_of(findings)] if findings else []
    if is_comparable and before.report.target_device == after.report.target_device:
        times = [format_estimate(kernel_result.us) for kernel_result in (before, after)]
        if before.count != after.count:
            parts.append(f"{before.count} -> {after.count} kernels")
        if times[0] != times[1]:
            parts.append(f"{times[0]} -> {times[1]}")
    every = (*findings, *lines)
    return "; ".join(parts) or first_of(lines), every


def _has_kernels(result: KernelResult) -> bool:
    """Whether every graph has kernels: where code generation failed, there is nothing to compare with."""
    generated = result.report.generated
    return bool(generated) and all(graph.failure is None for graph in generated)


def first_of(changes: tuple[str, ...]) -> str:
    """Return the first, and how many more there are; empty for none."""
    if not changes:
        return ""
    return changes[0] + (f" and {len(changes) - 1} more" if len(changes) > 1 else "")


def noun(code: str) -> str | None:
    """Return the noun for findings of this code; None for a code that is not about how code compiles."""
    return "break" if code.startswith("GB") else _NOUNS.get(code)


def _of_findings(
    before: Iterable[TrackedFinding], after: Iterable[TrackedFinding], path: str
) -> tuple[str, ...]:
    old, new = set(_named(before)), set(_named(after))

    def where(place: SourceLine) -> str:
        return format_line_ranges([place], reference=SourceLine(path, 0))

    def former(place: SourceLine, *, deleted: bool) -> str:
        if deleted and place.path.endswith(SUFFIX):
            return "a deleted line"  # of the module, which has no such line in a cell any more
        return f"{where(place)}{' (deleted)' if deleted else ''}"

    gone = [f"{former(place, deleted=deleted)}: {name} gone" for place, name, deleted in sorted(old - new)]
    return (*gone, *(f"{where(place)}: new {name}" for place, name, _ in sorted(new - old)))


def _named(lives: Iterable[TrackedFinding]) -> Iterator[tuple[SourceLine, str, bool]]:
    """Yield the line of each finding, what that is called, and whether the line was deleted: then it is the old one."""
    for live in lives:
        name, gone = noun(live.finding.code), live.place.is_deleted
        span = live.finding.span if gone else live.place.span
        if name is not None:
            yield SourceLine(span.path, span.line), name, gone

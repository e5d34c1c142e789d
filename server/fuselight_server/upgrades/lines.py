"""The lines whose kernels differ between both sides: how many, what they are fused with, their estimated time.

Invariant: lines are compared only if both sides generated their kernels for the same device, and for one call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from fuselight.shared.report import Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.explain.kernels.shares import costs_by_line, places_of
from fuselight_server.explain.kernels.summary import one_call
from fuselight_server.upgrades.model import KernelLineChange, LineKernels, SideReports
from fuselight_server.upgrades.paths import STANDARD_PATHS, TORCH, InstalledPaths

_LEAST = 0.02
"""Of the earlier estimate: a smaller difference of two estimates is none."""


def compare_lines(
    before: SideReports,
    after: SideReports,
    packages: Collection[str] = (),
    paths: InstalledPaths = STANDARD_PATHS,
) -> tuple[KernelLineChange, ...]:
    """The lines whose kernels differ, by place; empty if the sides cannot be compared.

    Lines of torch and of `packages`, of which the sides have two versions, are left out.
    """
    if compared_device(before, after) is None or before.kernels is None or after.kernels is None:
        return ()
    theirs, ours = (_by_line(report, {TORCH, *packages}, paths) for report in (before.kernels, after.kernels))
    changes = (
        KernelLineChange(place, theirs.get(place), ours.get(place)) for place in sorted({*theirs, *ours})
    )
    return tuple(change for change in changes if _differs(change))


def compared_device(before: SideReports, after: SideReports) -> str | None:
    """The device that both sides generated kernels for; None if there is none."""
    devices = [
        report.target_device.key
        for report in (before.kernels, after.kernels)
        if report is not None and report.target_device is not None and not report.failures
    ]
    return devices[0] if len(devices) == 2 and devices[0] == devices[1] else None  # noqa: PLR2004 - both


def _by_line(
    report: Report, without: Collection[str], paths: InstalledPaths
) -> dict[SourceLine, LineKernels]:
    call = one_call(report)
    lines: dict[SourceLine, LineKernels] = {}
    for cost in costs_by_line(call):
        if cost.place is None or paths.package(cost.place.path) in without:
            continue
        groups = Counter(
            tuple(
                _common_line(place, paths)
                for place in places_of(kernel, call.roots)
                if paths.package(place.path) not in without
            )
            for _, kernel in cost.launches
        )
        has_estimate = any(kernel.estimate_us is not None for _, kernel in cost.launches)
        us = float(cost.us) if has_estimate else None
        lines[_common_line(cost.place, paths)] = LineKernels(len(cost.launches), groups, us)
    return lines


def _common_line(place: SourceLine, paths: InstalledPaths) -> SourceLine:
    return SourceLine(paths.common(place.path), place.line)


def _differs(change: KernelLineChange) -> bool:
    if change.before is None or change.after is None or change.is_fused_differently:
        return True
    before, after = change.before.estimate_us, change.after.estimate_us
    if before is None or after is None:
        return False
    return abs(after - before) > _LEAST * before

"""The last comparison with eager mode and the last estimate of memory of each target, kept in the folder `.fuselight/`.

Invariant: what the program printed is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuselight.shared.report import Output, Report, Tier
from fuselight_server.base.last_reports import LastReports
from fuselight_server.base.store import Store

_FOLDERS = {Tier.ACCURACY: "accuracy", Tier.MEMORY: "memory"}
"""The tiers whose last results are kept, and the name of the folder of each."""


def keep_result(store: Store, report: Report) -> None:
    """Keep a report with a result in place of the last one of its target and tier. Raises OSError."""
    if _has_result(report):
        LastReports(store, _FOLDERS[report.tier]).keep_report(replace(report, texts={}, output=Output()))


def kept_results(store: Store, tier: Tier) -> Iterator[tuple[Report, str]]:
    """Yield the reports of a tier that can be read, the newest first, with when each was made, in ISO 8601."""
    reports = LastReports(store, _FOLDERS[tier]).reports()
    return ((report, when) for report, when in reports if report.tier is tier and _has_result(report))


def forget_results(store: Store) -> None:
    """Remove all results that are kept in a store. Raises OSError."""
    for folder in _FOLDERS.values():
        LastReports(store, folder).forget()


def _has_result(report: Report) -> bool:
    return report.results is not None if report.tier is Tier.ACCURACY else bool(report.memory)

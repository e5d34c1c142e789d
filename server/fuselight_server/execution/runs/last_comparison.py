"""The last comparison of each target's results with eager mode, kept in the workspace's `.fuselight/` folder.

Invariant: what the program printed is not kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fuselight.shared.report import Output, Report
from fuselight_server.base.last_reports import LastReports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.base.store import Store


def keep_comparison(store: Store, report: Report) -> None:
    """Keep a comparison in place of the last one of its target. Raises OSError."""
    if report.results is not None:
        _kept(store).keep_report(replace(report, texts={}, output=Output()))


def kept_comparisons(store: Store) -> Iterator[tuple[Report, str]]:
    """Yield the comparisons that can be read, the newest first, with when each was made, in ISO 8601."""
    return ((report, when) for report, when in _kept(store).reports() if report.results is not None)


def forget_comparisons(store: Store) -> None:
    """Remove all comparisons that are kept in a store. Raises OSError."""
    _kept(store).forget()


def _kept(store: Store) -> LastReports:
    return LastReports(store, "accuracy")

"""The last search of each target, kept in the workspace's `.fuselight/` folder.

Invariant: texts of kernels, profiles and what the program printed are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuselight.shared.report import Output, Report
from fuselight_server.base.last_reports import LastReports
from fuselight_server.base.store import Store

KEPT = 50
"""Targets of one workspace: those whose last search is the oldest go."""


def keep_search(store: Store, report: Report) -> None:
    """Keep a search in place of the last one of its target. Raises OSError."""
    tuned = report.tuned
    if tuned is None:
        return
    light = tuple(
        replace(
            candidate,
            configuration=replace(candidate.configuration, profile=None, generated=(), compile_steps=()),
        )
        for candidate in tuned.candidates
    )
    small = replace(report, texts={}, output=Output(), assembled={}, tuned=replace(tuned, candidates=light))
    _kept(store).keep_report(small)


def kept_searches(store: Store) -> Iterator[Report]:
    """Yield the searches that can be read, the newest first."""
    return (report for report, _ in _kept(store).reports() if report.tuned is not None)


def forget_searches(store: Store) -> None:
    """Remove all searches that are kept in a store. Raises OSError."""
    _kept(store).forget()


def _kept(store: Store) -> LastReports:
    return LastReports(store, "tune", KEPT)

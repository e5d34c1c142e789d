"""Calls whose directive does not fit: what torch.compile reports of their exception is no graph break of the code."""

from __future__ import annotations

from collections.abc import Collection

from fuselight.shared.report import Report

_RAISED = "GB0088"
"""The traced code raises an exception that nothing catches."""


def refused_calls(report: Report) -> frozenset[int | None]:
    """Return the calls that failed because of their directive."""
    failures = (failure for failure in report.failures if failure.kind == "inputs")
    return frozenset(failure.call for failure in failures if failure.directive_line is not None)


def is_of_refused_call(refused: Collection[int | None], call: int | None, gb_id: str | None) -> bool:
    """Whether a break is nothing but the exception of one of the calls `refused`."""
    return gb_id == _RAISED and call in refused

"""Shows a report below a cell, by the view that an installed package offers; without one, its numbers.

Invariant: this package imports no view. Python's metadata of installed packages names it, so that a kernel that has
the compiler side alone still records.
"""

from __future__ import annotations

import dataclasses
import html
import importlib.metadata
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, cast

from fuselight.shared.kernel_cells import VIEWS, CellText, NotebookView, ReportHeading, ShownReport
from fuselight.shared.report import Report, is_user_file

_OF_USER = "exception"
"""The kind of a failure that neither torch nor Fuselight has caused."""
_WITHOUT_VIEW = (
    "Findings with their lines need `fuselight` in this kernel's environment: `%pip install fuselight`."
)


def show(shell: Any, report: Report, cells: Mapping[str, CellText], heading: ReportHeading) -> None:
    """Display a report in the output of the cell that runs."""
    view = installed_view() or _numbers
    shown = view(report, cells, heading)
    shell.display_pub.publish(data={"text/plain": shown.text, "text/html": shown.html})


def installed_view() -> NotebookView | None:
    """The view of an installed package; None without one."""
    entry = next(iter(importlib.metadata.entry_points(group=VIEWS)), None)
    return cast("NotebookView", entry.load()) if entry is not None else None


def with_failure(report: Report, error: BaseException | None, run: int | None) -> Report:
    """The report of a run that an exception has ended.

    An exception of the user's code is no finding: IPython shows it.
    """
    if error is None or "torch._dynamo" not in sys.modules:
        return report
    from fuselight.capture.dynamo import failure_of  # noqa: PLC0415 - torch, which the user has imported

    whole = error.__traceback__
    try:
        error.__traceback__ = _from_first(whole, report.roots)
        failure = failure_of(error, roots=report.roots, call=run)
    finally:
        error.__traceback__ = whole
    return report if failure.kind == _OF_USER else dataclasses.replace(report, failures=(failure,))


def _from_first(trace: TracebackType | None, roots: Sequence[str]) -> TracebackType | None:
    """A traceback without the frames of IPython above the first one of the user's."""
    inner = trace
    while inner is not None and not is_user_file(inner.tb_frame.f_code.co_filename, roots):
        inner = inner.tb_next
    return inner or trace


def _numbers(report: Report, _cells: Mapping[str, CellText], heading: ReportHeading) -> ShownReport:
    counted = f"compiles: {len(report.compiles)}, graph breaks: {len(report.breaks)}"
    lines = [
        f"Fuselight: {heading.title}: {counted}, recompilations: {len(report.recompiles)}",
        *heading.remarks,
        *(f"unknown: {problem.what}: {problem.why}" for problem in report.problems),
        _WITHOUT_VIEW,
    ]
    text = "\n".join(lines)
    return ShownReport(text, f"<pre>{html.escape(text)}</pre>")

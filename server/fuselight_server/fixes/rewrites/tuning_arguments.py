"""Arguments of `@triton.autotune` with which the runs that it times do not change the first result (FL949).

Invariant: each was tried in the run that found the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fuselight.shared.report import Report
from fuselight_server.base.finding import Finding
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.source.autotune_decorators import CannotKeepError, write_arguments


def tuning_remedies(finding: Finding, report: Report, read: Callable[[str], str | None]) -> Iterator[Remedy]:
    """The arguments for the autotuner that a finding is on; none for one that is not written above its kernel."""
    path, line = finding.span.path, finding.span.line
    text = read(path)
    for change in report.tuning_changes:
        if text is None or (change.location.path, change.location.line) != (path, line):
            continue
        for cure in change.cures:
            try:
                new = write_arguments(text, change.kernel, cure)
            except CannotKeepError:
                continue
            kind = cure[0].partition("=")[0]
            title = f"Write {' and '.join(f'`{argument}`' for argument in cure)} in `@triton.autotune`"
            yield Remedy(kind, title, FixClass.EXACT, {path: new})

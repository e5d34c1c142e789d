"""What calls in this process compiled: counts, findings and forecast of a Report that was made without a worker.

Invariant: the findings are those of `fuselight check`, with the same hints, folding and ignore comments. Where the
libraries that read source are not installed, comments silence nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from fuselight.shared.report import Report
from fuselight_server.base.finding import Finding, rank
from fuselight_server.commands.findings import without_ignored
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.explain.findings import findings, fold
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.counts import Counts, counts
from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange
from fuselight_server.source.reading import Reading

_COMMENT = "fuselight: ignore"


@dataclass(frozen=True)
class CompileCheck:
    """One Report with all that is said of it."""

    report: Report
    sources: SourceFiles = field(default_factory=SourceFiles)

    @cached_property
    def counts(self) -> Counts:
        """Graphs, breaks and recompilations."""
        return counts(self.report)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """By place, without what comments silence, folded by cause."""
        all_findings = findings(self.report, read_line=self.sources.line)
        return tuple(fold(without_ignored(all_findings, self._comments(all_findings))))

    @cached_property
    def changes(self) -> tuple[ExpectedChange, ...]:
        """Which changes of a later call compile again, and which do not; none if the calls failed."""
        from fuselight_server.explain.findings.forecasts.forecasts import expected_changes  # noqa: PLC0415 - if asked

        return expected_changes(Context.of(self.report, read_line=self.sources.line))

    @property
    def has_forecast(self) -> bool:
        """Whether anything is known of later calls."""
        return bool(self.report.forecasts)

    def _comments(self, among: Iterable[Finding]) -> dict[str, Reading]:
        """Read the files of findings that have ignore comments."""
        paths = {finding.span.path for finding in among}
        texts = {
            path: "\n".join(self.sources.texts.get(path) or ()) for path in paths if self._has_text(path)
        }
        commented = {path: text for path, text in texts.items() if _COMMENT in text}
        if not commented:
            return {}
        try:
            from fuselight_server.source.document import read_source  # noqa: PLC0415 - reads with tree-sitter
        except ImportError:
            return {}
        return {path: read_source(path, text) for path, text in commented.items()}

    def _has_text(self, path: str) -> bool:
        return self.sources.line(path, 1) is not None


def causing(check: CompileCheck, codes: tuple[str, ...] = ()) -> tuple[Finding, ...]:
    """The findings, those whose code starts with one of `codes` first, then by rank."""
    return tuple(
        sorted(check.findings, key=lambda finding: (not finding.code.startswith(codes), *rank(finding)))
    )


def is_of_size(change: ExpectedChange) -> bool:
    """Whether the size of a tensor changes."""
    from fuselight_server.explain.findings.forecasts.forecast_kinds import KINDS, ChangeScope  # noqa: PLC0415 - if asked

    return KINDS[change.kind].scope is ChangeScope.DIMENSION

"""The findings of what a running program has compiled: `fuselight run`, and cells of a notebook in their own kernel.

Invariant: nothing runs here. One recording need not reach every line, so no ignore comment counts as unused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fuselight.shared.report import Report
from fuselight_server.base.files import split_text
from fuselight_server.commands.findings import compose_findings
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import SourceFiles, read_text
from fuselight_server.explain.findings import findings, nothing_ran
from fuselight_server.source.document import read_source


def recording_outcome(report: Report, texts: Mapping[str, str] | None = None) -> CheckOutcome:
    """Make the findings of a recorded report. `texts`: what stands in files that are not on disk, by path."""
    known = dict(texts or {})
    sources = SourceFiles({path: split_text(text) for path, text in known.items()})
    outcome = CheckOutcome(reports=[report], sources=sources)
    actual_findings = findings(report, read_line=sources.line)
    readings = {}
    for path in {finding.span.path for finding in actual_findings}:
        text = known.get(path) or read_text(Path(path))
        if isinstance(text, str):
            readings[path] = read_source(path, text)
    outcome.findings = compose_findings(actual_findings, (), readings, has_run=nothing_ran)
    return outcome

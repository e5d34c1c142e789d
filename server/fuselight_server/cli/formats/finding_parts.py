"""The place and the severity of a finding, as several formats have them.

Invariant: lines and columns are 1-based characters, the end column exclusive.
"""

from __future__ import annotations

from fuselight_server.base.finding import Finding, Span
from fuselight_server.commands.notebook_lines import cell_of
from fuselight_server.commands.sources import SourceFiles


def position_as_json(span: Span, sources: SourceFiles) -> dict[str, int]:
    """The lines and columns of a span."""
    place = sources.character_span(span)
    return {
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
    }


def file_and_line(path: str, line: int) -> dict[str, str | int]:
    """A line and its file, with the number of the cell in a notebook."""
    file, cell = cell_of(path)
    return {"path": file, **({"cell": cell} if cell is not None else {}), "line": line}


def severity_word(finding: Finding) -> str:
    """`hint`, `information`, `warning` or `error`."""
    return finding.severity.name.lower()

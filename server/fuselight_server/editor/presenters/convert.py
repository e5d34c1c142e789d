"""Between Fuselight's own types and LSP's: functions named after what they make.

Invariant: position encodings exist here and nowhere else. Inside, lines are 1-based and columns are UTF-8
bytes; LSP lines are 0-based and columns count units of the encoding that the client chose. A column beyond the
end of its line means the end of the line, in both directions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lsprotocol import types
from pygls import uris

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.report.visible import visible
from fuselight_server.base.finding import Finding, Related, Severity, Span
from fuselight_server.base.markdown import as_text
from fuselight_server.editor.messages.answers import MessageRange
from fuselight_server.editor.messages.client_features import ClientFeatures
from fuselight_server.editor.results.shown_findings import ShownFinding, address, message
from fuselight_server.explain.findings.common.causes import same_cause

ReadLine = Callable[[str, int], "str | None"]
"""Path and 1-based line to the line's text, None where there is none."""

BEFORE_EDIT = "before your edit: "

_NAME_BYTES = 255
"""The longest name that a file system has."""

_MAX_LINES = 2**31
"""An LSP line is a 31-bit number."""

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFORMATION: types.DiagnosticSeverity.Information,
    Severity.HINT: types.DiagnosticSeverity.Hint,
}


_VIRTUAL_FOLDER = ".virtual_documents"
"""The folder in which JupyterLab names the joined cells of a notebook; the notebook itself is not in it."""


@dataclass(frozen=True)
class Client:
    """What conversion depends on: the encoding of columns, the lines, the client's own names of files."""

    encoding: types.PositionEncodingKind | str
    read_line: ReadLine
    uri_of: Callable[[str], str]
    is_user_file: Callable[[str], bool] = lambda _path: True
    """Whether a file is the user's own, and not a library's."""


def path(uri: str) -> str | None:
    """Absolute path of a `file:` URI; None for any other, as `untitled:`, a notebook cell, or a damaged URI."""
    if not uri.startswith("file:"):
        return None
    try:
        fs_path = os.path.normpath(uris.to_fs_path(uri) or "")
        names = os.fsencode(fs_path).split(os.fsencode(os.sep))
    except ValueError:  # as `file://[`
        return None
    if fs_path.endswith(SUFFIX):
        fs_path = fs_path.replace(f"{os.sep}{_VIRTUAL_FOLDER}{os.sep}", os.sep, 1)
    is_absolute = os.path.isabs(fs_path)  # noqa: PTH117 - paths stay text
    return fs_path if is_absolute and "\0" not in fs_path and max(map(len, names)) <= _NAME_BYTES else None


def line_of(value: object) -> int | None:
    """0-based line that a client sent; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < _MAX_LINES else None


def uri(path: str) -> str:
    """`file:` URI of an absolute path."""
    return uris.from_fs_path(path) or path


def units(text: str, byte_column: int, encoding: types.PositionEncodingKind | str) -> int:
    """Columns of `encoding` that the first `byte_column` UTF-8 bytes of `text` take."""
    if encoding == types.PositionEncodingKind.Utf8:
        return min(byte_column, len(text.encode("utf-8", "surrogatepass")))
    if text.isascii():
        return min(byte_column, len(text))
    head = text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "ignore")
    if encoding == types.PositionEncodingKind.Utf32:
        return len(head)
    return len(head.encode("utf-16-le", "surrogatepass")) // 2


def byte_column(text: str, column: int, encoding: types.PositionEncodingKind | str) -> int:
    """UTF-8 bytes of `text` before its `column`, counted in units of `encoding`."""
    if encoding == types.PositionEncodingKind.Utf8 or text.isascii():
        return min(column, len(text.encode("utf-8", "surrogatepass")))
    if encoding == types.PositionEncodingKind.Utf32:
        return len(text[:column].encode("utf-8", "surrogatepass"))
    head = text.encode("utf-16-le", "surrogatepass")[: 2 * column].decode("utf-16-le", "ignore")
    return len(head.encode("utf-8", "surrogatepass"))


def range_(span: Span, client: Client) -> types.Range:
    """Range of `span`; without columns, the line from its first non-blank character to its end."""
    ends = plain_range(span, client)
    return types.Range(start=types.Position(**ends["start"]), end=types.Position(**ends["end"]))


def plain_range(span: Span, client: Client) -> MessageRange:
    """As `range_`, in JSON's own types, for answers that hold hundreds."""
    end_line = span.end_line or span.line
    first = client.read_line(span.path, span.line) or ""
    last = first if end_line == span.line else client.read_line(span.path, end_line) or ""
    first, last = first.rstrip("\r\n"), last.rstrip("\r\n")
    if span.column is None:
        start = len(first) - len(first.lstrip())
        start_column = units(first, len(first[:start].encode()), client.encoding)
    else:
        start_column = units(first, span.column, client.encoding)
    if span.end_column is None:
        end_column = units(last, len(last.rstrip().encode("utf-8", "surrogatepass")), client.encoding)
    else:
        end_column = units(last, span.end_column, client.encoding)
    if end_line == span.line:
        end_column = max(start_column, end_column)
    return {
        "start": {"line": max(span.line - 1, 0), "character": start_column},
        "end": {"line": max(end_line - 1, 0), "character": end_column},
    }


def diagnostic(finding: Finding, client: Client, *, edited: bool = False) -> types.Diagnostic:
    """Show `finding`. `edited`: its line was changed after the run, so that it may no longer hold."""
    severity = _SEVERITIES[finding.severity]
    if edited and severity in {types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Warning}:
        severity = types.DiagnosticSeverity.Information
    return types.Diagnostic(
        range=range_(finding.span, client),
        severity=severity,
        source="fuselight",
        code=finding.code,
        code_description=types.CodeDescription(href=page) if (page := address(finding)) else None,
        message=visible((BEFORE_EDIT if edited else "") + message(finding)),
        related_information=[
            types.DiagnosticRelatedInformation(
                location=types.Location(client.uri_of(related.span.path), range_(related.span, client)),
                message=visible(related.message),
            )
            for related in (*folded(finding.related, client.is_user_file), *same_cause(finding))
        ]
        or None,
    )


def shown_diagnostic(shown: ShownFinding, client: Client) -> types.Diagnostic:
    """Show a finding with all of its sources."""
    entry = diagnostic(shown.finding, client, edited=shown.edited)
    entry.source, entry.message = visible(shown.sources), visible(shown.prefix) + entry.message
    return entry


def faded(span: Span, words: str, client: Client) -> types.Diagnostic:
    """Fade lines that no run has reached."""
    return types.Diagnostic(
        range=range_(span, client),
        severity=types.DiagnosticSeverity.Hint,
        source="fuselight",
        tags=[types.DiagnosticTag.Unnecessary],
        message=words,
    )


def folded(related: Iterable[Related], is_user_file: Callable[[str], bool]) -> Iterator[Related]:
    """Yield the places in the user's files, and of a library's only the first: the innermost frame."""
    has_library = False
    for related_place in related:
        is_users = is_user_file(related_place.span.path)
        if is_users or not has_library:
            yield related_place
        has_library = has_library or not is_users


def position(
    at: types.Position, line_of: Callable[[int], str | None], encoding: types.PositionEncodingKind | str
) -> tuple[int, int]:
    """Turn a client's position into a 1-based line and a column in UTF-8 bytes."""
    line = at.line + 1
    return line, byte_column(line_of(line) or "", at.character, encoding)


def content(markdown: str, client: ClientFeatures) -> types.MarkupContent:
    """What a hover or a tooltip contains, in the format that the client shows."""
    if client.markdown:
        return types.MarkupContent(types.MarkupKind.Markdown, markdown)
    return types.MarkupContent(types.MarkupKind.PlainText, as_text(markdown))

"""Inlay hints: the shapes of the last run in the text, and what lines keep for the backward.

Invariant: only the requested lines are looked at.
"""

from __future__ import annotations

from lsprotocol import types

from fuselight.shared.report.visible import visible
from fuselight_server.base.markdown import plain
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.captures import captured_files, knowing
from fuselight_server.editor.results.memory import LineMemory, MemoryResult, saved_lines
from fuselight_server.editor.results.memory_words import line_hint, line_words
from fuselight_server.editor.results.shape_hints import ShapeHint, ShapeHints
from fuselight_server.editor.results.snapshot import Document

_MAX_LINES = 5_000
"""Lines of one request: an editor asks for those that it shows."""


def inlay_hints(server: Server, params: types.InlayHintParams) -> list[types.InlayHint] | None:
    """Answer `textDocument/inlayHint`."""
    document = server.state.documents.get(params.text_document.uri)
    if document is None or not document.runnable:
        return None
    wanted = server.state.folder_of(document.path).settings.inlay_hints
    if wanted == "off":
        return None
    files = captured_files(server.state.captures.values(), document.path)
    kept = saved_lines(server.state.estimates.values(), document.path)
    if not files and not kept:
        return None
    first = params.range.start.line + 1
    last = min(params.range.end.line + 1, document.source.line_count, first + _MAX_LINES)
    hints = ShapeHints(document, with_calls=wanted == "all")
    shapes = [
        _converted(server, document, hint)
        for line in range(first, last + 1)
        for hint in hints.of_line(knowing(files, line), line)
    ]
    return [
        *shapes,
        *(_saved(server, document, *kept[line]) for line in sorted(kept) if first <= line <= last),
    ]


def _saved(server: Server, document: Document, result: MemoryResult, line: LineMemory) -> types.InlayHint:
    """`saves 738 MB` at the end of a line."""
    text = document.line(line.place.line) or ""
    end = len(text.rstrip("\r\n").encode("utf-8", "surrogatepass"))
    return types.InlayHint(
        position=types.Position(
            line=line.place.line - 1, character=convert.units(text, end, server.encoding)
        ),
        label=line_hint(line),
        tooltip=convert.content(plain(line_words(line, result)), server.state.client),
        padding_left=True,
    )


def _converted(server: Server, document: Document, hint: ShapeHint) -> types.InlayHint:
    column = convert.units(document.line(hint.line) or "", hint.column, server.encoding)
    return types.InlayHint(
        position=types.Position(line=hint.line - 1, character=column),
        label=visible(hint.label),
        kind=types.InlayHintKind.Type,
        tooltip=convert.content(hint.tooltip, server.state.client),
        padding_left=not hint.label.startswith(":"),
    )

"""Inlay hints: the shapes of the last run in the text.

Invariant: only the requested lines are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fuselight.shared.report.visible import visible
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.captures import captured_files, knowing
from fuselight_server.editor.results.shape_hints import ShapeHints

if TYPE_CHECKING:
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.results.shape_hints import ShapeHint
    from fuselight_server.editor.results.snapshot import Document

_MAX_LINES = 5_000
"""Lines of one request: an editor asks for those that it shows."""


def inlay_hints(server: Server, params: types.InlayHintParams) -> list[types.InlayHint] | None:
    """Answer `textDocument/inlayHint`."""
    document = server.state.documents.get(params.text_document.uri)
    if document is None or not document.runnable:
        return None
    wanted = server.state.folder_of(document.path).settings.inlay_hints
    files = captured_files(server.state.captures.values(), document.path) if wanted != "off" else []
    if not files:
        return None
    first = params.range.start.line + 1
    last = min(params.range.end.line + 1, document.source.line_count, first + _MAX_LINES)
    hints = ShapeHints(document, with_calls=wanted == "all")
    return [
        _converted(server, document, hint)
        for line in range(first, last + 1)
        for hint in hints.of_line(knowing(files, line), line)
    ]


def _converted(server: Server, document: Document, hint: ShapeHint) -> types.InlayHint:
    column = convert.units(document.line(hint.line) or "", hint.column, server.encoding)
    return types.InlayHint(
        position=types.Position(line=hint.line - 1, character=column),
        label=visible(hint.label),
        kind=types.InlayHintKind.Type,
        tooltip=convert.content(hint.tooltip, server.state.client),
        padding_left=not hint.label.startswith(":"),
    )

"""Text documents and notebook cells, kept as the client has them.

The session owns the order in which its parts take an event in (`session/document_events.py`).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from lsprotocol import types

from fuselight_server.editor.presenters import convert
from fuselight_server.editor.session.state import Document
from fuselight_server.source.document import SourceDocument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.source.text_changes import Change

NEEDS_FILE = "Save this to a file: Fuselight runs files only."


def opened(server: Server, params: types.DidOpenTextDocumentParams) -> None:
    """Answer `textDocument/didOpen`."""
    item = params.text_document
    if item.language_id == "python" or item.uri.endswith(".py"):
        _open(server, item)


def _open(server: Server, item: types.TextDocumentItem) -> None:
    path = convert.path(item.uri)
    document = Document(
        uri=item.uri,
        path=path or item.uri,
        version=item.version,
        source=SourceDocument(path or item.uri, item.text),
        runnable=path is not None,
    )
    server.analysis.documents.opened(document)


def changed(server: Server, params: types.DidChangeTextDocumentParams) -> None:
    """Answer `textDocument/didChange`."""
    _change(server, params.text_document.uri, params.text_document.version, params.content_changes)


def _change(
    server: Server, uri: str, version: int, changes: Iterable[types.TextDocumentContentChangeEvent]
) -> None:
    document = server.state.documents.get(uri)
    if document is not None:
        edits = [functools.partial(_edit, document, change, server.encoding) for change in changes]
        server.analysis.documents.changed(document, version, edits)


def _edit(
    document: Document,
    change: types.TextDocumentContentChangeEvent,
    encoding: types.PositionEncodingKind | str,
) -> Iterable[Change]:
    """Make one edit. Its positions are those of the text after the edits before it."""
    if isinstance(change, types.TextDocumentContentChangePartial):
        start = convert.position(change.range.start, document.line, encoding)
        end = convert.position(change.range.end, document.line, encoding)
        return document.source.replace(start, end, change.text)
    return document.source.become(change.text)


def will_save(server: Server, params: types.WillSaveTextDocumentParams) -> None:
    """Answer `textDocument/willSave`: remember whether the user saves or the editor does after a delay."""
    server.automatic_saves.discard(params.text_document.uri)
    if params.reason == types.TextDocumentSaveReason.AfterDelay:
        server.automatic_saves.add(params.text_document.uri)


async def saved(server: Server, params: types.DidSaveTextDocumentParams) -> None:
    """Answer `textDocument/didSave`."""
    document = server.state.documents.get(params.text_document.uri)
    if document is not None:
        automatic = params.text_document.uri in server.automatic_saves
        server.automatic_saves.discard(params.text_document.uri)
        if not document.source.is_read:
            await document.source.read()
        server.analysis.documents.saved(document.path, automatic=automatic)


def closed(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    """Answer `textDocument/didClose`."""
    _close(server, params.text_document.uri)


def _close(server: Server, uri: str) -> None:
    server.automatic_saves.discard(uri)
    document = server.state.documents.get(uri)
    if document is not None:
        server.analysis.documents.closed(document)


def notebook_opened(server: Server, params: types.DidOpenNotebookDocumentParams) -> None:
    """Answer `notebookDocument/didOpen`: each cell is a document without a file."""
    for item in params.cell_text_documents:
        if item.language_id == "python":
            _open(server, item)


def notebook_changed(server: Server, params: types.DidChangeNotebookDocumentParams) -> None:
    """Answer `notebookDocument/didChange`."""
    cells = params.change.cells
    if cells is None:
        return
    if cells.structure is not None:
        for item in cells.structure.did_open or ():
            if item.language_id == "python":
                _open(server, item)
        for cell in cells.structure.did_close or ():
            _close(server, cell.uri)
    for content in cells.text_content or ():
        _change(server, content.document.uri, content.document.version, content.changes)


def notebook_closed(server: Server, params: types.DidCloseNotebookDocumentParams) -> None:
    """Answer `notebookDocument/didClose`."""
    for cell in params.cell_text_documents:
        _close(server, cell.uri)

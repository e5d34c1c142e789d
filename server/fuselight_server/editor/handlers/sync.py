"""Text documents and notebook cells, kept as the client has them.

The session owns the order in which its parts take an event in (`session/document_events.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping

from lsprotocol import types

from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.notebooks import Notebook, OpenCell
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.text_changes import Change


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
        server.analysis.saves.saved(document.path, automatic=automatic)


def closed(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    """Answer `textDocument/didClose`."""
    _close(server, params.text_document.uri)


def _close(server: Server, uri: str) -> None:
    server.automatic_saves.discard(uri)
    document = server.state.documents.get(uri)
    if document is not None:
        server.analysis.documents.closed(document)


def notebook_opened(server: Server, params: types.DidOpenNotebookDocumentParams) -> None:
    """Answer `notebookDocument/didOpen`: the cells are one document, whose file is the notebook's."""
    opened_notebook = params.notebook_document
    texts = {item.uri: item for item in params.cell_text_documents}
    cells = _cells(opened_notebook.cells, texts)
    notebook = Notebook(
        opened_notebook.uri, convert.path(opened_notebook.uri), opened_notebook.version, cells
    )
    server.notebooks.add_notebook(notebook)
    server.analysis.documents.opened(notebook.document)
    server.wire.send_all(server.cell_messages.again(notebook.uri))


def _cells(
    cells: Iterable[types.NotebookCell], texts: Mapping[str, types.TextDocumentItem]
) -> Iterator[OpenCell]:
    """The cells with a text, in their order."""
    for cell in cells:
        item = texts.get(cell.document)
        if item is not None:
            is_code = cell.kind is types.NotebookCellKind.Code
            document = Document(
                item.uri, item.uri, item.version, SourceDocument(item.uri, item.text), runnable=False
            )
            yield OpenCell(document, item.language_id, is_code)


def notebook_changed(server: Server, params: types.DidChangeNotebookDocumentParams) -> None:
    """Answer `notebookDocument/didChange`: first the order of cells, then their texts."""
    notebook, cells = server.notebooks.get(params.notebook_document.uri), params.change.cells
    if notebook is None:
        return
    if cells is None:
        notebook.document.version = params.notebook_document.version
        return
    if cells.structure is not None:
        _splice(notebook, cells.structure)
    for data in cells.data or ():
        if (cell := notebook.cell(data.document)) is not None:
            cell.is_code = data.kind is types.NotebookCellKind.Code
    for content in cells.text_content or ():
        if (cell := notebook.cell(content.document.uri)) is not None:
            for change in content.changes:
                _edit(cell.document, change, server.encoding)
            cell.document.version = content.document.version
    version = params.notebook_document.version
    server.analysis.documents.changed(notebook.document, version, [notebook.follow_cells])
    if cells.structure is not None or cells.data:
        server.wire.send_all(server.cell_messages.again(notebook.uri))


def _splice(notebook: Notebook, structure: types.NotebookDocumentCellChangeStructure) -> None:
    """Insert, delete and move cells. A cell that is moved keeps its text, which is not sent again."""
    start, count = structure.array.start, structure.array.delete_count
    opened_cells = {item.uri: item for item in structure.did_open or ()}
    kept = {cell.document.uri: cell for cell in notebook.cells}
    order = list(structure.array.cells or ())
    new = {cell.document.uri: cell for cell in _cells(order, opened_cells)}
    inserted = [
        cell for item in order if (cell := new.get(item.document) or kept.get(item.document)) is not None
    ]
    notebook.cells[start : start + count] = inserted


def notebook_saved(server: Server, params: types.DidSaveNotebookDocumentParams) -> None:
    """Answer `notebookDocument/didSave`."""
    notebook = server.notebooks.get(params.notebook_document.uri)
    if notebook is not None:
        server.analysis.saves.saved(notebook.document.path, automatic=False)


def notebook_closed(server: Server, params: types.DidCloseNotebookDocumentParams) -> None:
    """Answer `notebookDocument/didClose`."""
    notebook = server.notebooks.remove(params.notebook_document.uri)
    if notebook is not None:
        server.analysis.documents.closed(notebook.document)
        server.wire.send_all(server.cell_messages.again(notebook.uri))

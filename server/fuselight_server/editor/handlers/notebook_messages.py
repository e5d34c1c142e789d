"""Messages about cells, translated to the document of their notebook on the way in, and back on the way out.

Invariant: this is the only place that knows that a client names cells and the session names notebooks. A handler never
sees the URI of a cell, and a client never gets a line of a notebook's module. What has no place in a cell is not sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from lsprotocol import types

from fuselight.shared.report import file_name
from fuselight_server.editor.session.notebooks import Notebook, OpenNotebooks
from fuselight_server.source.notebooks import words
from fuselight_server.source.notebooks.edits import CellEdit, NoCellEditError, cell_edit
from fuselight_server.source.notebooks.module import ModuleCell

Json = Any
"""A value of JSON's own types."""

_LINES = ("line", "last")
"""0-based lines in our own messages, next to a `uri`."""
_SYNC = "notebookDocument/"
_NAMES = frozenset(
    {"uri", "newText", "code", "source", "kind", "command", "arguments", "data", "target", "severity", "href"}
)
"""Keys whose texts are no prose."""
_PAGES = frozenset({"fuselight/graphs", "fuselight/measured", "fuselight/tuned"})
"""Requests for a page about a file, which has texts without a place."""
_PROGRAM_WORDS = frozenset({"FL401", "FL402", "FL403"})
"""Codes whose texts repeat the words of a program, which may name other lines."""


@dataclass(frozen=True)
class _Scope:
    """What positions without a URI of their own belong to."""

    notebook: Notebook
    cell: ModuleCell


@dataclass(frozen=True)
class _Prose:
    """Which notebook's lines a text may name."""

    notebook: Notebook
    is_own: bool = True
    """Whether a line without the name of a file is one of the notebook."""

    def in_cells(self, text: str) -> str:
        name = file_name(self.notebook.document.path)
        return words.in_cells(text, name, self.notebook.module, is_own=self.is_own)


class CellMessages:
    """Translates the messages of one connection."""

    def __init__(self, notebooks: OpenNotebooks) -> None:
        self._notebooks = notebooks
        self._asked: dict[int | str, tuple[str, str | None]] = {}
        """The notebook and the cell that requests are about, by id; None: all of its cells."""
        self._diagnostics: dict[str, Json] = {}
        """The last diagnostics of each notebook, with lines of its module."""
        self._published: dict[str, dict[str, list[Json]]] = {}
        """By notebook and cell: the diagnostics that the client has."""

    @property
    def is_active(self) -> bool:
        """Whether any message may be about a notebook."""
        return bool(self._notebooks or self._published or self._asked)

    # From the client

    def incoming(self, message: Json) -> Json:
        """Return a message with the document of the notebook in the place of a cell."""
        method = message.get("method") if isinstance(message, dict) else None
        if not self._notebooks or not isinstance(method, str) or method.startswith(_SYNC):
            return message
        params = message.get("params")
        scope = self._scope_of(params)
        if isinstance(message.get("id"), (int, str)):
            book = (
                self._notebooks.get(params.get("uri"))
                if method in _PAGES and isinstance(params, dict)
                else None
            )
            if scope is not None:
                self._asked[message["id"]] = (scope.notebook.uri, scope.cell.id)
            elif book is not None:
                self._asked[message["id"]] = (book.uri, None)
        return {**message, "params": self._in(params, None)}

    def _scope_of(self, params: Json) -> _Scope | None:
        """The cell that a request is about."""
        if not isinstance(params, dict):
            return None
        document, arguments = params.get("textDocument"), params.get("arguments")
        named = document or (arguments[0] if isinstance(arguments, list) and arguments else params)
        return self._scope(named.get("uri")) if isinstance(named, dict) else None

    def _scope(self, uri: Json) -> _Scope | None:
        notebook = self._notebooks.of_cell(uri)
        cell = notebook.module.cell(uri) if notebook is not None else None
        return _Scope(notebook, cell) if notebook is not None and cell is not None else None

    def _in(self, value: Json, scope: _Scope | None) -> Json:
        if isinstance(value, list):
            return [self._in(item, scope) for item in value]
        if not isinstance(value, dict):
            return value
        document = value.get("textDocument")
        own = self._scope(value.get("uri"))
        scope = own or self._scope(document.get("uri") if isinstance(document, dict) else None) or scope
        if scope is not None and _is_position(value):
            row = max(0, min(value["line"], scope.cell.row_count - 1))
            return {**value, "line": scope.cell.first_line - 1 + row}
        translated = {key: self._in(item, scope) for key, item in value.items()}
        if own is not None:
            translated["uri"] = own.notebook.uri
            for key in _LINES:
                if isinstance(value.get(key), int):
                    translated[key] = own.cell.first_line - 1 + value[key]
        return translated

    # To the client

    def outgoing(self, message: Json) -> list[Json]:
        """Return the messages that the client gets for one of ours."""
        try:
            return self._translated(message)
        except NoCellEditError as error:  # an edit that was not to be offered: nothing is changed
            name, label = ("params", {"label": str(error)}) if "method" in message else ("result", {})
            return [{**message, name: {**message[name], "edit": {"changes": {}}, **label}}]

    def _translated(self, message: Json) -> list[Json]:
        method, params = message.get("method"), message.get("params")
        is_notebook = isinstance(params, dict) and self._is_notebook(params.get("uri"))
        if method == types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS and is_notebook:
            return list(self._publish(params))
        if method is not None:
            return [{**message, "params": self._out(params, None)}]
        if "result" not in message:
            self._asked.pop(message.get("id"), None)
            return [message]
        notebook_uri, cell_uri = self._asked.pop(message.get("id"), (None, None))
        notebook = self._notebooks.get(notebook_uri)
        cell = notebook.module.cell(cell_uri) if notebook is not None and cell_uri is not None else None
        if cell_uri is not None and cell is None:
            return [{**message, "result": None}]
        scope = _Scope(notebook, cell) if notebook is not None and cell is not None else None
        if scope is not None and isinstance(message["result"], str):
            return [{**message, "result": in_cells(message["result"], scope.notebook)}]
        prose = _Prose(notebook) if notebook is not None and scope is None else None
        return [{**message, "result": self._out(message["result"], scope, prose)}]

    def _is_notebook(self, uri: Json) -> bool:
        return self._notebooks.get(uri) is not None or uri in self._published

    def _publish(self, params: Json) -> Iterator[Json]:
        """The diagnostics of a notebook as those of its cells, where they differ from what the client has."""
        uri = params["uri"]
        notebook = self._notebooks.get(uri)
        by_cell: dict[str, list[Json]] = {}
        if notebook is None:
            self._diagnostics.pop(uri, None)
        else:
            self._diagnostics[uri] = params
            by_cell = {cell.id: [] for cell in notebook.module.cells}
            for diagnostic in params["diagnostics"]:
                place = notebook.module.cell_and_row(diagnostic["range"]["start"]["line"] + 1)
                if place is not None:
                    by_cell[place.cell.id].append(self._diagnostic(diagnostic, _Scope(notebook, place.cell)))
        before = self._published.get(uri, {})
        for cell_uri in (*by_cell, *(before.keys() - by_cell.keys())):
            diagnostics = by_cell.get(cell_uri, [])
            if diagnostics != before.get(cell_uri, []):
                yield _notification(cell_uri, diagnostics, notebook)
        shown = {cell_uri: diagnostics for cell_uri, diagnostics in by_cell.items() if diagnostics}
        self._published[uri] = shown
        if not shown:
            del self._published[uri]

    def _diagnostic(self, diagnostic: Json, scope: _Scope) -> Json:
        translated = self._out(diagnostic, scope)
        if diagnostic.get("code") in _PROGRAM_WORDS:
            translated["message"] = diagnostic["message"]
        return translated

    def again(self, uri: str) -> list[Json]:
        """Return the diagnostics of a notebook whose cells have changed their places, where they differ now."""
        params = self._diagnostics.get(uri)
        return list(self._publish(params)) if params is not None else []

    def _out(self, value: Json, scope: _Scope | None, prose: _Prose | None = None) -> Json:
        if isinstance(value, list):
            items = [item for item in value if scope is None or _is_in(item, scope)]
            return [translated for item in items for translated in self._item(item, scope, prose)]
        if not isinstance(value, dict):
            return prose.in_cells(value) if isinstance(value, str) and prose is not None else value
        if "documentChanges" in value or isinstance(value.get("changes"), dict):
            return self._workspace_edit(value)
        if isinstance(value.get("documents"), list):  # of a preview
            documents = [part for document in value["documents"] for part in self._documents(document)]
            return {**value, "documents": documents}
        scope = self._scope_out(value) or scope
        if scope is not None and _is_position(value):
            return _position_in(value, scope.cell)
        return self._fields(value, scope, self._prose(value, scope, prose))

    def _prose(self, value: Json, scope: _Scope | None, outer: _Prose | None) -> _Prose | None:
        """Which lines the texts of an object name: those of its own file, else those of what it is a part of."""
        notebook = scope.notebook if scope is not None else self._notebooks.get(value.get("uri"))
        if notebook is not None:
            return _Prose(notebook)
        return replace(outer, is_own=False) if outer is not None and value.get("uri") else outer

    def _item(self, item: Json, scope: _Scope | None, prose: _Prose | None) -> Iterator[Json]:
        """An item of a list, unless it is an action whose edit is none of a cell."""
        try:
            yield self._out(item, scope, prose)
        except NoCellEditError:
            if not isinstance(item, dict) or "edit" not in item:
                raise

    def _fields(self, value: Json, scope: _Scope | None, prose: _Prose | None) -> Json:
        names = _NAMES | {"text"} if _is_place(value) else _NAMES
        translated = {
            key: self._out(item, scope, None if key in names else prose) for key, item in value.items()
        }
        if (
            scope is not None
            and value.get("uri") == scope.notebook.uri
            and self._scope_out(value) is not None
        ):
            translated["uri"] = scope.cell.id
            if isinstance(value.get("path"), str):  # as people read it
                translated["path"] = f"{value['path']}:cell {scope.cell.number}"
            for key in _LINES:
                if isinstance(value.get(key), int):
                    translated[key] = value[key] + 1 - scope.cell.first_line
        return translated

    def _scope_out(self, value: Json) -> _Scope | None:
        """The cell of a place of a notebook: a URI with a range, a selection or a line."""
        notebook = self._notebooks.get(value.get("uri"))
        if notebook is None:
            return None
        spans = (value.get("range"), value.get("selection"))
        starts = [span["start"]["line"] for span in spans if isinstance(span, dict) and "start" in span]
        line = starts[0] if starts else value.get("line")
        place = notebook.module.cell_and_row(line + 1) if isinstance(line, int) else None
        return _Scope(notebook, place.cell) if place is not None else None

    # Edits

    def _workspace_edit(self, edit: Json) -> Json:
        translated = dict(edit)
        if isinstance(edit.get("changes"), dict):
            changes: dict[str, list[Json]] = {}
            for uri, edits in edit["changes"].items():
                for document in self._documents({"uri": uri, "edits": edits}):
                    changes.setdefault(document["uri"], []).extend(document["edits"])
            translated["changes"] = changes
        if edit.get("documentChanges"):
            translated["documentChanges"] = [
                {"textDocument": {"uri": part["uri"], "version": part["version"]}, "edits": part["edits"]}
                for change in edit["documentChanges"]
                for part in self._documents({**change["textDocument"], "edits": change["edits"]})
            ]
        return translated

    def _documents(self, document: Json) -> Iterator[Json]:
        """The edits of a document as those of each cell. An edit that is in no cell was not to be offered."""
        notebook = self._notebooks.get(document["uri"])
        if notebook is None:
            yield {"version": None, **document}
            return
        edits: dict[str, list[Json]] = {}
        for edit in document["edits"]:
            in_cell = cell_edit(notebook.module, *_ends(edit["range"]), edit["newText"])
            edits.setdefault(in_cell.cell.id, []).append(_text_edit(edit, in_cell, notebook))
        for uri, cell_edits in edits.items():
            cell = notebook.cell(uri)
            yield {
                **document,
                "uri": uri,
                "version": cell.document.version if cell else None,
                "edits": cell_edits,
            }


def _is_place(value: Json) -> bool:
    """Whether it is a line of a page, whose text is code."""
    return isinstance(value, dict) and {"uri", "path", "line", "text"} <= value.keys()


def _is_position(value: Json) -> bool:
    return isinstance(value.get("line"), int) and isinstance(value.get("character"), int)


def _is_in(item: Json, scope: _Scope) -> bool:
    """Whether an item of a list is in the cell of its scope, or has no place in a document."""
    if not isinstance(item, dict) or "uri" in item or "location" in item:
        return True
    at = item["range"]["start"] if isinstance(item.get("range"), dict) else item.get("position")
    line = at.get("line") if isinstance(at, dict) else None
    return not isinstance(line, int) or scope.cell.first_line <= line + 1 <= scope.cell.last_line


def _position_in(position: Json, cell: ModuleCell) -> Json:
    row = position["line"] + 1 - cell.first_line
    if row >= cell.row_count:  # the start of what follows the cell
        last = cell.python.lines[-1]
        return {"line": cell.row_count - 1, "character": len(last)}
    return {**position, "line": max(row, 0)}


def _ends(span: Json) -> tuple[tuple[int, int], tuple[int, int]]:
    start, end = span["start"], span["end"]
    return (start["line"] + 1, start["character"]), (end["line"] + 1, end["character"])


def _text_edit(edit: Json, in_cell: CellEdit, notebook: Notebook) -> Json:
    cell = notebook.cell(in_cell.cell.id)

    def position(at: tuple[int, int | None]) -> Json:
        row, column = at
        if column is None:  # a client moves a column beyond the line's end to the end
            text = cell.document.line(row + 1) if cell is not None else ""
            column = len((text or "").encode("utf-16-le", "surrogatepass")) // 2
        return {"line": row, "character": column}

    return {
        **edit,
        "range": {"start": position(in_cell.start), "end": position(in_cell.end)},
        "newText": in_cell.text,
    }


def _notification(uri: str, diagnostics: list[Json], notebook: Notebook | None) -> Json:
    cell = notebook.cell(uri) if notebook is not None else None
    version = {"version": cell.document.version} if cell is not None else {}
    params = {"uri": uri, "diagnostics": diagnostics, **version}
    return {"jsonrpc": "2.0", "method": types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, "params": params}


def in_cells(text: str, notebook: Notebook) -> str:
    """Return a text with the lines of a notebook's module named by their cells: `line 12` as `cell 3, line 2`."""
    return _Prose(notebook).in_cells(text)

"""A notebook of a language client: cells that open, change, move and close, in the messages of LSP 3.17."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.lsp_client import Client, Json


class ClientNotebook:
    """An open notebook."""

    def __init__(self, client: Client, file: Path, *cells: str, uri: str | None = None) -> None:
        """Open it with code cells of Python."""
        self.client, self.file = client, file
        self.uri = uri or file.as_uri()
        self.version = 1
        self._count = 0
        self.texts: dict[str, str] = {}
        self.cells = [self._new(text) for text in cells]
        client.notify(
            "notebookDocument/didOpen",
            {
                "notebookDocument": {
                    "uri": self.uri, "notebookType": "jupyter-notebook", "version": 1,
                    "cells": [{"kind": 2, "document": cell} for cell in self.cells],
                },
                "cellTextDocuments": [self._item(cell) for cell in self.cells],
            },
        )  # fmt: skip

    def _new(self, text: str) -> str:
        self._count += 1
        uri = f"vscode-notebook-cell:{self.file.as_posix()}#W{self._count}"
        self.texts[uri] = text
        return uri

    def _item(self, cell: str, language: str = "python") -> Json:
        return {"uri": cell, "languageId": language, "version": 1, "text": self.texts[cell]}

    def _changed(self, cells: Json) -> None:
        self.version += 1
        self.client.notify(
            "notebookDocument/didChange",
            {"notebookDocument": {"uri": self.uri, "version": self.version}, "change": {"cells": cells}},
        )

    def insert(self, index: int, text: str, *, kind: int = 2, language: str = "python") -> str:
        """Insert a cell; returns its URI."""
        cell = self._new(text)
        self.cells.insert(index, cell)
        array = {"start": index, "deleteCount": 0, "cells": [{"kind": kind, "document": cell}]}
        self._changed({"structure": {"array": array, "didOpen": [self._item(cell, language)]}})
        return cell

    def delete(self, index: int) -> None:
        cell = self.cells.pop(index)
        array = {"start": index, "deleteCount": 1}
        self._changed({"structure": {"array": array, "didClose": [{"uri": cell}]}})

    def set_language(self, index: int, language: str) -> None:
        """As VS Code does: the cell is closed, and opened in its place."""
        cell = self.cells[index]
        array = {"start": index, "deleteCount": 1, "cells": [{"kind": 2, "document": cell}]}
        opened = [self._item(cell, language)]
        self._changed({"structure": {"array": array, "didClose": [{"uri": cell}], "didOpen": opened}})

    def set_kind(self, index: int, kind: int) -> None:
        self._changed({"data": [{"kind": kind, "document": self.cells[index]}]})

    def order(self, *order: int) -> None:
        """Move cells: all of them in the place of all of them, none opened or closed."""
        self.cells = [self.cells[index] for index in order]
        cells = [{"kind": 2, "document": cell} for cell in self.cells]
        self._changed({"structure": {"array": {"start": 0, "deleteCount": len(cells), "cells": cells}}})

    def edit(self, index: int, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        """Type in a cell; positions are those of the cell."""
        ends = [{"line": line, "character": character} for line, character in (start, end)]
        change = {"range": {"start": ends[0], "end": ends[1]}, "text": text}
        document = {"uri": self.cells[index], "version": self.version + 1}
        self._changed({"textContent": [{"document": document, "changes": [change]}]})

    def save(self) -> None:
        self.client.notify("notebookDocument/didSave", {"notebookDocument": {"uri": self.uri}})

    def close(self) -> None:
        closed = [{"uri": cell} for cell in self.cells]
        self.client.notify(
            "notebookDocument/didClose", {"notebookDocument": {"uri": self.uri}, "cellTextDocuments": closed}
        )

    def diagnostics(self) -> list[list[tuple[str, int]]]:
        """For each cell: the codes and lines of what was published last."""
        return [
            [(item["code"], item["range"]["start"]["line"]) for item in self.client.diagnostics(cell)]
            for cell in self.cells
        ]

    def lenses(self) -> list[list[tuple[int, str]]]:
        """For each cell: the lines and titles of its lenses."""
        answers: list[list[tuple[int, str]]] = []
        for cell in self.cells:
            lenses = self.client.request("textDocument/codeLens", {"textDocument": {"uri": cell}}) or []
            answers.append([(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in lenses])
        return answers


def write_notebook(path: Path, *cells: str, **metadata: Any) -> Path:
    """Write a notebook file whose cells have outputs, which nothing may read."""
    output = {"output_type": "stream", "name": "stdout", "text": "import secret\n"}
    codes = [{"cell_type": "code", "source": text, "outputs": [output], "metadata": {}} for text in cells]
    path.write_text(json.dumps({"nbformat": 4, "metadata": metadata, "cells": codes}), encoding="utf-8")
    return path

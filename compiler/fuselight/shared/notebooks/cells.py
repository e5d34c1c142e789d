"""The code cells of a notebook file, of any version of the format.

Invariant: outputs and markdown are never read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fuselight.shared.foreign_data import NestingError, parse_json

SUFFIX = ".ipynb"
PYTHON = "python"
_CONFLICT = "\n<<<<<<< "
_TEXTS = ("source", "input", "code")
"""Where the text of a cell is, in formats 4, 2 to 3, and 1."""


class NotebookError(ValueError):
    """A file is no notebook. The message says why, as a sentence about `it`."""


@dataclass(frozen=True)
class Cell:
    """A code cell."""

    id: str
    """The notebook's own name of the cell, or that of the editor; unique in the notebook."""
    language: str
    """`python`, in lower case as an editor names languages, or another language."""
    text: str
    number: int
    """1-based, among the code cells of the notebook."""


def read_cells(data: str | bytes) -> tuple[Cell, ...]:
    """Return the code cells of a notebook file, in their order. Raises NotebookError."""
    notebook = _parsed(data)
    language = _language(notebook)
    cells: list[Cell] = []
    ids: set[str] = set()
    for number, cell in enumerate(_cells(notebook), 1):
        if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
            raise NotebookError(f"its cell {number} has no `cell_type`")
        if cell["cell_type"] != "code":
            continue
        name = cell.get("id")
        if not isinstance(name, str) or name in ids:
            name = f"cell-{number}"
        ids.add(name)
        cells.append(Cell(name, _language_of_cell(cell) or language, _text(cell, number), len(cells) + 1))
    return tuple(cells)


def read_python_cells(data: str | bytes) -> tuple[Cell, ...]:
    """As `read_cells`. Raises NotebookError, too, where no cell has Python."""
    cells = read_cells(data)
    if cells and all(cell.language != PYTHON for cell in cells):
        raise NotebookError(f"its code is `{cells[0].language}`, not Python")
    return cells


def _parsed(data: str | bytes) -> dict[str, Any]:
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data.removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise NotebookError("it is not UTF-8") from None
    if not text.strip():
        raise NotebookError("it is empty")
    try:
        notebook = parse_json(text)
    except json.JSONDecodeError as error:
        if _CONFLICT in text:
            raise NotebookError("it has the marks of an unresolved merge conflict") from None
        reason = error.msg.removesuffix(" at").removesuffix(" starting")
        raise NotebookError(f"its JSON is damaged on line {error.lineno}: {reason}") from None
    except NestingError:
        raise NotebookError("its JSON is nested too deeply") from None
    except ValueError:  # Python bounds the digits of an integer
        raise NotebookError("its JSON has an integer with too many digits") from None
    if not isinstance(notebook, dict):
        raise NotebookError("its JSON is no object")
    return notebook


def _cells(notebook: dict[str, Any]) -> Iterator[Any]:
    """The cells of format 4 and 1, and those of the worksheets of 2 and 3."""
    sheets = notebook.get("worksheets")
    holders = sheets if isinstance(sheets, list) and "cells" not in notebook else [notebook]
    for holder in holders:
        cells = holder.get("cells") if isinstance(holder, dict) else None
        if not isinstance(cells, list):
            raise NotebookError("it has no list of `cells`")
        yield from cells


def _text(cell: dict[str, Any], number: int) -> str:
    text = next((cell[name] for name in _TEXTS if name in cell), None)
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        return "".join(text)
    if isinstance(text, str):
        return text
    raise NotebookError(f"its cell {number} has no text in `source`")


def _language(notebook: dict[str, Any]) -> str:
    """The language of the kernel; Python where the notebook does not name one."""
    metadata = notebook.get("metadata")
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        part = metadata.get(key) if isinstance(metadata, dict) else None
        language = part.get(name) if isinstance(part, dict) else None
        if isinstance(language, str) and language:
            return _known(language)
    return PYTHON


def _language_of_cell(cell: dict[str, Any]) -> str:
    """The language that an editor or format 3 has set for a cell; empty for the kernel's."""
    metadata = cell.get("metadata")
    vscode = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = vscode.get("languageId") if isinstance(vscode, dict) else cell.get("language")
    return _known(language) if isinstance(language, str) else ""


def _known(language: str) -> str:
    language = language.lower()
    return PYTHON if language in {"ipython", "python3", "python2"} else language

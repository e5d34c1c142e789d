"""Texts of cells in the file of a notebook: every byte stays but those of the lines that change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fuselight.shared.notebooks.cells import NotebookError, read_cells
from fuselight.shared.notebooks.module_text import module_of_notebook
from fuselight_server.source.notebooks.edits import cell_edits
from fuselight_server.source.notebooks.file_edits import cell_texts, edited_file, file_lines
from fuselight_server.source.notebooks.module import parse_notebook

CELLS = ["%cd ..\na = 1\nb = 'é'\n", "# no change", "def f(x):\n    return x"]


def notebook(sources: list[Any], **parts: Any) -> dict[str, Any]:
    cells = [
        {"cell_type": "code", "id": f"c{number}", "source": source, "outputs": [{"text": ["source\n"]}]}
        for number, source in enumerate(sources)
    ]
    title = {"cell_type": "markdown", "source": ["a = 1\n"]}
    return {"cells": [title, *cells], "metadata": {"code": []}, "nbformat": 4, **parts}


def as_lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


FILES = {
    "nbformat": json.dumps(notebook([as_lines(text) for text in CELLS]), indent=1, ensure_ascii=False) + "\n",
    "one line": json.dumps(notebook([as_lines(text) for text in CELLS]), ensure_ascii=False),
    "escapes": json.dumps(notebook([as_lines(text) for text in CELLS]), indent=4),
    "strings": json.dumps(notebook(list(CELLS)), indent="\t", sort_keys=True),
    "mark": "\ufeff" + json.dumps(notebook([as_lines(text) for text in CELLS]), indent=2),
    "windows": json.dumps(
        notebook([as_lines(text.replace("\n", "\r\n")) for text in CELLS]), indent=1
    ).replace("\n", "\r\n"),
}


def edited(data: bytes, old: str, new: str) -> bytes:
    module = parse_notebook(data)
    assert old in module.text
    return edited_file(data, cell_edits(module, module.text.replace(old, new)))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a = 1\n", "a = 2\n"),
        ("a = 1\n", "a = 'ö'\nc = 3\n"),
        ("a = 1\n", ""),
        ("    return x\n", "    y = x\n    return y\n"),
        ("b = 'é'\n", "b = '\\'\"'\n"),
    ],
)
def test_one_cell_changes_and_nothing_else(name: str, old: str, new: str) -> None:
    data = FILES[name].encode()
    result = edited(data, old, new)
    assert module_of_notebook(result) == module_of_notebook(data).replace(old, new)
    before, after = json.loads(data.decode("utf-8-sig")), json.loads(result.decode("utf-8-sig"))
    changed = [
        i for i, pair in enumerate(zip(before["cells"], after["cells"], strict=True)) if pair[0] != pair[1]
    ]
    assert len(changed) == 1
    after["cells"][changed[0]]["source"] = before["cells"][changed[0]]["source"]
    assert after == before
    start = next(i for i, pair in enumerate(zip(data, result, strict=False)) if pair[0] != pair[1])
    tail = next(i for i, pair in enumerate(zip(data[::-1], result[::-1], strict=False)) if pair[0] != pair[1])
    assert len(result) - start - tail <= len(json.dumps(new)) + 40  # what differs is one place


@pytest.mark.parametrize("name", FILES)
def test_an_edit_that_changes_nothing_changes_no_byte(name: str) -> None:
    data = FILES[name].encode()
    assert edited_file(data, cell_edits(parse_notebook(data), parse_notebook(data).text)) == data


@pytest.mark.parametrize("name", FILES)
def test_an_edit_and_its_reverse_give_the_same_bytes(name: str) -> None:
    data = FILES[name].encode()
    there = edited(data, "    return x\n", "    return x + 1\n")
    assert edited(there, "    return x + 1\n", "    return x\n") == data


def test_commands_keep_their_text() -> None:
    result = edited(FILES["nbformat"].encode(), "a = 1\n", "a = 2\n")
    assert read_cells(result)[0].text == "%cd ..\na = 2\nb = 'é'\n"
    assert cell_texts(result)[0] == "%cd ..\na = 2\nb = 'é'\n"


def test_rows_are_found_in_the_file() -> None:
    text = FILES["nbformat"]
    rows = file_lines(text.encode())
    lines = text.split("\n")
    assert [json.loads(lines[row - 1].strip().rstrip(",")) for row in rows[0]] == as_lines(CELLS[0])
    assert [len(row) for row in file_lines(FILES["strings"].encode())] == [3, 1, 2]
    assert len({line for row in file_lines(FILES["strings"].encode()) for line in row}) == 3


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"cells": {}}', '{"cells": [3]}', '{"cells": [{"cell_type": "code"}]}', '{"metadata": {}}'],
)
def test_a_damaged_file_is_refused(text: str) -> None:
    with pytest.raises(NotebookError):
        file_lines(text.encode())


def test_a_file_that_is_not_text_is_an_error_of_the_notebook() -> None:
    for read in (cell_texts, file_lines):
        with pytest.raises(NotebookError, match="not UTF-8"):
            read(b'{"cells": [\xff]}')

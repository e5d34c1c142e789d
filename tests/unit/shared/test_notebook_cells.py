"""Notebook files of every format, and files that are none."""

from __future__ import annotations

import json

import pytest

from fuselight.shared.notebooks.cells import NotebookError, read_cells
from fuselight.shared.notebooks.module_text import module_of_notebook, split_module


def code(source: object, **more: object) -> dict[str, object]:
    return {"cell_type": "code", "source": source, "outputs": [{"text": "secret"}], **more}


def test_code_cells_are_read_in_order_without_their_outputs() -> None:
    cells = [
        {"cell_type": "markdown", "source": "# %no"},
        code(["n = 1\n", "m = 2"], id="a"),
        code("", id="a"),
        {"cell_type": "raw", "source": ["x"]},
        code("k = 3"),
    ]
    read = read_cells(json.dumps({"nbformat": 4, "cells": cells}))
    assert [(cell.id, cell.language, cell.text, cell.number) for cell in read] == [
        ("a", "python", "n = 1\nm = 2", 1),
        ("cell-3", "python", "", 2),
        ("cell-5", "python", "k = 3", 3),
    ]


@pytest.mark.parametrize("name", ["input", "source"])
def test_worksheets_of_format_3_are_read_one_after_the_other(name: str) -> None:
    sheets = [{"cells": [{"cell_type": "code", name: [text], "language": "python"}]} for text in ("a", "b")]
    assert [cell.text for cell in read_cells(json.dumps({"nbformat": 3, "worksheets": sheets}))] == ["a", "b"]


@pytest.mark.parametrize(
    ("metadata", "language"),
    [
        ({}, "python"),
        ({"language_info": {"name": "python"}}, "python"),
        ({"language_info": {"name": "ipython"}}, "python"),
        ({"kernelspec": {"language": "R"}}, "r"),
        ({"language_info": {"name": "julia"}, "kernelspec": {"language": "python"}}, "julia"),
        ({"language_info": 3, "kernelspec": None}, "python"),
    ],
)
def test_the_language_is_that_of_the_kernel(metadata: object, language: str) -> None:
    assert read_cells(json.dumps({"metadata": metadata, "cells": [code("x")]}))[0].language == language


def test_a_cell_may_have_a_language_of_its_own() -> None:
    cells = [code("SELECT 1", metadata={"vscode": {"languageId": "sql"}}), code("n = 1", metadata=None)]
    assert [cell.language for cell in read_cells(json.dumps({"cells": cells}))] == ["sql", "python"]


def test_a_module_has_one_line_for_each_line_of_a_cell() -> None:
    cells = [
        code("a = 1"),
        code("%%bash\nls\n"),
        code("b = 2\n"),
        code("x", metadata={"vscode": {"languageId": "r"}}),
    ]
    text = module_of_notebook(json.dumps({"cells": cells}))
    assert [(line, lines[:-1]) for line, lines in split_module(text)][-1] == (11, [""])
    assert [(line, lines) for line, lines in split_module(text)][:3] == [
        (2, ["a = 1"]),
        (4, ["", "", ""]),
        (8, ["b = 2", ""]),
    ]
    assert "ls" not in text


@pytest.mark.parametrize(
    "data", ['{"cells": []}', '{"cells": [{"cell_type": "markdown"}]}', '{"worksheets": []}']
)
def test_a_notebook_without_code_is_an_empty_module(data: str) -> None:
    assert module_of_notebook(data) == ""


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "it is empty"),
        (b"\xef\xbb\xbf \n", "it is empty"),
        (b"\xff\xfe", "it is not UTF-8"),
        ("[]", "its JSON is no object"),
        ("{}", "it has no list of `cells`"),
        ('{"cells": 3}', "it has no list of `cells`"),
        ('{"worksheets": [3]}', "it has no list of `cells`"),
        ('{"cells": [1]}', "its cell 1 has no `cell_type`"),
        ('{"cells": [{"cell_type": "code"}]}', "its cell 1 has no text in `source`"),
        ('{"cells": [{"cell_type": "code", "source": [1]}]}', "its cell 1 has no text in `source`"),
        ('{"cells": [\n', "its JSON is damaged on line 2: Expecting value"),
        ('{"cells": [\n"import', "its JSON is damaged on line 2: Unterminated string"),
        ('{"cells": ["a\n"]}', "its JSON is damaged on line 1: Invalid control character"),
        ('{"cells": [\n<<<<<<< HEAD\n', "it has the marks of an unresolved merge conflict"),
        ("[" * 100_000, "its JSON is nested too deeply"),
        ('{"nbformat": ' + "7" * 5000 + "}", "its JSON has an integer with too many digits"),
        (
            b'{"cells": [], "metadata": {"size": -' + b"1" * 9000 + b"}}",
            "its JSON has an integer with too many digits",
        ),
    ],
)
def test_a_file_that_is_no_notebook_says_why(data: str | bytes, why: str) -> None:
    with pytest.raises(NotebookError) as error:
        read_cells(data)
    assert str(error.value) == why

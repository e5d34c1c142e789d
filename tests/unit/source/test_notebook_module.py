"""The module of a notebook, and its lines in the cells."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.notebooks.cells import Cell, NotebookError
from fuselight.shared.notebooks.module_text import module_of_notebook
from fuselight_server.base.files import disk_lines, disk_text, read_python
from fuselight_server.commands.targets import readings_of
from fuselight_server.source.document import read_source
from fuselight_server.source.notebooks.module import module_of, parse_notebook

if TYPE_CHECKING:
    from pathlib import Path


def notebook(*cells: str) -> str:
    return json.dumps(
        {"cells": [{"cell_type": "code", "id": str(n), "source": text} for n, text in enumerate(cells)]}
    )


def test_each_line_is_a_row_of_a_cell_and_back() -> None:
    cells = ["a = 1\nb = 2", "", "%%bash\nls\n", "f(\n)", "n = 1\n"]
    module = parse_notebook(notebook(*cells))
    lines = module.text.split("\n")
    for number, text in enumerate(cells):
        for row in range(text.count("\n") + 1):
            line = module.line(str(number), row)
            assert line is not None
            place = module.cell_and_row(line)
            assert place is not None
            assert (place.cell.id, place.cell.number, place.row) == (str(number), number + 1, row)
            assert lines[line - 1] == ("" if number == 2 else text.split("\n")[row])
        assert module.line(str(number), text.count("\n") + 1) is None
    assert module.line("0", -1) is None
    assert module.line("no", 0) is None
    marker = module.cells[1].first_line - 1
    assert [module.cell_and_row(line) for line in (0, marker, 10_000)] == [None, None, None]


def test_random_notebooks_map_every_line_once() -> None:
    chosen = random.Random(7)  # noqa: S311 - nothing is kept secret
    for _ in range(200):
        cells = [
            Cell(
                str(n),
                chosen.choice(["python", "sql"]),
                "\n" * chosen.randrange(4) + chosen.choice(["", "%x", "x = 1"]),
                n + 1,
            )
            for n in range(chosen.randrange(6))
        ]
        module = module_of(cells)
        places = [module.cell_and_row(line) for line in range(1, module.text.count("\n") + 1)]
        known = [(place.cell.id, place.row) for place in places if place is not None]
        assert known == [(cell.id, row) for cell in cells for row in range(cell.text.count("\n") + 1)]
        assert places.count(None) == len(cells)


def test_words_and_commands_of_a_line() -> None:
    module = parse_notebook(notebook("n = 1", "x = 1\n!ls\ny = 2"))
    places = [module.cell_and_row(line) for line in (4, 5, 6)]
    assert [place and place.words for place in places] == [
        "cell 2, line 1",
        "cell 2, line 2",
        "cell 2, line 3",
    ]


def test_cells_that_are_no_part_of_the_program_have_notes() -> None:
    module = module_of(
        [
            Cell("a", "python", "x = (", 1),
            Cell("b", "sql", "SELECT 1", 2),
            Cell("c", "python", "%%bash\nls", 4),
            Cell("d", "python", "", 5),
        ]
    )
    assert [(note.line, note.message.partition(":")[0]) for note in module.notes] == [
        (2, "does not parse"),
        (4, "is not Python but `sql`"),
        (6, "is not Python but `%%bash`"),
    ]


def test_empty_notebooks_and_other_languages() -> None:
    assert parse_notebook('{"cells": []}').text == ""
    assert parse_notebook('{"cells": []}').cell_and_row(1) is None
    julia = (
        '{"metadata": {"language_info": {"name": "Julia"}}, "cells": [{"cell_type": "code", "source": ""}]}'
    )
    for read in (parse_notebook, module_of_notebook):
        with pytest.raises(NotebookError, match="its code is `julia`, not Python"):
            read(julia)


def test_targets_are_found_between_cells_that_do_not_parse() -> None:
    broken = module_of_notebook(
        notebook("def lost(:\n  x", "# fuselight: kept(f32[2])\ndef kept(x): return x", "for")
    )
    readings = readings_of({"n.ipynb": broken, "n.py": broken})
    assert readings["n.ipynb"].syntax_error is None
    (target,) = readings["n.ipynb"].targets
    assert (target.name, target.def_line) == ("kept", 6)
    assert readings["n.py"].syntax_error is not None


def test_the_text_of_a_notebook_file_is_its_module(tmp_path: Path) -> None:
    file = tmp_path / "n.ipynb"
    file.write_text(notebook("x = 'ü'", "y = 2"), encoding="utf-8")
    module = parse_notebook(file.read_bytes())
    assert disk_text(str(file)) == module.text
    assert disk_lines(str(file)) == module.text.split("\n")
    assert read_python(str(file)) == module.text.encode()
    file.write_text("{", encoding="utf-8")
    assert disk_text(str(file)) is None
    assert disk_lines(str(file)) == []


def test_what_is_open_in_a_cell_ends_with_it() -> None:
    for half in ("x = (", "s = '''", "y = [1,", "z = 1 + \\", "def (:", "@"):
        module = parse_notebook(
            notebook("import torch", half, "z = 3\nc = torch.compile(f)", "@torch.compile\ndef f(x): pass")
        )
        reading = read_source("n.ipynb", module.text)
        assert [(target.name, target.def_line) for target in reading.targets] == [("c", 7), ("f", 10)], half
        assert reading.syntax_error is not None
        assert [(span.line, span.last_line) for span in reading.broken] == [(4, 4)], half


def test_a_directive_at_the_end_of_a_cell_is_not_above_the_next_cell() -> None:
    module = parse_notebook(
        notebook(
            "def g(x): return x\n# fuselight: g(f32[4])",
            "def f(x): return x",
            "# fuselight: h(1)\ndef h(x): return x",
        )
    )
    reading = read_source("n.ipynb", module.text)
    directives = {target.name: [line.line for line in target.directives] for target in reading.targets}
    assert directives == {"g": [3], "f": [], "h": [7]}

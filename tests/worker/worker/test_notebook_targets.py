"""A target in a cell: the cells above it and its own run, as one module."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fuselight.shared.notebooks.module_text import module_of_notebook
from fuselight.shared.report import Report, data_key
from tests.support.live_worker import LiveWorker, make_request

DEFINITION = (
    "# fuselight: Net()(f32[4, 6])\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layer = nn.Linear(width, 2)\n    def forward(self, x: Missing):\n        print('x')\n"
    "        return self.layer(x)"
)
CELLS = (
    "from __future__ import annotations\nimport asyncio, torch\nfrom torch import nn\n%matplotlib inline",
    "width: Missing = 6\nlost = (",
    "import os\nos.remove(__file__)\nfor _ in range(9):\n    loss.backward()\nfiles = !ls\ncount = len(files)",
    "width = await asyncio.sleep(0, 6)",
    "import einops_missing\nfold = einops_missing.fold\nmean = 1 / 0",
    DEFINITION,
    "raise AssertionError('cells after the target do not run')",
)
NO_MODULE = "No module named 'einops_missing'"
NOT_NEEDED = "the target does not need it"


def notebook(*cells: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": text} for text in cells]})


def analyzed(live: LiveWorker, *cells: str, unsaved: bool = False) -> Report:
    path = live.folder / "n.ipynb"
    path.write_text(notebook("import nothing") if unsaved else notebook(*cells), encoding="utf-8")
    text = module_of_notebook(notebook(*cells))
    request = make_request(path, text, "Net")
    if unsaved:
        request = replace(request, overlays={str(path): text})
    return live.report(request)


@pytest.mark.parametrize("unsaved", [False, True])
def test_a_target_in_a_cell_runs_with_the_cells_above(live: LiveWorker, *, unsaved: bool) -> None:
    report = analyzed(live, *CELLS, unsaved=unsaved)
    assert report.failures == ()
    text = module_of_notebook(notebook(*CELLS))
    path = str(live.folder / "n.ipynb")
    assert report.files == {path: data_key(text.encode())}
    [graph_break] = report.breaks
    line = text.split("\n").index("        print('x')") + 1
    assert (graph_break.stack[0].path, graph_break.stack[0].line) == (path, line)
    assert [(note.kind, note.text, note.location and note.location.line) for note in report.notes] == [
        ("cell_left_out", "left out of the run: this cell does not parse: '(' was never closed", 7),
        ("statement_left_out", "left out of the run: this statement starts a process or changes files", 11),
        ("statement_left_out", "left out of the run: this statement trains", 12),
        ("statement_left_out", "left out of the run: this statement is a command of IPython", 14),
        ("statement_left_out", "left out of the run: this statement needs `files`, which is left out", 15),
        (
            "statement_left_out",
            f"left out of the run: this statement raised ModuleNotFoundError: {NO_MODULE}, and {NOT_NEEDED}",
            19,
        ),
        (
            "statement_left_out",
            "left out of the run: this statement needs `einops_missing`, which is left out",
            20,
        ),
        (
            "statement_left_out",
            f"left out of the run: this statement raised ZeroDivisionError: division by zero, and {NOT_NEEDED}",
            21,
        ),
    ]


def test_an_exception_of_a_cell_is_on_its_line(live: LiveWorker) -> None:
    [failure] = analyzed(live, CELLS[0], "width = 6\nwidth / 0", DEFINITION).failures
    assert (failure.stack[-1].path, failure.stack[-1].line) == (str(live.folder / "n.ipynb"), 8)
    assert "ZeroDivisionError" in failure.message


def test_inputs_that_a_lower_cell_defines_are_refused_with_the_reason(live: LiveWorker) -> None:
    target = (
        "# fuselight: Net()(rows)\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x"
    )
    report = analyzed(live, "import torch", target, "rows = torch.ones(2)")
    (failure,) = report.failures
    assert failure.message == "what runs of the cells up to this one defines no `rows`"


def test_a_damaged_notebook_is_refused_with_the_reason(live: LiveWorker) -> None:
    path = live.folder / "broken.ipynb"
    path.write_text('{"cells": [', encoding="utf-8")
    [failure] = live.report(make_request(path, DEFINITION, "Net")).failures
    assert "its JSON is damaged on line 1" in failure.message

"""Notebooks over the protocol: cells as one document, findings in the cells."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.lsp_client import Client, Json
from tests.support.lsp_notebook import ClientNotebook, write_notebook

pytestmark = pytest.mark.torch

IMPORTS = "import torch\n%matplotlib inline"
LOST = "import os\nos.remove('nothing')\nlost = ("
NET = "# fuselight: f(f32[4])\ndef f(x):\n    y = x.sin()\n    print('x')\n    return y.cos() + helper(x)"
HELPER = "def helper(x):\n    return x * scale"
SCALE = "scale = 2.0\nax.plot([1])"
AFTER = "raise SystemExit"


def ran(client: Client, generation: int = 1) -> None:
    client.idle(generation)
    client.request("fuselight/reportTree", {"uri": None})


def test_findings_of_a_run_are_in_their_cells(client: Client, folder: Path) -> None:
    cells = (IMPORTS, LOST, SCALE, HELPER, NET, AFTER)
    notebook = ClientNotebook(client, write_notebook(folder / "my notes.ipynb", *cells), *cells)
    assert notebook.lenses()[4] == [
        (1, "Run"),
        (1, "Kernels"),
        (1, "Accuracy"),
        (1, "Memory"),
        (1, "Benchmark"),
        (1, "Tune"),
        (1, "inputs from cell 5, line 1"),
    ]
    assert notebook.lenses()[5] == []
    lens = client.request("textDocument/codeLens", {"textDocument": {"uri": notebook.cells[4]}})[0]
    client.command("fuselight.server.askAgain", {"uri": notebook.cells[4]})  # other tests share the server
    client.command("fuselight.server.run", *lens["command"]["arguments"])
    asked = client.notified("fuselight/confirmRun")
    assert "run the cells up to cell 5 of my notes.ipynb and call f" in asked["detail"]
    assert asked["detail"].endswith(" Left out: cell 2 (does not parse); cell 3, line 2 (draws a plot).")
    ran(client)
    assert notebook.diagnostics() == [[], [("FL605", 0)], [], [], [("GB0059", 3)], []]
    place = client.diagnostics(notebook.cells[4])[0]["range"]
    assert place == {"start": {"line": 3, "character": 4}, "end": {"line": 3, "character": 14}}
    hover = at(client, "hover", notebook.cells[4], 3, 6)
    assert "directive on cell 5, line 1" in hover["contents"]["value"]
    assert at(client, "hover", notebook.cells[2], 0, 1) is None
    hints = client.request(
        "textDocument/inlayHint", {"textDocument": {"uri": notebook.cells[4]}, "range": whole(5)}
    )
    assert {hint["position"]["line"] for hint in hints} <= set(range(5))
    under = client.request("fuselight/targetAt", {"uri": notebook.cells[4], "line": 3})
    assert under["target"] == "f"
    # An edit moves what is below it, and cells that move take their findings with them.
    notebook.edit(4, (2, 0), (2, 0), "    z = 1\n")
    client.request("fuselight/reportTree", {"uri": None})
    assert notebook.diagnostics()[4] == [("GB0059", 4)]
    notebook.insert(0, "# %%\n# new\n", kind=2)
    notebook.insert(0, "# Title", kind=1, language="markdown")
    client.request("fuselight/reportTree", {"uri": None})
    assert notebook.diagnostics()[6] == [("GB0059", 4)]
    net = notebook.cells[6]
    notebook.set_language(6, "sql")
    client.request("fuselight/reportTree", {"uri": None})
    assert client.diagnostics(net) == []
    notebook.close()
    client.request("fuselight/reportTree", {"uri": None})
    assert all(client.diagnostics(cell) == [] for cell in notebook.cells)


def test_a_fix_is_an_edit_of_its_cell(client: Client, folder: Path) -> None:
    branch = "# fuselight: g(f32[4])\ndef g(x):\n    if x.sum() > 0:\n        return x + 1\n    return x - 1"
    cells = ("import torch\n!ls", branch)
    notebook = ClientNotebook(client, write_notebook(folder / "n.ipynb", *cells), *cells)
    client.command("fuselight.server.run", {"uri": notebook.cells[1], "target": "g"})
    ran(client)
    assert notebook.diagnostics() == [[], [("GB0170", 2)]]
    action = next(
        action for action in client.actions(notebook.cells[1], 2) if "torch.where" in action["title"]
    )
    assert client.actions(notebook.cells[0], 0) == []
    applied = client.mark()
    client.command("fuselight.server.applyFix", action["data"])
    edit = client.notified("workspace/applyEdit", since=applied)["edit"]
    changed = {change["textDocument"]["uri"]: change for change in edit["documentChanges"]}
    assert list(changed) == [notebook.cells[1]]
    new = applied_to(branch, changed[notebook.cells[1]]["edits"])
    assert new == "# fuselight: g(f32[4])\ndef g(x):\n    return torch.where(x.sum() > 0, x + 1, x - 1)"


def test_a_break_is_predicted_in_its_cell_while_it_is_typed(client: Client, folder: Path) -> None:
    cells = (
        "import torch",
        "lost = (",
        "# fuselight: f(f32[4])\ndef f(x):\n    y = x.sin()\n    return y.cos()",
    )
    notebook = ClientNotebook(client, write_notebook(folder / "n.ipynb", *cells), *cells)
    client.command("fuselight.server.run", {"uri": notebook.cells[2], "target": "f"})
    ran(client)
    assert notebook.diagnostics() == [[], [("FL605", 0)], []]
    notebook.edit(2, (3, 0), (3, 0), "    print(y)\n")

    def is_predicted() -> bool:
        time.sleep(0.05)  # so that the worker has a processor
        notebook.lenses()
        return notebook.diagnostics()[2] == [("GB0059", 3)]

    client.until(is_predicted, "the predicted break")
    [diagnostic] = client.diagnostics(notebook.cells[2])
    assert "Predicted from your edit" in diagnostic["message"]
    notebook.edit(2, (3, 0), (4, 0), "")
    client.until(
        lambda: not notebook.lenses() or notebook.diagnostics()[2] == [], "the end of the prediction"
    )


def test_two_notebooks_and_a_name_that_cells_define_twice(client: Client, folder: Path) -> None:
    same = "# fuselight: f(f32[4])\ndef f(x):\n    print(x)\n    return x"
    first, other = (
        ClientNotebook(
            client, write_notebook(folder / name, "import torch", same, same), "import torch", same, same
        )
        for name in ("a.ipynb", "b.ipynb")
    )
    assert [bool(cell) for cell in first.lenses()] == [False, False, True]
    client.command("fuselight.server.run", {"uri": other.cells[2], "target": "f"})
    ran(client)
    assert other.diagnostics() == [[], [], [("GB0059", 2)]]
    assert first.diagnostics() == [[], [], []]
    # Cells with the same text change places: the module stays the same, and the findings move.
    other.order(0, 2, 1)
    client.request("fuselight/reportTree", {"uri": None})
    assert other.diagnostics() == [[], [], [("GB0059", 2)]]
    assert client.diagnostics(other.cells[1]) == []
    other.delete(2)
    client.request("fuselight/reportTree", {"uri": None})
    assert [bool(cell) for cell in other.lenses()] == [False, True]


def test_a_notebook_without_a_file_says_that_a_run_needs_one(client: Client, folder: Path) -> None:
    notebook = ClientNotebook(
        client, folder / "Untitled-1.ipynb", IMPORTS, NET, uri="untitled:Untitled-1.ipynb?jupyter-notebook"
    )
    assert notebook.lenses() == [[], [(1, "Save this to a file: Fuselight runs files only.")]]
    notebook.set_kind(1, 1)
    assert notebook.lenses() == [[], []]
    notebook.set_kind(1, 2)
    notebook.delete(0)
    assert [len(lenses) for lenses in notebook.lenses()] == [1]
    notebook.close()


def at(client: Client, feature: str, cell: str, line: int, character: int) -> Json:
    position = {"line": line, "character": character}
    answer: Json = client.request(
        f"textDocument/{feature}", {"textDocument": {"uri": cell}, "position": position}
    )
    return answer


def applied_to(text: str, edits: list[Json]) -> str:
    """The text of a cell after edits of whole or partial lines."""
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:row]) for row in range(len(lines))]
    for edit in sorted(edits, key=lambda edit: -edit["range"]["start"]["line"]):
        start, end = (edit["range"][name] for name in ("start", "end"))
        offsets = [starts[at["line"]] + at["character"] for at in (start, end)]
        text = text[: offsets[0]] + edit["newText"] + text[offsets[1] :]
    return text


def whole(lines: int) -> Json:
    return {"start": {"line": 0, "character": 0}, "end": {"line": lines, "character": 0}}

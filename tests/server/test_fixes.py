"""Quick fixes, applied as an editor does, and the next run without the finding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pygls import uris

from tests.server.programs import PRINT, breaks, codes, run_in, write

if TYPE_CHECKING:
    from tests.server.conftest import Start
    from tests.support.lsp_client import Client, Json

pytestmark = pytest.mark.torch

TWO_SIZES = """\
import torch


@torch.compile
def f(x):
    return x * 2


if __name__ == "__main__":
    for rows in (4, 7):
        x = torch.ones(rows, 8)
        f(x)
"""

NO_INPUTS = """\
import torch


@torch.compile
def f(x: torch.Tensor):
    print(x)
    return x * 2
"""


def fix(client: Client, uri: str, line: int, title: str) -> Json:
    """The only quick fix at `line` whose title starts with `title`."""
    actions = client.actions(uri, line)
    (action,) = [action for action in actions if action["title"].startswith(title)]
    return action


def test_marking_a_dimension_dynamic_ends_the_recompilation(client: Client, folder: Path) -> None:
    uri = run_in(client, folder, TWO_SIZES)
    client.idle(1)
    (diagnostic,) = [diagnostic for diagnostic in client.diagnostics(uri) if diagnostic["code"] == "FL201"]
    action = fix(client, uri, diagnostic["range"]["start"]["line"], "Mark dimension 0 of x as dynamic")
    assert action["isPreferred"]
    client.apply(action["edit"])
    client.save(uri)
    client.idle(2)
    assert "FL201" not in codes(client, uri), client.diagnostics(uri)
    assert {"1 graph, no breaks", "line 6: recompilation gone"} <= set(client.lenses(uri))
    (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    inputs = target["children"][0]
    assert (inputs["label"], inputs["description"]) == ("Inputs", "inputs from the __main__ block")


def test_an_ignored_finding_disappears_and_an_unused_ignore_can_be_removed(
    client: Client, folder: Path
) -> None:
    uri = run_in(client, folder)
    client.idle(1)
    (graph_break,) = breaks(client, uri)
    client.apply(fix(client, uri, PRINT, f"Ignore {graph_break['code']} on this line")["edit"])
    client.save(uri)
    client.idle(2)
    assert codes(client, uri) == []

    client.edit(uri, (PRINT, 4), (PRINT, 18), "y = x.sum()")
    assert "(before your edit)" in str(client.lenses(uri)[:2])
    assert codes(client, uri) == [], "that it unused ignore comment is known after the next run, not before"
    client.save(uri)
    client.idle(3)
    assert codes(client, uri) == ["FL503"]
    client.apply(fix(client, uri, PRINT, "Remove this ignore comment")["edit"])
    assert client.actions(uri, PRINT) == []
    assert codes(client, uri) == []


def test_inserted_inputs_can_be_run(client: Client, folder: Path) -> None:
    uri = client.open(write(folder, NO_INPUTS))
    client.lenses(uri)
    assert codes(client, uri) == ["FL502"]
    client.apply(fix(client, uri, 4, "Insert a line with inputs for f")["edit"])
    assert client.lenses(uri) == [
        "Run",
        "Kernels",
        "Accuracy",
        "Memory",
        "Benchmark",
        "Tune",
        "inputs from line 4",
    ]
    client.save(uri)
    client.idle(1)
    assert len(breaks(client, uri)) == 1, client.diagnostics(uri)
    assert "FL502" not in codes(client, uri)


def test_the_page_of_a_finding_is_opened_by_our_extension_or_by_the_server(
    connect: Start, tmp_path: Path
) -> None:
    ours: Json = {"clientCommands": ["fuselight.openPage"]}
    for options, opened in (
        (ours, ["fuselight.openPage"]),
        (
            {"clientCommands": ["other"]},
            ["fuselight.server.openPage"],
        ),
    ):
        client = connect()
        client.start(tmp_path, options=options)
        uri = client.open(write(tmp_path, NO_INPUTS))
        client.lenses(uri)
        actions = [action for action in client.actions(uri, 4) if action["title"] == "Open the page of FL502"]
        assert [action["command"]["command"] for action in actions] == opened
        for action in actions:
            (given,) = action["command"]["arguments"]
            page = given["address"] if isinstance(given, dict) else given
            assert Path(uris.to_fs_path(page) or "").read_text().startswith("# FL502")


def test_no_fix_is_offered_if_none_is_possible(client: Client, folder: Path) -> None:
    text = TWO_SIZES.replace("        f(x)", "        f(torch.ones(rows, 8))")
    uri = run_in(client, folder, text)
    client.idle(1)
    (diagnostic,) = [diagnostic for diagnostic in client.diagnostics(uri) if diagnostic["code"] == "FL201"]
    titles = [action["title"] for action in client.actions(uri, diagnostic["range"]["start"]["line"])]
    assert not [title for title in titles if title.startswith("Mark")], "the argument there has no name"
    assert "Ignore FL201 on this line" in titles


USED_BY_MAIN = """\
import torch


class Net(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.up = torch.nn.Linear(size, size)

    def forward(self, x):
        print("once")
        return self.up(x)


if __name__ == "__main__":
    model = torch.compile(Net(8))
    model(torch.ones(4, 8))
"""
CLASS = 3
"""0-based line of `class Net`."""


def test_a_class_that_a_run_of_main_captured_has_a_summary_and_its_call_becomes_a_directive(
    client: Client, folder: Path
) -> None:
    uri = client.open(write(folder, USED_BY_MAIN))
    client.command("fuselight.server.run", {"uri": uri, "target": "__main__"})
    client.idle(1)
    answer = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    titles = [value["command"]["title"] for value in answer if value["range"]["start"]["line"] == CLASS]
    assert "1 graph, 1 break" in titles
    client.apply(fix(client, uri, CLASS, "Write the captured call of Net as a directive")["edit"])
    client.command("fuselight.server.run", {"uri": uri, "target": "Net"})
    client.idle(2)
    targets = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    described = [node["description"] for target in targets for node in target["children"]]
    assert f"inputs from line {CLASS + 1}, training" in described, "as the program called it"
    assert len(breaks(client, uri)) == 1

"""The picture of graphs over the protocol: boxes whose locations move with edits, targets to choose from."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

import pytest

from tests.server.programs import write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lsp_client import Client, Json

pytestmark = pytest.mark.torch

SOURCE = """\
import torch


# fuselight: f(f32[4])
# fuselight: f(f32[7])
@torch.compile
def f(x):
    y = x.sin()
    print(y.shape)
    return y.cos() + 1


# fuselight: g(f32[4])
def g(x):
    return x * 2
"""
PRINT, COS = 8, 9
"""0-based lines."""


def graphs(client: Client, uri: str, target: str | None) -> Json:
    request: Json = client.request("fuselight/graphs", {"uri": uri, "target": target})
    return request


def run(client: Client, folder: Path) -> str:
    uri = client.open(write(folder, SOURCE))
    client.command("fuselight.server.run", {"uri": uri, "target": None})
    client.idle(1)
    return uri


def test_the_picture_of_a_target(client: Client, folder: Path) -> None:
    uri = run(client, folder)
    entries = graphs(client, uri, "f")
    assert (entries["found"], entries["title"]) == (True, "f")
    assert entries["description"].startswith("2 graphs, 1 break, 2 recompilations")
    boxes = {box["id"]: box for box in entries["boxes"]}
    shown_boxes = [(box["kind"], box["name"], box["place"], box["again"]) for box in entries["boxes"]]
    assert shown_boxes == [
        ("target", "", "model.py:7", False),
        ("graph", "0/0", "model.py:7", False),
        ("break", "GB0059", "model.py:9", False),
        ("graph", "1/0", "model.py:9", False),
        ("graph", "0/1", "model.py:7", True),
        ("graph", "1/1", "model.py:9", True),
    ]
    drawn = [
        (boxes[arrow["start"]]["name"], arrow["kind"], boxes[arrow["end"]]["name"])
        for arrow in entries["arrows"]
    ]
    assert drawn == [
        ("", "calls", "0/0"),
        ("0/0", "breaks", "GB0059"),
        ("GB0059", "goes on", "1/0"),
        ("0/0", "compiled again", "0/1"),
        ("0/1", "breaks", "GB0059"),
        ("1/0", "compiled again", "1/1"),
    ]
    broke = entries["boxes"][2]
    assert (broke["uri"], broke["range"]["start"]) == (uri, {"line": PRINT, "character": 4})
    assert "since x.size(0) was 4, now 7" in entries["boxes"][4]["facts"]

    client.edit(uri, (0, 0), (0, 0), "# a line\n")
    moved = graphs(client, uri, "f")
    assert moved["description"].endswith("(before your edit)")
    assert [box["place"] for box in moved["boxes"]][:4] == [f"model.py:{line}" for line in (8, 8, 10, 10)]
    assert moved["boxes"][3]["facts"][0] == "from line 10 on"
    client.edit(uri, (PRINT + 1, 0), (COS + 1, 0), "")
    assert graphs(client, uri, "f")["boxes"][2]["uri"] is None, "the line of the break was deleted"


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton")
def test_kernels_are_listed_in_their_graphs(client: Client, folder: Path) -> None:
    uri = client.open(write(folder, SOURCE))
    client.command("fuselight.server.kernels", {"uri": uri, "target": "f"})
    client.idle(1)
    alone = graphs(client, uri, "f")
    assert " on h200" in alone["description"]
    client.command("fuselight.server.run", {"uri": uri, "target": "f"})
    client.idle(2)
    both = graphs(client, uri, "f")
    for entries in (alone, both):
        facts = [box["facts"][-1] for box in entries["boxes"] if box["kind"] == "graph"]
        assert len(facts) == 4
        assert all(re.fullmatch(r"inference: 1 kernel, ~[\d.]+ µs", fact) for fact in facts), facts
    client.edit(uri, (0, 0), (0, 0), "# a line\n")
    stale = graphs(client, uri, "f")["boxes"][1]["facts"][-1]
    assert stale.endswith(" µs (before your edit)")


def test_targets_to_choose_from(client: Client, folder: Path) -> None:
    uri = run(client, folder)
    entries = graphs(client, uri, None)
    assert entries["targets"] == [{"uri": uri, "target": name, "label": name} for name in ("f", "g")]
    assert not entries["found"], "there are two, and none is named"
    assert graphs(client, uri, "g")["title"] == "g"
    nodes = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    assert [node["target"] for node in nodes] == [{"uri": uri, "target": name} for name in ("f", "g")]


def test_a_target_that_did_not_run_reports_the_next_step(client: Client, folder: Path) -> None:
    uri = client.open(write(folder, SOURCE))
    for target, name in (("f", "f"), ("__main__", "__main__"), (None, "any target")):
        entries = graphs(client, uri, target)
        assert (entries["found"], entries["boxes"], entries["arrows"]) == (False, [], [])
        assert entries["message"].startswith(f"No graphs of {name} in model.py are available")
        assert "press Run" in entries["message"]

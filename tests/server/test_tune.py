"""A search over the protocol: a real one on the CPU, end to end, and one that is canceled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.conftest import settings
from tests.server.programs import WAITING, let_go, write
from tests.server.test_kernels import by_line, hover

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Start
    from tests.support.lsp_client import Client, Json

pytestmark = pytest.mark.torch

SOURCE = """\
import torch


# fuselight: f(f32[64, 64])
@torch.compile
def f(x):
    return (x.exp() + 1).sum(1)
"""
TARGET, BODY = 5, 6
"""0-based lines."""
CLIENT = {"clientCommands": ["fuselight.showDetails", "fuselight.tune", "fuselight.showTuning"]}
QUICK = {"budget": 3, "candidates": ["default+max_fusion_size=32"], "fixes": False}
"""Time for `default` alone, a decision as any other: candidates race in tests/worker and in the visual test."""


BUDGETS = (3, 10, 40, 200)
"""Seconds: the first that suffices for `default` on this machine is the budget of the search."""


def page_of(client: Client, uri: str, **more: Any) -> Json:
    request: Json = client.request("fuselight/tuned", {"uri": uri, "target": "f", **more})
    return request


def set_budget(client: Client, seconds: int) -> None:
    client.settings = settings(tune=QUICK | {"budget": seconds}, run="manual")
    since = client.mark()
    client.notify("workspace/didChangeConfiguration", {"settings": {}})
    client.wait(
        lambda message: message.get("method") == "workspace/configuration", "the question", since=since
    )
    client.request("fuselight/reportTree", {"uri": None})  # the server has read the answer before


def searched(client: Client, uri: str, searches: int) -> Json:
    """The page after a search, the number `searches` of this client."""
    since = client.mark()
    started = client.command("fuselight.server.tune", {"uri": uri, "line": BODY})
    assert started == {"started": True, "target": "f", "message": "f"}
    client.notified("fuselight/status", lambda status: status["running"] == ["f (tuning)"], since=since)
    client.notified(
        "$/progress",
        lambda params: str(params["value"].get("message")).startswith("Tuning f: "),
        since=since,
    )
    client.idle(searches, deadline=280)
    return page_of(client, uri)


def test_a_search_decides_and_its_decision_is_written(connect: Start, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    client = connect(settings=settings(tune=QUICK, run="manual"))
    client.start(tmp_path, options=CLIENT)
    uri = client.open(write(tmp_path, SOURCE))
    client.until(lambda: by_line(client, uri) != {}, "lenses")
    assert by_line(client, uri) == {
        TARGET: ["Run", "Kernels", "Accuracy", "Memory", "Benchmark", "Tune", "inputs from line 4"]
    }
    assert page_of(client, uri)["message"] == "Press Tune above f to find its fastest configuration."
    for searches, budget in enumerate(BUDGETS, 1):
        set_budget(client, budget)
        page = searched(client, uri, searches)
        rows = {candidate["name"]: candidate for candidate in page["candidates"]}
        if rows.get("default", {}).get("us"):
            break
    assert (page["found"], page["running"], page["stale"], page["partial"]) == (True, False, False, False), (
        page
    )
    assert rows["eager"]["us"] > 0
    assert rows["default"]["us"] > 0
    assert rows["default"]["outcome"] == "baseline"
    assert "default+max_fusion_size=32" in rows, "named by the settings, whatever its ceiling"
    assert {knob["name"] for knob in page["knobs"]} >= {"freezing", "cuda_graphs"}
    decision = page["result"]
    assert decision["gain"] >= 1
    assert decision["us"] <= decision["default_us"] * 1.5
    kept = json.loads((tmp_path / "fuselight-tuned.json").read_text())
    (result,) = kept["results"]
    assert (result["file"], result["target"]) == ("model.py", "f")
    assert result.get("configuration", "default") == decision["configuration"]
    assert page["file_shown"] == "fuselight-tuned.json"
    (shown,) = [text for text in by_line(client, uri)[TARGET] if text.startswith("Tuned: ")]
    assert len(shown) <= 60
    assert "tuning: " in hover(client, uri, TARGET)
    since = client.mark()
    client.edit(uri, (BODY, 0), (BODY, 0), "    x = x.contiguous()\n")
    client.notified("fuselight/tunedChanged", lambda params: params["uri"] == uri, since=since)
    assert page_of(client, uri)["stale"]
    client.command("fuselight.server.clearCaches")
    assert not page_of(client, uri)["found"]


def test_a_canceled_search_ends_and_bad_requests_are_answered(connect: Start, tmp_path: Path) -> None:
    client = connect(settings=settings(tune=QUICK, run="manual"))
    client.start(tmp_path, options=CLIENT)
    path = write(tmp_path, WAITING)
    uri = client.open(path)
    assert client.command("fuselight.server.tune", {"uri": uri, "target": "f"})["started"]
    client.notified("fuselight/status", lambda status: status["running"] == ["f (tuning)"])
    assert page_of(client, uri)["running"]
    client.command("fuselight.server.cancelTune", {"uri": uri, "target": "f"})
    client.idle(1)
    page = page_of(client, uri)
    assert (page["running"], page["found"]) == (False, False)
    assert not (tmp_path / "fuselight-tuned.json").exists(), "nothing was confirmed"
    let_go(path)
    assert client.command("fuselight.server.tune") == {
        "started": False, "target": None, "message": "Fuselight runs files only: save this to a file first.",
    }  # fmt: skip
    nowhere = client.command("fuselight.server.tune", {"uri": uri, "target": "g"})
    assert "press Tune above one" in nowhere["message"]
    assert client.command("fuselight.server.cancelTune", {"uri": uri, "target": 7}) is None

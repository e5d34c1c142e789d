"""Fixes of a program that runs only when the user asks: a choice verifies them, and the editor says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.programs import write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lsp_client import Client

pytestmark = pytest.mark.torch

SOURCE = """\
import torch


@torch.compile
def step(x):
    if x.sum() > 0:
        x = x * 2
    x = x.cos()
    print("after", x)
    return x.tan()


if __name__ == "__main__":
    step(torch.ones(4))
"""
BRANCH = 5
"""0-based."""
ON_REQUEST = "the program runs only when you ask"


@pytest.mark.parametrize("answer", ["command", "run"])
def test_the_menu_and_the_lens_say_when_fixes_are_verified(client: Client, folder: Path, answer: str) -> None:
    client.confirm = answer
    uri = client.open(write(folder, SOURCE, f"{answer}.py"))
    client.command("fuselight.server.run", {"uri": uri, "target": "step"})
    client.idle(1)
    titles = [action["title"] for action in client.actions(uri, BRANCH)]
    entries = [title for title in titles if title.startswith("Verify and ")]
    lenses = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    tooltips = [
        lens["command"].get("tooltip", "") for lens in lenses if "Fix line" in lens["command"]["title"]
    ]

    if answer == "command":
        assert entries
        assert all(ON_REQUEST in title for title in entries)
        assert any(ON_REQUEST in tooltip for tooltip in tooltips)
    else:
        assert tooltips
        assert not [text for text in (*titles, *tooltips) if ON_REQUEST in text]

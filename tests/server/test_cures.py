"""Cures of recompilations in a real server: tried after the finding is shown, and shown with what came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.programs import run_in

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lsp_client import Client

pytestmark = pytest.mark.torch

WINDOW = """\
import torch


# fuselight: f(f32[4, 8], 2)
# fuselight: f(f32[4, 8], 3)
# fuselight: f(f32[4, 8], 4)
@torch.compile
def f(x, window):
    return x * (torch.arange(8) < window)
"""
DROPOUT = """\
import torch


# fuselight: f(f32[4, 8], 0.5)
# fuselight: f(f32[4, 8], 0.25)
@torch.compile
def f(x, p):
    return torch.nn.functional.dropout(x, p)
"""


def titles(client: Client, uri: str) -> list[str]:
    return [item["message"].splitlines()[0] for item in client.diagnostics(uri)]


def hover_of(client: Client, uri: str, word: str, text: str) -> str:
    line = next(number for number, line in enumerate(text.splitlines()) if word in line and "return" in line)
    position = {"line": line, "character": text.splitlines()[line].index(word)}
    return str(client.request("textDocument/hover", {"textDocument": {"uri": uri}, "position": position}))


def test_a_cure_is_tried_after_the_finding_is_shown(client: Client, folder: Path) -> None:
    uri = run_in(client, folder, WINDOW)
    client.until(lambda: "recompiled: window was 2, now 3" in titles(client, uri), "the finding")
    cured = "pass `window` as a tensor (tried: 2 → 1 compiles)"
    client.until(lambda: cured in hover_of(client, uri, "window", WINDOW), "the trial of a cure")


def test_a_change_that_does_not_cure_is_not_shown(client: Client, folder: Path) -> None:
    uri = run_in(client, folder, DROPOUT)
    client.until(lambda: "recompiled: p was 0.5, now 0.25" in titles(client, uri), "the finding")

    def is_tried() -> bool:
        hover = hover_of(client, uri, "p)", DROPOUT)
        return "Expect one" in hover and "not tried yet" not in hover

    client.until(is_tried, "the trial of a cure")
    assert "(tried" not in hover_of(client, uri, "p)", DROPOUT)

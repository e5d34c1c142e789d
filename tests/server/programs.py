"""Small programs for the server, and the questions of the tests about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lsp_client import Client, Json

SOURCE = """\
import torch


# fuselight: f(f32[4, 8])
@torch.compile
def f(x):
    print(x.sum())
    return x * 2
"""
PRINT = 6
"""0-based line of the graph break."""

WAITING = """\
import os
import time

import torch

while not os.path.exists(__file__ + ".go"):
    time.sleep(0.01)


# fuselight: f(f32[4, 8])
@torch.compile
def f(x):
    print(x.sum())
    return x * 2
"""


def write(folder: Path, text: str = SOURCE, name: str = "model.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def saved(client: Client, folder: Path, text: str = SOURCE) -> str:
    """Start in `folder`, open a program in it and save that; returns its URI."""
    client.start(folder)
    return run_in(client, folder, text)


def run_in(client: Client, folder: Path, text: str = SOURCE) -> str:
    """Open a program in `folder` and save it, for a server that has begun; returns its URI."""
    uri = client.open(write(folder, text))
    client.save(uri)
    return uri


def caught(client: Client, folder: Path) -> tuple[Path, str]:
    """Start a run in `folder` that waits in the user's file until `let_go`; returns the file and its URI."""
    client.start(folder)
    return caught_in(client, folder)


def caught_in(client: Client, folder: Path) -> tuple[Path, str]:
    """The same with a server that has begun."""
    uri = run_in(client, folder, WAITING)
    wait_for_call(client)
    return folder / "model.py", uri


def let_go(path: Path) -> None:
    path.with_name(f"{path.name}.go").touch()


def breaks(client: Client, uri: str) -> list[Json]:
    return [diagnostic for diagnostic in client.diagnostics(uri) if str(diagnostic["code"]).startswith("GB")]


def codes(client: Client, uri: str) -> list[Any]:
    return [diagnostic["code"] for diagnostic in client.diagnostics(uri)]


def wait_for_call(client: Client, since: int = 0) -> None:
    """Wait until a run is in the worker and has come as far as the user's file."""
    client.notified(
        "fuselight/status",
        lambda status: status["state"] == "running" and status["running"] != [],
        since=since,
    )

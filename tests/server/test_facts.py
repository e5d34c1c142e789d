"""Facts of the last run end to end: a save brings hovers, inlay hints and faded lines, which move with edits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.programs import run_in
from tests.support.lsp_client import Client, Json

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns before Python 3.11"),
]

MODEL = """\
import torch


# fuselight: f(f32[4, 8], False)
@torch.compile
def f(x, train):
    rows = x.shape[0]
    y = torch.relu(x) * rows
    if train:
        y = y + 1
    return y.sum(0)
"""


def hints(client: Client, uri: str) -> list[tuple[int, str]]:
    """The 0-based line and the label of each inlay hint."""
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    request = client.request("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": place})
    return [(value["position"]["line"], value["label"]) for value in request or ()]


def faded(client: Client, uri: str) -> list[Json]:
    return [diagnostic for diagnostic in client.diagnostics(uri) if diagnostic.get("tags") == [1]]


def test_a_run_brings_values_to_expressions_and_an_edit_moves_them(
    client: Client, folder: Path, configure: Callable[..., None]
) -> None:
    configure(fadeUntraced=True)
    assert client.capabilities["inlayHintProvider"]
    uri = run_in(client, folder, MODEL)
    client.idle(1)
    client.wait(
        lambda message: message.get("method") == "workspace/inlayHint/refresh", "a refresh of the hints"
    )
    assert hints(client, uri) == [(6, ": 4"), (7, ": f32[4, 8]")]
    (line,) = faded(client, uri)
    assert line["range"]["start"]["line"] == 9
    assert "code" not in line
    assert line["message"] == "not traced with these inputs: directive on line 4: f(f32[4, 8], False)"
    at: Json = {"textDocument": {"uri": uri}, "position": {"line": 7, "character": 10}}
    hover = client.request("textDocument/hover", at)
    assert hover["contents"]["value"].startswith("`torch.relu(x)`: `f32[4, 8]` (cpu)")
    assert hover["range"]["start"] == {"line": 7, "character": 8}
    client.edit(uri, (1, 0), (1, 0), "import math\n")
    assert hints(client, uri) == [(7, ": 4"), (8, ": f32[4, 8]")]
    assert [entry["range"]["start"]["line"] for entry in faded(client, uri)] == [10]
    at["position"]["line"] = 8
    assert "before your last edit" in client.request("textDocument/hover", at)["contents"]["value"]
    since = client.mark()
    configure(inlayHints="all")
    client.wait(
        lambda message: message.get("method") == "workspace/inlayHint/refresh",
        "a refresh of the hints",
        since=since,
    )
    assert hints(client, uri) == [
        (7, ": 4"),
        (8, ": f32[4, 8]"),
        (8, "f32[4, 8]"),
        (11, "f32[8]"),
    ]
    client.until(lambda: not faded(client, uri), "the end of faded lines")

"""An estimate of memory over the protocol: from the command to lens, inlay hint, heat, hover and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.conftest import settings
from tests.server.programs import write
from tests.server.test_kernels import by_line, hover

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Start

pytestmark = pytest.mark.torch

SOURCE = """\
import torch


# fuselight: grow(f32[1000, 1000], train=True)
def grow(x):
    y = x @ x
    return y.sin()
"""
TARGET, KEPT = 4, 5
"""0-based lines."""


def test_an_estimate_is_on_its_lines(connect: Start, tmp_path: Path) -> None:
    client = connect(settings={**settings(run="manual"), "device": "t4"})
    client.start(tmp_path)
    uri = client.open(write(tmp_path, SOURCE))
    client.until(lambda: "Memory" in by_line(client, uri).get(TARGET, []), "the lens")
    since = client.mark()
    client.command("fuselight.server.memory", {"uri": uri, "target": "grow"})
    client.notified("fuselight/status", lambda status: status["running"] == ["grow (memory)"], since=since)
    client.idle(1)
    verdict = by_line(client, uri)[TARGET][0]
    assert verdict.startswith("peak ")
    assert verdict.endswith("(eager)")
    assert " MB of 16 GB (compiled)" in verdict
    hints = client.request(
        "textDocument/inlayHint",
        {
            "textDocument": {"uri": uri},
            "range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}},
        },
    )
    assert [(hint["position"], hint["label"]) for hint in hints] == [
        ({"line": KEPT, "character": len("    y = x @ x")}, "saves 4 MB")
    ]
    assert client.request("fuselight/kernelLines", {"uri": uri}) == {"lines": [{"line": KEPT, "level": 3}]}
    assert "`grow` memory: a training step on Tesla T4" in hover(client, uri, TARGET)
    (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    (node,) = [child for child in target["children"] if child["contextValue"] == "memory"]
    assert [child["contextValue"] for child in node["children"]] == ["estimatedCall", "note"]
    assert client.command("fuselight.server.cancelMemory") is None

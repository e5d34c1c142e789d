"""The remedies of a forecast, tried on demand in a real server with a real worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.programs import run_in

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lsp_client import Client

pytestmark = pytest.mark.torch

COMMAND = "fuselight.server.verifyForecast"
SOURCE = """\
import torch


# fuselight: f(u8[], 2)
@torch.compile
def f(x, n):
    return x * n
"""
NAME = {"line": 5, "character": 4}


def test_a_forecast_is_verified_on_demand_and_shown_in_the_hover_and_the_report(
    client: Client, folder: Path
) -> None:
    uri = run_in(client, folder, SOURCE)
    client.idle(1)
    document = {"textDocument": {"uri": uri}, "position": NAME}

    def hover() -> str:
        return str(client.request("textDocument/hover", document)["contents"]["value"]).replace("\\", "")

    assert "n changes" in hover()
    assert "advice: Pass" in hover()
    assert "verified:" not in hover()

    client.command(COMMAND, {"uri": uri, "target": "f"})
    shown = hover()
    assert "verified: Compile with dynamic=True (1 → 0 compiles, same results)" in shown
    assert "Verify Forecast" not in shown
    (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    (group,) = [child for child in target["children"] if child["label"].startswith("Recompiles if")]
    change = next(child for child in group["children"] if child["label"].startswith("n changes"))
    assert next(child["label"].partition(":")[0] for child in change["children"]) == "verified"
    assert "verified: Compile with dynamic=True" in change["tooltip"]

    client.edit(uri, (6, 11), (6, 16), "x + n")
    client.command(COMMAND, {"uri": uri, "target": "f"})
    assert "recompiles if" not in str(client.request("textDocument/hover", document)), "of another text"

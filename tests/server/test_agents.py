"""A coding agent that is attached to the server of an editor: the official client, the bridge, a real worker."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.support.lsp_client import ROOT, Client, Json

pytestmark = pytest.mark.torch

SAVED = """\
import torch

# fuselight: step(f32[4])
@torch.compile
def step(x):
    return x * 2
"""
BREAK = "    print(x.sum())\n"


def agent(folder: Path, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The answers to calls of tools, by a client that starts the bridge in a folder."""
    environment = {"PYTHONPATH": f"{ROOT / 'compiler'}:{ROOT / 'server'}"}
    bridge = StdioServerParameters(
        command=sys.executable,
        args=["-m", "fuselight_server", "mcp", "--attach"],
        cwd=folder,
        env=environment,
    )

    async def run() -> list[Any]:
        async with stdio_client(bridge) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            return [await session.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(run())


def questions(client: Client) -> list[Json]:
    return [
        message["params"] for message in client.messages if message.get("method") == "fuselight/confirmRun"
    ]


def test_an_agent_sees_unsaved_text_once_the_user_agrees(client: Client, folder: Path) -> None:
    path = folder / "model.py"
    path.write_text(SAVED)
    uri = client.open(path)
    client.edit(uri, (5, 0), (5, 0), BREAK)
    assert client.request("fuselight/agentAddress", {"folder": None})["address"]

    client.confirm = "later"
    (refused,) = agent(folder, ("check", {"paths": [str(path)]}))
    assert "has not allowed agents" in refused.content[0].text

    client.confirm = "run"
    first, second = agent(folder, ("check", {"paths": [str(path)]}), ("check", {"paths": [str(path)]}))
    assert [finding["line"] for finding in first.structured_content["findings"]] == [6]
    assert second.structured_content["findings"] == first.structured_content["findings"]
    asked = [question for question in questions(client) if "coding agent" in question["message"]]
    assert len(asked) == 2  # the answer `later` asks again, `run` does not
    assert asked[0]["program"].endswith("/#agents")
    assert path.read_text() == SAVED


def test_agents_cannot_attach_once_they_are_turned_off(client: Client) -> None:
    kept = client.settings
    client.settings = {**kept, "agents": False}
    try:
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        client.until(
            lambda: client.request("fuselight/agentAddress", {"folder": None})["address"] == "",
            "the end of agents",
        )
    finally:
        client.settings = kept
        client.notify("workspace/didChangeConfiguration", {"settings": None})
    client.until(
        lambda: client.request("fuselight/agentAddress", {"folder": None})["address"] != "", "agents again"
    )

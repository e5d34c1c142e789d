"""`fuselight mcp` with real torch, by the official client in both revisions; how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from fuselight_server.agents.catalog import TOOLS
from fuselight_server.base.unified_diff import apply_diff
from tests.support.agent_cure import cure, finished
from tests.support.live_worker import wait_gone
from tests.support.prepared import prepared_interpreter

mcp = pytest.importorskip("mcp")
pytestmark = pytest.mark.torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt2_breaks.py"
MODEL = """\
import torch


# fuselight: f(f32[4])
@torch.compile
def f(x):
    if x.sum() > 0:
        x = x * 2
    return x
"""
ENDS_ITS_WORKER = """\
import os, signal

os.kill(os.getppid(), signal.SIGKILL)
"""
HANGING = """\
import os, pathlib, time
import torch

pathlib.Path("pid").write_text(str(os.getpid()))
time.sleep(600)


# fuselight: f(f32[4])
@torch.compile
def f(x):
    return x + 1
"""
PATIENCE = 120.0
Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


def command(*options: str, python: str | None = None) -> list[str]:
    python = python or prepared_interpreter()
    return [sys.executable, "-m", "fuselight_server", "mcp", "--python", python, *options]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def converse(
    folder: Path,
    script: Callable[[Any, Call], Awaitable[None]],
    *options: str,
    python: str | None = None,
    **client: Any,
) -> None:
    """Run a script with the official client, and with a function that calls a tool which succeeds."""

    async def run() -> None:
        program, *arguments = command(*options, python=python)
        server = mcp.StdioServerParameters(command=program, args=arguments, cwd=folder, env=environment())
        async with mcp.Client(server, read_timeout_seconds=PATIENCE, **client) as connected:

            async def call(tool: str, given: dict[str, Any]) -> dict[str, Any]:
                result = await connected.call_tool(tool, given)
                assert not result.is_error, result.content[0].text
                data: dict[str, Any] = result.structured_content
                return data

            await script(connected, call)

    asyncio.run(run())


@pytest.mark.timeout(900)
def test_the_example_of_the_readme_is_cured_through_the_tools(tmp_path: Path) -> None:
    """By a client without a handshake, whose user is asked once. With one layer less, which has the same findings."""
    text = EXAMPLE.read_text(encoding="utf-8")
    assert text.count("layers=2") == 1
    (tmp_path / EXAMPLE.name).write_text(text.replace("layers=2", "layers=1"), encoding="utf-8")
    questions: list[str] = []

    async def allow(_context: Any, params: Any) -> Any:
        questions.append(params.message)
        return mcp.types.ElicitResult(action="accept", content={"allow": True})

    async def script(client: Any, call: Call) -> None:
        assert client.protocol_version == "2026-07-28"
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == [tool.name for tool in TOOLS]
        before, between, after = await cure(call, tmp_path)
        assert sorted(before) == ["FL201", "FL201", "GB0059", "GB0124"]
        assert between == ["FL201"]
        assert after == []

    converse(tmp_path, script, elicitation_callback=allow)
    assert len(questions) == 1
    assert str(tmp_path) in questions[0]


def workers() -> list[psutil.Process]:
    """The workers of the servers that this process has started; not what they fork."""
    servers = [child for child in psutil.Process().children() if "mcp" in child.cmdline()]
    return [child for server in servers for child in server.children()]


@pytest.mark.corpora  # the example of the README is cured by the same calls
def test_a_client_with_a_handshake_gets_a_verified_fix_by_one_worker(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    shown: list[str] = []
    ended: list[int] = []

    async def progress(_progress: float, _total: float | None, message: str | None) -> None:
        shown.append(message or "")

    async def script(client: Any, call: Call) -> None:
        assert client.protocol_version == "2025-11-25"
        result = await client.call_tool("check", {"paths": ["model.py"]}, progress_callback=progress)
        checked = result.structured_content
        if checked["state"] != "done":
            checked = await finished(call, "result", {"handle": checked["handle"]})
        assert [finding["code"] for finding in checked["findings"]] == ["GB0170"]
        assert any("model.py: f" in text for text in shown)
        (worker,) = workers()

        fixes = await finished(call, "fix_candidates", {"paths": ["model.py"], "wait_seconds": 0})
        assert (fixes["verified"], fixes["fixes"][0]["title"]) == (1, "Use torch.where")
        (text,) = apply_diff(fixes["diff"], lambda _name: path.read_text()).values()
        path.write_text(text)
        forecast = await finished(call, "forecast", {"paths": ["model.py"]})
        (target,) = forecast["targets"]
        assert target["has_forecast"]
        assert (target["graphs"], target["breaks"]) == (1, 0), "it is of the file as it is now"
        assert workers() == [worker], "all calls use one worker"

        path.write_text(ENDS_ITS_WORKER + MODEL)
        failed = await finished(call, "check", {"paths": ["model.py"]})
        assert [finding["code"] for finding in failed["findings"]] == ["FL407"]
        assert not worker.is_running()
        path.write_text(MODEL)
        checked = await finished(call, "check", {"paths": ["model.py"], "uses_earlier_checks": False})
        assert [finding["code"] for finding in checked["findings"]] == ["GB0170"]
        (other,) = workers()
        ended.append(other.pid)

        wrong = await client.call_tool("check", {"path": "model.py"})
        assert wrong.is_error
        assert "did you mean paths?" in wrong.content[0].text
        with pytest.raises(mcp.MCPError, match="did you mean check"):
            await client.call_tool("chek", {})

    # A worker that has to import torch first: the progress of one that is ready may never show.
    converse(tmp_path, script, "--allow-run", python=sys.executable, mode="legacy")
    wait_gone(*ended)


@pytest.mark.parametrize("end", ["closed stdin", signal.SIGTERM])
def test_its_end_ends_the_worker(tmp_path: Path, end: str | signal.Signals) -> None:
    (tmp_path / "hanging.py").write_text(HANGING)
    process = subprocess.Popen(
        command("--allow-run"), cwd=tmp_path, env=environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    arguments = {"paths": ["hanging.py"], "wait_seconds": 0}
    request = {"id": 1, "method": "tools/call", "params": {"name": "check", "arguments": arguments}}
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
    process.stdin.flush()
    note = tmp_path / "pid"
    until = time.monotonic() + PATIENCE
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < until
        time.sleep(0.05)
    if isinstance(end, signal.Signals):
        process.send_signal(end)
    out, err = process.communicate(timeout=PATIENCE)
    answer = json.loads(out)
    assert answer["result"]["structuredContent"]["state"] in {"queued", "running"}
    assert process.returncode == (0 if end == "closed stdin" else 130)
    assert "Traceback" not in err
    wait_gone(int(note.read_text()))

"""The address of a language server, its listener, and the bridge to it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.agents.attachment import listener as listening
from fuselight_server.agents.attachment.addresses import connect_for, connect_to
from fuselight_server.agents.attachment.listener import AgentListener
from fuselight_server.agents.protocol.toolbox import Caller, ToolResult
from fuselight_server.base.command_error import CommandError
from tests.support.lsp_client import ROOT


class EchoTools:
    """One tool, which answers its argument."""

    instructions = "Echo."

    def __init__(self) -> None:
        self.is_closed = False

    def descriptions(self) -> Sequence[dict[str, Any]]:
        return [{"name": "echo", "inputSchema": {"type": "object"}}]

    async def call(self, _name: str, arguments: dict[str, Any], _caller: Caller) -> ToolResult:
        return ToolResult(str(arguments.get("text")))

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for temporary files of the test's own, with a short path, as those of sockets are."""
    folder = str(tmp_path_factory.mktemp("t"))
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr(tempfile, "tempdir", folder)


def request(identity: int, text: str) -> bytes:
    call = {"name": "echo", "arguments": {"text": text}}
    message = {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": call}
    return json.dumps(message).encode() + b"\n"


def answers(connection: socket.socket, *lines: bytes) -> list[str]:
    """What the tool answers, in the order of the answers; errors by their message."""
    with connection:
        connection.settimeout(30)
        connection.sendall(b"".join(lines))
        read, texts = connection.makefile("rb"), []
        for _ in lines:
            message = json.loads(read.readline())
            result = message.get("result")
            texts.append(result["content"][0]["text"] if result else message["error"]["message"])
        return texts


@pytest.mark.parametrize("on_loopback", [False, True])
def test_clients_find_the_server_by_a_path_in_its_workspace(tmp_path: Path, *, on_loopback: bool) -> None:
    toolboxes: list[EchoTools] = []

    def make() -> EchoTools:
        toolboxes.append(EchoTools())
        return toolboxes[-1]

    async def run() -> None:
        listener = AgentListener(make)
        address = await listener.start([str(tmp_path / "a"), str(tmp_path / "b")], on_loopback=on_loopback)
        mode = Path(address.folder).stat().st_mode  # noqa: ASYNC240 - a test
        assert stat.S_IMODE(mode) == 0o700
        for connection in (connect_for(tmp_path / "b" / "model.py"), connect_to(Path(address.folder))):
            assert await asyncio.to_thread(answers, connection, request(1, "x")) == ["x"]
        with pytest.raises(CommandError, match="no editor with Fuselight"):
            connect_for(tmp_path / "elsewhere")
        await listener.start([str(tmp_path / "elsewhere")])
        assert await asyncio.to_thread(
            lambda: answers(connect_for(tmp_path / "elsewhere"), request(1, "y"))
        ) == ["y"]
        await listener.close()
        assert not Path(address.folder).exists()  # noqa: ASYNC240 - a test
        with pytest.raises(CommandError):
            connect_to(Path(address.folder))

    asyncio.run(run())
    assert [tools.is_closed for tools in toolboxes] == [True] * 3


def test_a_client_of_the_port_without_the_secret_gets_no_answer(tmp_path: Path) -> None:
    async def run() -> None:
        listener = AgentListener(EchoTools)
        address = await listener.start([str(tmp_path)], on_loopback=True)

        def ask(first: bytes) -> bytes:
            with socket.create_connection(("127.0.0.1", address.port), timeout=30) as connection:
                connection.sendall(first + request(1, "x"))
                return connection.recv(100)

        for wrong in (b"", b"wrong\n", address.secret[:-1].encode() + b"\n"):
            assert await asyncio.to_thread(ask, wrong) == b""
        await listener.close()

    asyncio.run(run())


def test_a_long_line_costs_that_line_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MESSAGE_BYTES", 4_000)

    async def run() -> list[str]:
        listener = AgentListener(EchoTools)
        await listener.start([str(tmp_path)])
        lines = (request(1, "a"), request(2, "b" * 50_000), b"rubbish\n", request(3, "c"))
        texts = await asyncio.to_thread(lambda: answers(connect_for(tmp_path), *lines))
        await listener.close()
        return sorted(texts)

    texts = asyncio.run(run())
    assert texts[:2] == ["a", "c"]
    assert any(text.startswith("skipped a line of more than") for text in texts)
    assert len(texts) == 4


def test_an_address_that_is_none(tmp_path: Path) -> None:
    for content in (None, "", "[]", '{"port": "x"}', "[" * 100_000):
        if content is not None:
            (tmp_path / "address.json").write_text(content)
        with pytest.raises(CommandError, match="not the address of a language server"):
            connect_to(tmp_path)


def test_the_bridge_ends_with_its_client_and_with_the_server(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "fuselight_server", "mcp", "--attach")
    path = os.pathsep.join((str(ROOT / "compiler"), str(ROOT / "server")))

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    async def run() -> None:
        listener = AgentListener(EchoTools)
        await listener.start([str(tmp_path)])
        first, second = start(), start()
        assert second.stdin is not None
        assert second.stdout is not None
        second.stdin.write(request(1, "there"))
        second.stdin.flush()
        assert b"there" in await asyncio.to_thread(second.stdout.readline)
        out, err = await asyncio.to_thread(first.communicate, request(7, "é"), 60)
        assert json.loads(out)["result"]["content"][0]["text"] == "é", err
        assert first.returncode == 0
        await listener.close()
        assert await asyncio.to_thread(second.wait, 60) == 0
        for pipe in (second.stdin, second.stdout, second.stderr):
            assert pipe is not None
            pipe.close()

    asyncio.run(run())
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        text=True,
    )
    assert ended.returncode == 2
    assert "no editor with Fuselight has" in ended.stderr


def test_a_path_that_is_too_long_for_a_socket_is_served_on_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("deep" * 25)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    async def run() -> list[str]:
        listener = AgentListener(EchoTools)
        address = await listener.start([str(tmp_path)])
        assert address.port
        texts = await asyncio.to_thread(answers, connect_for(tmp_path), request(1, "x"))
        await listener.close()
        return texts

    assert asyncio.run(run()) == ["x"]
    assert list(folder.iterdir()) == []

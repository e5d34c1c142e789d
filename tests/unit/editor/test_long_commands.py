"""A command that takes long: awaited by a client that waits, answered early to one that gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fuselight_server.editor.handlers import server as server_module
from fuselight_server.editor.handlers.server import Server, register_command
from fuselight_server.editor.messages.client_features import ClientFeatures

NAME = "fuselight.server.test"


class Command:
    """A command that ends when it is let go."""

    def __init__(self, *, long_commands: bool, fails: bool = False) -> None:
        self.server = Server()
        self.server.state.client = ClientFeatures(long_commands=long_commands)
        self.let_go, self.ended = asyncio.Event(), asyncio.Event()
        self.fails = fails
        self.failures: list[str] = []
        self.server.tasks._report = lambda what, _error: self.failures.append(what)
        register_command(self.server, NAME, self._handle)
        self.run: Callable[..., Awaitable[Any]] = self.server.protocol.fm.commands[NAME]

    async def _handle(self, _server: Server, options: dict[str, Any]) -> dict[str, Any]:
        await self.let_go.wait()
        self.ended.set()
        if self.fails:
            raise ValueError
        return options


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "COMMAND_SECONDS", 0.01)


@pytest.mark.asyncio
async def test_a_client_that_gives_up_is_answered_while_the_command_goes_on() -> None:
    command = Command(long_commands=False)
    assert await command.run({"uri": "x"}) is None
    assert not command.ended.is_set()
    command.let_go.set()
    await asyncio.wait_for(command.ended.wait(), 10)


@pytest.mark.asyncio
async def test_a_command_that_ends_in_time_is_answered_with_its_result() -> None:
    command = Command(long_commands=False)
    command.let_go.set()
    assert await command.run({"uri": "x"}) == {"uri": "x"}


@pytest.mark.asyncio
async def test_a_client_that_waits_gets_the_result() -> None:
    command = Command(long_commands=True)
    answer = asyncio.ensure_future(command.run({"uri": "x"}))
    await asyncio.wait({answer}, timeout=3 * server_module.COMMAND_SECONDS)
    assert not answer.done()
    command.let_go.set()
    assert await answer == {"uri": "x"}


@pytest.mark.asyncio
async def test_a_failure_after_the_answer_is_logged() -> None:
    command = Command(long_commands=False, fails=True)
    assert await command.run({}) is None
    command.let_go.set()
    await command.ended.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert command.failures == [NAME]

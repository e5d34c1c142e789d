"""A real server for each test; its end is part of the test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.support.lsp_client import Client, Json

Start = Callable[..., Client]


def interpreter(*args: str, executable: str = sys.executable) -> Json:
    """The interpreter as an extension delivers it."""
    return {"executable": executable, "args": list(args), "why": "the test's own"}


def settings(**changes: Any) -> Json:
    return {"resolvedInterpreter": interpreter(), **changes}


@pytest.fixture
def connect() -> Iterator[Start]:
    """Make clients of servers that are not initialized yet. No process of theirs may outlive the test."""
    clients: list[Client] = []
    children: list[psutil.Process] = []

    def make(**options: Any) -> Client:
        options.setdefault("settings", settings())
        client = Client(**options)
        clients.append(client)
        return client

    yield make
    for client in clients:
        if client.process.poll() is None:
            children += psutil.Process(client.process.pid).children(recursive=True)
            assert client.stop() == 0, client.transcript()
        client.close()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive, [process.cmdline() for process in alive]

"""A real server for each test, which ends with the test."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.lsp_client import CAPABILITIES, Client, Json
from tests.support.prepared import forks, prepared_interpreter

Start = Callable[..., Client]


def interpreter(*args: str, executable: str | None = None) -> Json:
    """The interpreter as an extension delivers it. Its workers have torch imported, unless the test names another."""
    executable = executable or prepared_interpreter()
    return {"executable": executable, "args": list(args), "why": "the test's own"}


def settings(**changes: Any) -> Json:
    return {"resolvedInterpreter": interpreter(), **changes}


_NUMBERS = itertools.count()


def shared_settings(**changes: Any) -> Json:
    """Those of the server that tests share."""
    return settings(device="h200", **changes)


@pytest.fixture(scope="session")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    """A server on a workspace, for the tests that ask for no other: its worker has torch imported already.

    That takes a worker 5 seconds of a processor; what a run does beside is done in one.
    """
    workspace = tmp_path_factory.mktemp("workspace")
    client = Client(settings=shared_settings(), fresh=False)
    refreshing = {**CAPABILITIES["workspace"], "inlayHint": {"refreshSupport": True}}
    client.start(
        workspace,
        options={"clientCommands": ["fuselight.showDetails", "fuselight.showKernel"]},
        capabilities={**CAPABILITIES, "workspace": refreshing},
    )
    client.idle(0)
    yield client, workspace
    children = psutil.Process(client.process.pid).children(recursive=True)
    assert client.stop() == 0, client.transcript()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive, [process.cmdline() for process in alive]


@pytest.fixture
def client(one_server: tuple[Client, Path]) -> Iterator[Client]:
    """The server that tests share, as if it had just been started. Their files belong into `folder`."""
    client, _ = one_server
    client.begin_anew()
    yield client
    for uri in client.opened:
        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    client.opened.clear()


@pytest.fixture
def folder(one_server: tuple[Client, Path], client: Client) -> Iterator[Path]:
    """A project of the test's own in the workspace of the shared server, deleted when the test ends.

    A save elsewhere in the workspace runs a target again whose import failed.
    """
    path = one_server[1] / f"project{next(_NUMBERS)}"
    path.mkdir()
    (path / "pyproject.toml").touch()
    yield path
    shutil.rmtree(path)
    deleted = {"uri": path.as_uri(), "type": 3}
    client.notify("workspace/didChangeWatchedFiles", {"changes": [deleted]})


@pytest.fixture
def configure(client: Client) -> Iterator[Callable[..., None]]:
    """Give the shared server other settings than `shared_settings` until the test ends, as keywords."""

    def change(**changes: Any) -> None:
        client.settings = {**shared_settings(), **changes}
        since = client.mark()
        client.notify("workspace/didChangeConfiguration", {"settings": {}})
        client.wait(
            lambda message: message.get("method") == "workspace/configuration", "the question", since=since
        )
        client.request("fuselight/reportTree", {"uri": None})  # the server has read the answer before

    yield change
    change()


@pytest.fixture
def connect() -> Iterator[Start]:
    """Make clients of servers that are not initialized yet. No process of theirs may outlive the test.

    With `fresh`, a server is started as an editor does it.
    """
    clients: list[Client] = []
    children: list[psutil.Process] = []
    before = forks()

    def make(**options: Any) -> Client:
        options.setdefault("settings", settings())
        options.setdefault("fresh", False)
        client = Client(**options)
        clients.append(client)
        return client

    yield make
    children += [process for process in forks() if process not in before]
    for client in clients:
        if client.process.poll() is None:
            children += psutil.Process(client.process.pid).children(recursive=True)
            assert client.stop() == 0, client.transcript()
        client.close()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive, [process.cmdline() for process in alive]

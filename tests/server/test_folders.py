"""Several workspace folders: their own settings, and folders that are added and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from tests.server.conftest import settings
from tests.server.programs import breaks, codes, write
from tests.support.lsp_client import DEADLINE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Start
    from tests.support.lsp_client import Client

pytestmark = pytest.mark.torch


def change_folders(client: Client, *, added: tuple[Path, ...] = (), removed: tuple[Path, ...] = ()) -> None:
    event = {
        name: [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]
        for name, folders in (("added", added), ("removed", removed))
    }
    client.notify("workspace/didChangeWorkspaceFolders", {"event": event})


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_settings_differ_by_folder(connect: Start, tmp_path: Path) -> None:
    path, two = make(tmp_path / "one"), make(tmp_path / "two")
    client = connect()
    client.settings_by_folder[two.as_uri()] = settings(run="manual", codeLens="off")
    client.start(path, two)
    uri, other = client.open(write(path)), client.open(write(two))
    client.save(other)
    client.save(uri)
    client.idle(1)
    assert len(breaks(client, uri)) == 1, client.transcript()
    assert client.lenses(uri) != []
    assert breaks(client, other) == [], "runs there are manual"
    assert client.lenses(other) == []
    del client.settings_by_folder[two.as_uri()]
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    client.until(lambda: client.lenses(other) != [], "lenses after the change of settings")
    client.save(other)
    client.idle(2)
    assert len(breaks(client, other)) == 1


def test_folders_come_and_go(connect: Start, tmp_path: Path) -> None:
    path, two = make(tmp_path / "one"), make(tmp_path / "two")
    client = connect()
    client.start(path)
    client.idle(0)
    change_folders(client, added=(two,))
    client.notified("fuselight/status", lambda status: status["folder"] == two.as_uri())
    uri = client.open(write(two))
    client.save(uri)
    client.idle(1)
    assert len(breaks(client, uri)) == 1
    workers = psutil.Process(client.process.pid).children()
    assert len(workers) == 1

    change_folders(client, removed=(two,))
    client.request("fuselight/reportTree", {"uri": None})
    assert codes(client, uri) == [], "what was found in a folder goes with it"
    gone, _ = psutil.wait_procs(workers, timeout=DEADLINE)
    assert len(gone) == 1, "so does its worker"

    mark = client.mark()
    change_folders(client, added=(two,))
    client.notified("workspace/configuration", since=mark)
    client.save(uri)
    client.idle(2)
    assert len(breaks(client, uri)) == 1

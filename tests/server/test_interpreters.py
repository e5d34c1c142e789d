"""A change of the interpreter: runs of the old one end, later runs use the new one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.server.conftest import interpreter, settings
from tests.server.programs import breaks, caught, let_go
from tests.support.prepared import forks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Start

pytestmark = pytest.mark.torch


def test_an_interpreter_changed_during_a_run_ends_it_and_the_next_run_has_the_new_one(
    connect: Start, tmp_path: Path
) -> None:
    others = forks()
    client = connect(settings=settings())
    path, uri = caught(client, tmp_path)
    server = psutil.Process(client.process.pid)
    before = [
        *server.children(recursive=True),
        *(process for process in forks() if process not in others and process != server),
    ]
    assert len(before) > 1, "the worker, and what stands for it where that is a fork"
    other = str(shutil.copy(interpreter()["executable"], tmp_path / "python"))
    client.settings = settings(resolvedInterpreter=interpreter(executable=other))
    client.notify("fuselight/interpreterChanged", {"folder": tmp_path.as_uri()})
    client.idle(1)
    _, alive = psutil.wait_procs(before, timeout=30)
    assert alive == [], "the run and its worker are gone"
    assert breaks(client, uri) == []

    let_go(path)
    client.save(uri)
    client.idle(2)
    assert len(breaks(client, uri)) == 1
    assert any(other in child.cmdline() for child in server.children(recursive=True))

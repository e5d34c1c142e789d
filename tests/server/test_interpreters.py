"""A change of the interpreter: runs of the old one end, later runs use the new one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.server.conftest import interpreter, settings
from tests.server.programs import breaks, caught, let_go

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Start

pytestmark = pytest.mark.torch


def test_an_interpreter_changed_during_a_run_ends_it_and_the_next_run_has_the_new_one(
    connect: Start, tmp_path: Path
) -> None:
    client = connect(settings=settings(resolvedInterpreter=interpreter(executable=sys.executable)))
    path, uri = caught(client, tmp_path)
    server = psutil.Process(client.process.pid)
    before = server.children(recursive=True)
    assert before != []
    client.settings = settings(resolvedInterpreter=interpreter("-X", "utf8=1", executable=sys.executable))
    client.notify("fuselight/interpreterChanged", {"folder": tmp_path.as_uri()})
    client.idle(1)
    _, alive = psutil.wait_procs(before, timeout=30)
    assert alive == [], "the run and its worker are gone"
    assert breaks(client, uri) == []

    let_go(path)
    client.save(uri)
    client.idle(2)
    assert len(breaks(client, uri)) == 1
    assert any("utf8=1" in child.cmdline() for child in server.children(recursive=True))

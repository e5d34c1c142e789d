"""The `fuselight server` command."""

from __future__ import annotations

import argparse
import gc

import pytest

from fuselight_server.cli import server
from fuselight_server.editor import app


def test_what_the_server_imports_is_never_searched_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, bool]] = []
    before = gc.get_freeze_count()
    new = [[number] for number in range(1000)]
    monkeypatch.setattr(
        app, "main", lambda: seen.append((gc.isenabled(), gc.get_freeze_count() >= before + len(new)))
    )
    assert server.execute(argparse.Namespace()) == 0
    assert seen == [(True, True)]

"""The host distrusts what a run leaves for it to preload, because user code was in the process that wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from fuselight.shared.protocol import CaptureRequest, GenerateRequest
from fuselight.worker.host import preload as ahead
from fuselight.worker.host.preload import Preload
from fuselight.worker.processes.children import HostFolder


@pytest.mark.parametrize(
    "left",
    [5, None, [], {}, {"modules": None, "files": None}, {"modules": [1, None], "files": [{}, "<string>"]}],
)
def test_unreadable_files_are_left_unchanged(tmp_path: Path, left: object) -> None:
    path = tmp_path / "ahead.json"
    path.write_text(json.dumps(left))
    preload = Preload(HostFolder())
    idle = preload.patience()
    preload.want(str(path), CaptureRequest)
    assert preload.patience() == idle


def test_a_long_import_leaves_room_for_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two modules of 60 ms each fill a step; the loop is asked again at once."""
    clock = [0.0]
    imported: list[str] = []

    def import_(name: str, _: object) -> bool:
        clock[0] += 0.06
        imported.append(name)
        return name != "broken"

    monkeypatch.setattr(ahead, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(ahead, "_imported", import_)
    preload = Preload(HostFolder())
    preload._good = ["first", "broken", "third"]
    assert preload.go_on(10_000) == []
    assert imported == ["first", "broken"]
    assert preload.patience() == 0.0
    lines = preload.go_on(10_000)
    assert lines[0] == "imported 2 modules ahead of the next run, in 0.2 s"
    assert preload.patience() > 0.0


def test_before_a_run_the_host_imports_only_what_runs_of_its_type_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[str] = []

    def import_(name: str, _: object) -> bool:
        imported.append(name)
        return True

    monkeypatch.setattr(ahead, "_imported", import_)
    path = tmp_path / "ahead.json"
    path.write_text(json.dumps({"modules": ["of_kernels"], "files": []}))
    preload = Preload(HostFolder())
    preload.want(str(path), GenerateRequest)
    preload._good, preload._wanted = preload._wanted, []  # as a trial of them does
    assert preload.before(CaptureRequest, 10_000) == []
    assert imported == []
    (line,) = preload.before(GenerateRequest, 10_000)
    assert line.startswith("imported 1 modules")
    assert imported == ["of_kernels"]
    assert preload.before(GenerateRequest, 10_000) == []

"""Each type of request has its runner, and leaves nothing outside the folder of its run."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.capture.calls.importing import Sources
from fuselight.shared import protocol
from fuselight.shared.devices import find
from fuselight.shared.protocol import AssembleRequest, InputsPlan, RunRequest, Target
from fuselight.shared.report import Assembled, text_key
from fuselight.worker.child.state import ChildJob, RunState
from fuselight.worker.host import jobs

pytestmark = pytest.mark.torch


def test_every_request_has_a_runner() -> None:
    kinds = {
        kind for kind in vars(protocol).values() if isinstance(kind, type) and issubclass(kind, RunRequest)
    }
    assert set(jobs.RUNNERS) == kinds - {RunRequest}


def test_a_killed_compile_leaves_its_files_in_the_folder_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []

    def assemble(*_source: Any, **_options: Any) -> Assembled:
        folders.append(tempfile.mkdtemp())
        return Assembled(registers=7)

    monkeypatch.setitem(sys.modules, "fuselight.adapters.triton_api", SimpleNamespace(assemble=assemble))
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())
    target = Target(str(tmp_path / "m.py"), "f", "function", 1, compiled=False)
    request = AssembleRequest(
        1, 1, target, InputsPlan(), (str(tmp_path),), device=find("h100"), sources=("x",)
    )
    state = RunState(ChildJob(request, str(tmp_path), frozenset(), progress=-1), Sources(()), 0)
    jobs._compile_kernels(state)
    assert [Path(folder).parent for folder in folders] == [tmp_path]
    assert state.report_so_far().assembled[text_key("x")].registers == 7

"""`fuselight run --memory`: what the allocator of a GPU did, here one that writes the snapshot of a recording."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.worker.child.memory_recording import record_from_environment
from tests.support.prepared import program_interpreter
from tests.support.snapshots import BACKWARD, Allocator, frame

pytestmark = pytest.mark.torch
MIB = 1 << 20
PROGRAM = """\
import shutil
import sys
import torch

def recorded(**options):
    print("recording", options["stacks"])

torch.cuda.memory._record_memory_history = recorded
torch.cuda.memory._dump_snapshot = lambda path: shutil.copy("recorded.pickle", path)
failures = []
torch._C._cuda_attach_out_of_memory_observer = failures.append
for call, _ in torch.cuda._queued_calls:  # as when CUDA is initialized
    if call.__qualname__.startswith("AllocatorRecording"):
        call()

def step(x):
    return x.sin().sum()

step(torch.ones(3))
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    python = program_interpreter()
    return subprocess.run(
        [sys.executable, "-m", "fuselight_server", "run", "--python", python, "--memory", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ.copy(),
        timeout=300,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    allocator = Allocator()
    caller = frame(19, "<module>", str(tmp_path / "program.py"))
    for _ in range(6):
        allocator.alloc(MIB, [frame(17, "step", str(tmp_path / "program.py")), caller])
        allocator.free(allocator.alloc(512, [*BACKWARD, caller]))
    (tmp_path / "recorded.pickle").write_bytes(allocator.pickled())
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def test_the_snapshot_at_the_end_has_findings_on_the_lines_of_the_program(folder: Path) -> None:
    done = run(folder, "program.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "recording python\n"
    assert "warning[FL951]: memory grows here: 1 MB more in each of 5 backwards" in done.stderr
    assert "--> program.py:17:5" in done.stderr
    assert "6.3 MB  program.py:17  return x.sin().sum()" in done.stderr


def test_a_program_without_a_gpu_says_that_nothing_was_recorded(folder: Path) -> None:
    (folder / "program.py").write_text("import torch\nprint(torch.ones(3).sum())\n")
    done = run(folder, "program.py")
    assert done.returncode == 0
    assert done.stdout == "tensor(3.)\n"
    assert "no memory was recorded: no process of the program used an NVIDIA GPU." in done.stderr


def test_what_is_alive_when_memory_runs_out_is_not_replaced_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    ran_out: list[Any] = []
    at_end: list[Any] = []
    monkeypatch.setattr(torch.cuda, "_lazy_call", lambda call: call())
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **_options: None)
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", written.append)
    monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", ran_out.append, raising=False)
    monkeypatch.setattr("atexit.register", at_end.append)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("FUSELIGHT_MEMORY", str(tmp_path))
    record_from_environment()
    for _ in range(5):
        ran_out[0](0, 1, 2, 3)
    at_end[0]()
    assert written == [str(tmp_path / "memory_rank3.pickle")] * 3

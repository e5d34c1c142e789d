"""`fuselight bench` as a user runs it: a real benchmark on the CPU, and what is said where nothing can be measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lsp_client import ROOT

pytestmark = pytest.mark.torch

MODEL = """\
import torch


# fuselight: f(f32[64, 64], train=True)
def f(x):
    return (x.exp() + 1).sum()


# fuselight: broken(f32[4])
def broken(x):
    raise ValueError("no")
"""


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "model.py").write_text(MODEL)
    path = os.pathsep.join((str(ROOT / "compiler"), str(ROOT / "server")))
    command = ["-m", "fuselight_server", "bench", "model.py", "--python", sys.executable, "--device", "cpu"]
    return subprocess.run(
        [sys.executable, *command, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_benchmark_measures_what_it_was_asked_and_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    done = bench(
        tmp_path,
        *("--target", "f", "--compare", "backend:aot_eager", "--rounds", "2", "--seconds", "0.1"),
        *("--no-profile", "--format", "json"),
    )
    assert done.returncode == 0, done.stderr
    (target,) = json.loads(done.stdout)["targets"]
    page = target["page"]
    assert page["work"] == "forward and backward", "as the directive says"
    eager, traced = page["configurations"]
    assert (eager["name"], traced["name"]) == ("eager", "backend:aot_eager")
    assert traced["us"] > 0
    assert traced["clock"] == "wall"
    assert traced["accuracy"]["passed"] is True
    assert any(tensor["what"].startswith("gradient") for tensor in traced["accuracy"]["tensors"])
    assert page["profiles"].get(traced["name"], {}).get("kernels", []) == []
    (kept,) = (tmp_path / ".fuselight" / "bench").glob("*/*.json.gz")
    assert kept.name.removesuffix(".json.gz") == target["run"]["past"]["id"]


def test_a_target_that_fails_or_is_not_there_is_told_with_the_next_step(tmp_path: Path) -> None:
    done = bench(tmp_path, "--target", "broken", "--target", "missing")
    assert done.returncode == 2
    assert "model.py: broken\n" in done.stdout
    assert "failed: ValueError: no. " in done.stdout
    assert "cannot measure missing: no class or function of this name in model.py" in done.stdout
    assert not (tmp_path / ".fuselight" / "bench").exists()

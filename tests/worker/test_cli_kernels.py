"""`fuselight kernels` as a user runs it: text, JSON, assembly, and what is wrong with a wrong name."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.lsp_client import ROOT

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]
MODEL = """\
import torch
from torch.nn import functional as F


# fuselight: f(f32[64, 64])
def f(x):
    y = x.relu()
    z = torch.softmax(y, 1)
    return torch.linalg.svdvals(z), z + 1
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("project") / "model.py"
    path.write_text(MODEL)
    return path


def kernels(model: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "compiler"), str(ROOT / "server"))),
    }
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "fuselight_server",
            "kernels",
            str(model),
            "--python",
            sys.executable,
            *arguments,
        ],
        cwd=model.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def target(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["targets"][0]
    return found


@pytest.fixture(scope="module")
def found(model: Path) -> dict[str, Any]:
    """The target in JSON, with everything that can be asked for."""
    return target(kernels(model, "--device", "h100", "--format", "json", "--source", "--asm", "ptx"))


def test_text_tells_each_line_its_estimate_and_each_kernel_its_lines(model: Path) -> None:
    done = kernels(model, "--device", "a100", "--why", "7:8")
    assert done.returncode == 0, done.stderr
    assert "kernels for NVIDIA A100" in done.stdout
    assert "model.py:8" in done.stdout
    assert "~" in done.stdout
    assert "Lines 7 and 8 are fused in triton_" in done.stdout


def test_json_sums_over_lines_as_over_kernels(model: Path, found: dict[str, Any]) -> None:
    assert found["device"]["key"] == "h100-sxm"
    launched = [kernel for graph in found["graphs"] for kernel in graph["kernels"]]
    moved = sum(one["count"] * ((one["bytes_read"] or 0) + (one["bytes_written"] or 0)) for one in launched)
    assert sum(line["bytes"] for line in found["lines"]) == pytest.approx(moved)
    triton = [one for one in launched if one["kind"] == "triton"]
    assert triton
    assert all("@triton.jit" in one["source"] for one in triton)
    assert any(one["kind"] == "fallback" and one["lines"] == [[str(model), 9]] for one in launched)


def test_assembly_comes_with_registers(found: dict[str, Any]) -> None:
    triton = [one for graph in found["graphs"] for one in graph["kernels"] if one["kind"] == "triton"]
    assert triton
    assert all(one["resources"]["registers"] > 0 for one in triton)
    assert all(".target sm_90" in one["asm"] for one in triton)


def test_an_edit_is_generated_anew(model: Path, found: dict[str, Any]) -> None:
    model.write_text(MODEL.replace("y = x.relu()", "y = x.sin()"))
    after = target(kernels(model, "--device", "h100", "--format", "json"))
    model.write_text(MODEL)
    names = [
        {
            operator["name"]
            for graph in one["graphs"]
            for kernel in graph["kernels"]
            for operator in kernel["operators"]
        }
        for one in (found, after)
    ]
    assert "aten.sin.default" in names[1] - names[0]


def test_a_device_that_does_not_exist_offers_the_nearest(model: Path) -> None:
    done = kernels(model, "--device", "h300")
    assert (done.returncode, done.stdout) == (2, "")
    assert "h200" in done.stderr

"""`fuselight kernels` of files with Triton kernels of their own: what is compiled, printed and written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import RunRequest
from fuselight.shared.report import OwnKernel, Report, Tier, TunedSizes, data_key
from tests.support.command import AnsweringWorker, run_cli
from tests.support.own_kernels import own_report, recorded_kernel, tuned_kernel

TEXT = """\
import torch
import triton

@triton.autotune([c(1), c(2)], key=["n"])
@triton.jit
def add(x, n, BLOCK):
    pass

# fuselight: launch(f32[1000])
@torch.compile
def launch(x):
    return x
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(TEXT, encoding="utf-8")
    (tmp_path / "pyproject.toml").touch()
    return path


def worker(monkeypatch: pytest.MonkeyPatch, file: Path, *kernels: OwnKernel) -> AnsweringWorker:
    def answer(request: RunRequest) -> Report:
        moved = [replace(kernel, location=replace(kernel.location, path=str(file))) for kernel in kernels]
        wanted = moved if request.own_kernels is not None else []
        report = replace(own_report(*wanted), tier=Tier.KERNELS, files={str(file): data_key(TEXT.encode())})
        return replace(report, target=replace(report.target, path=str(file)), roots=(str(file.parent),))

    answering = AnsweringWorker(answer)
    answering.put_in_place(monkeypatch)
    return answering


def measured() -> OwnKernel:
    kernel = tuned_kernel(14.0, 10.0)
    sizes = (TunedSizes(("1000",), (14.0, 10.0)),)
    return replace(kernel, location=replace(kernel.location, line=6), tuned=sizes)


def test_resources_and_configurations_are_printed(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    answering = worker(monkeypatch, file, measured())
    out = run_cli("kernels", str(file), "--configurations", "--device", "mi300x").stdout
    assert "  add  64 registers, no spills, 48 KB shared, occupancy 50%, 14 µs" in out
    assert "BLOCK=256, 4 warps, 3 stages             4         10 µs" in out
    (request,) = answering.requests
    plan = request.own_kernels
    assert (plan.device.key, plan.configurations, plan.with_code) == ("mi300x", True, True)


def test_without_resources_nothing_of_them_is_compiled(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    answering = worker(monkeypatch, file, measured())
    assert "Triton kernels" not in run_cli("kernels", str(file)).stdout
    assert answering.requests[0].own_kernels is None


def test_the_json_has_one_level_of_assembly(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    kernel = recorded_kernel("add_k")
    worker(monkeypatch, file, kernel)
    data: Any = json.loads(run_cli("kernels", str(file), "--asm", "ptx", "--format", "json").stdout)
    (row,) = data["targets"][0]["own_kernels"]
    assert row["name"] == "add_k"
    assert row["assembled"]["registers"] == 26
    assert not row["assembled"]["listings"]
    assert "ld.global" in row["asm"]
    assert "ld.global" in run_cli("kernels", str(file), "--asm", "ptx").stdout


def test_the_fastest_configurations_are_written(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    worker(monkeypatch, file, measured())
    result = run_cli("kernels", str(file), "--keep-fastest")
    title = "Keep the fastest of 2 configurations: BLOCK=256, 4 warps, 3 stages, 10 µs for n=1000"
    assert f"{title}: written" in result.stderr
    assert file.read_text(encoding="utf-8") == TEXT.replace("[c(1), c(2)]", "[c(2)]")
    worker(monkeypatch, file)
    assert "No autotuner has configurations to drop" in run_cli("kernels", str(file), "--keep-fastest").stderr

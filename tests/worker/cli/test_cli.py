"""The command as a user runs it: three real processes with real torch. tests/unit/cli has the rest."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.codec import decode
from fuselight.shared.protocol import RunRequest
from fuselight.shared.report import Report
from tests.support.command import AnsweringWorker, Result, run_cli
from tests.support.lsp_client import ROOT
from tests.support.prepared import prepared_interpreter, program_interpreter

pytestmark = pytest.mark.torch

DEADLINE = 240

MODEL = """\
# coding: latin-1
import torch

# fuselight: step(f32[4])
# fuselight: step(f32[7])
@torch.compile
def step(x):
    return '\u00e9' and x * x.sum().item()
"""
BRANCH = """\
import torch

# fuselight: f(f32[4])
@torch.compile
def f(x):
    # the larger half
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y.relu()
"""

PROGRAM = """\
import os, signal, sys
import torch

@torch.compile(backend="eager")
def step(x):
    return x * 2

if __name__ == "__main__":
    step(torch.ones(4))
    step(torch.ones(7))
    print(sys.argv, __name__, sys.path[0], sys.stdin.read())
    sys.exit(int(sys.argv[1]))
"""

KERNELS = """\
import torch
from torch.nn import functional as F


# fuselight: f(f32[64, 64])
def f(x):
    y = x.relu()
    z = torch.softmax(y, 1)
    return torch.linalg.svdvals(z), z + 1
"""


def fuselight(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "compiler"), str(ROOT / "server")])
    return subprocess.run(
        [sys.executable, "-m", "fuselight_server", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def test_json_has_the_findings_on_their_lines_in_characters_and_the_exit_code_says_so(project: Path) -> None:
    (project / "model.py").write_bytes(MODEL.encode("latin-1"))
    done = fuselight("check", "--python", prepared_interpreter(), "model.py", "--format", "json", cwd=project)
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    assert data["problems"] == []
    entries = {finding["code"]: finding for finding in data["findings"]}
    assert set(entries) == {"GB0124", "FL201"}
    assert (entries["GB0124"]["line"], entries["GB0124"]["column"]) == (8, 24)
    assert "directive on line 5: step(f32[7])" in {finding["inputs"] for finding in data["findings"]}
    (target,) = data["targets"]
    assert (target["name"], target["rung"]) == ("step", "directive")


@pytest.mark.corpora  # test_notebooks.py writes a fix, test_fix_cases.py verifies each kind
def test_a_verified_fix_is_written_and_removes_the_finding(project: Path) -> None:
    (project / "model.py").write_text(BRANCH)
    done = fuselight("fix", "--python", prepared_interpreter(), "model.py", "--write", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 -> 1 graph, same results" in done.stdout
    assert "1 fix: 1 written." in done.stdout
    branch = BRANCH[BRANCH.index("    if x.sum()") : BRANCH.index("    return")]
    fixed = "    y = torch.where(x.sum() > 0, x * 2, x - 1)\n"
    assert (project / "model.py").read_text() == BRANCH.replace(branch, fixed)


def test_a_program_runs_as_under_python_its_findings_come_after_it_and_its_inputs_serve_a_check(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = fuselight(
        "run", "--python", program_interpreter(), "program.py", "3", "--flag", cwd=project, stdin="hello"
    )
    assert done.returncode == 3
    assert done.stdout == f"['program.py', '3', '--flag'] __main__ {project} hello\n"
    assert "warning[FL201]: recompiled: x.size(0) was 4, now 7" in done.stderr
    assert "program.py:6:" in done.stderr
    report = json.loads((project / ".fuselight" / "last-run.json").read_text())
    worker = AnsweringWorker(lambda _request: decode(Report, report))
    worker.put_in_place(monkeypatch)
    monkeypatch.chdir(project)
    run_cli("check", "program.py")
    (request,) = worker.requests
    assert request.target.name == "step"
    assert request.inputs.recorded == ("step(f32[4], no_grad=False)", "step(f32[7], no_grad=False)")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A file, and its target in JSON with everything that can be asked for."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("this environment has no Triton")
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").touch()
    (folder / "model.py").write_text(KERNELS)
    options = ("--device", "h100", "--format", "json", "--source", "--asm", "ptx")
    done = fuselight("kernels", "model.py", "--python", prepared_interpreter(), *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    target: dict[str, Any] = json.loads(done.stdout)["targets"][0]
    return folder / "model.py", target


def test_json_sums_over_lines_as_over_kernels(generated: tuple[Path, dict[str, Any]]) -> None:
    path, entries = generated
    assert entries["device"]["key"] == "h100-sxm"
    launched = [kernel for graph in entries["graphs"] for kernel in graph["kernels"]]
    moved = sum(
        value["count"] * ((value["bytes_read"] or 0) + (value["bytes_written"] or 0)) for value in launched
    )
    assert sum(line["bytes"] for line in entries["lines"]) == pytest.approx(moved)
    triton = [value for value in launched if value["kind"] == "triton"]
    assert triton
    assert all("@triton.jit" in value["source"] for value in triton)
    assert any(value["kind"] == "fallback" and value["lines"] == [[str(path), 9]] for value in launched)


def test_assembly_comes_with_registers(generated: tuple[Path, dict[str, Any]]) -> None:
    _, entries = generated
    triton = [
        kernel for graph in entries["graphs"] for kernel in graph["kernels"] if kernel["kind"] == "triton"
    ]
    assert triton
    assert all(value["resources"]["registers"] > 0 for value in triton)
    assert all(".target sm_90" in value["asm"] for value in triton)


def kernels_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Result, list[RunRequest]]:
    """The text of `fuselight kernels` from the cached report, and the requests to a worker for it."""
    (kept,) = (path.parent / ".fuselight" / "kernels").glob("*.json.gz")
    report: Report = decode(Report, json.loads(gzip.decompress(kept.read_bytes()))["report"])
    worker = AnsweringWorker(lambda _request: report, hello=AnsweringWorker.hello_of(report))
    worker.put_in_place(monkeypatch)
    monkeypatch.chdir(path.parent)
    return run_cli("kernels", "model.py", "--device", "h100", "--why", "7:8"), worker.requests


def test_text_gives_each_line_its_estimate_and_each_kernel_its_lines(
    generated: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    done, asked = kernels_again(generated[0], monkeypatch)
    assert (done.exit_code, asked) == (0, []), "what is kept is current"
    assert "estimates for NVIDIA H100" in done.stdout
    assert "model.py:8" in done.stdout
    assert "~" in done.stdout
    assert "Lines 7 and 8 are fused in triton_" in done.stdout


def test_an_edited_file_is_generated_again(
    generated: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = generated
    path.write_text(KERNELS.replace("y = x.relu()", "y = x.sin()"))
    try:
        _, asked = kernels_again(path, monkeypatch)
    finally:
        path.write_text(KERNELS)
    assert [(type(request).__name__, request.target.name) for request in asked] == [("GenerateRequest", "f")]

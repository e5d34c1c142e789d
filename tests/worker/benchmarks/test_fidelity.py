"""Kernels of an absent GPU against recordings of the real ones, made on an H200.

The recordings are what `python -m benchmarks.gpu.fidelity` kept of its real half. Another torch writes other kernels:
with it the same models must still be generated without a failure, forward and backward, in float32 alone.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu.kernel_text import GraphText, compare
from benchmarks.gpu.models import CELL_STEPS
from tests.support.case_files import selected_names
from tests.support.prepared import program_interpreter

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]
ROOT = Path(__file__).resolve().parents[3]
RECORDED = json.loads(
    gzip.decompress((ROOT / "tests" / "recordings" / "h200" / "torch-2.11.json.gz").read_bytes())
)
MODELS = sorted(RECORDED["models"])
EXAMPLE = "cell_loop"
"""The model of `make corpora`: what its graphs call is in no annotated case. Those have kernels like the others'."""
VERSION = ".".join(torch.__version__.split(".")[:2])
CASES = "static" if VERSION == "2.11" else "float32"
"""Set of cases of `benchmarks.gpu.half`; each dtype compiles again."""


STEPS = CELL_STEPS if VERSION == "2.11" else 3
"""Steps of cell_loop. Each adds one call of each cell; only the texts of kernels need as many as were recorded."""


GENERATE = """
import functools
import os
import sys
os.environ["CUDA_VISIBLE_DEVICES"] = ""
from benchmarks.gpu import models as built
from benchmarks.gpu.half import main
_, folder, cases, steps, *models = sys.argv
built.MODELS["cell_loop"] = functools.partial(built.cell_loop, int(steps))
for model in models:
    sys.argv[1:] = ["virtual", model, f"{folder}/{model}.json", "--cases", cases]
    assert main() == 0
"""


@pytest.fixture(scope="module")
def halves(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The virtual halves of the selected models, from one process that sees no GPU: its imports take ten seconds."""
    folder = tmp_path_factory.mktemp("halves")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'compiler'}",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
    }
    names = selected_names(request, "model")
    command = [program_interpreter(), "-c", GENERATE, str(folder), CASES, str(STEPS), *names]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in names}


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.corpora if name == EXAMPLE else pytest.mark.contract)
        for name in MODELS
    ]
)
def model(request: pytest.FixtureRequest, halves: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A recorded model and its virtual half."""
    return request.param, halves[request.param]


def test_each_case_is_generated_with_all_its_graphs(model: tuple[str, dict[str, Any]]) -> None:
    name, entries = model
    assert {case.split()[1] for case in entries} == {"inference", "train"}
    for case in entries:
        recorded = RECORDED["models"][name][case]
        assert entries[case]["failure"] is None, f"{name}, {case}: {entries[case]['failure']}"
        phases = [graph["phase"] for graph in entries[case]["graphs"]]
        assert phases == [graph["phase"] for graph in recorded["graphs"]]
        assert all(graph["kernels"] for graph in entries[case]["graphs"])


def test_libraries_are_called_as_on_the_device(model: tuple[str, dict[str, Any]]) -> None:
    name, entries = model
    for case in entries:
        recorded = RECORDED["models"][name][case]
        for ours, theirs in zip(entries[case]["graphs"], recorded["graphs"], strict=True):
            found_calls, recorded_calls = (
                {
                    call: count
                    for call, count in graph["externs"].items()
                    if "attention" in call or "cell" in call
                }
                for graph in (ours, theirs)
            )
            if name == "cell_loop":
                recorded_calls = {call: count * STEPS // CELL_STEPS for call, count in recorded_calls.items()}
            assert found_calls == recorded_calls, f"{name}, {case}"


@pytest.mark.skipif(
    VERSION != "2.11", reason=f"recorded with torch 2.11; torch {VERSION} writes other kernels"
)
def test_kernels_are_those_of_the_device(model: tuple[str, dict[str, Any]]) -> None:
    name, entries = model
    for case, recorded in RECORDED["models"][name].items():
        graphs = [[GraphText(**graph) for graph in half["graphs"]] for half in (recorded, entries[case])]
        for phase, comparison in compare(*graphs).items():
            assert comparison.differences == [], f"{name}, {case}, {phase}:\n" + "\n\n".join(
                comparison.differences
            )
            assert comparison.extern_differences == {}

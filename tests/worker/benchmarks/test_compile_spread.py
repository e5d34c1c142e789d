"""By which kernels compiles of one model differ: a kernel is known by its source, and what is lost is a difference."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compile_spread import _can_compile, _is_ready, generated, table
from fuselight.adapters.torch_api.choices.launch_configurations import kernel_key

pytestmark = pytest.mark.torch


def kernel(name: str, body: str = "pass") -> str:
    return f"@triton.jit\ndef {name}(x):\n    {body}\n"


def test_a_kernel_is_known_by_its_name_with_the_configuration_that_was_chosen(tmp_path: Path) -> None:
    for place, text in enumerate(
        (
            kernel("triton_poi_fused_add_0"),
            kernel("triton_red_fused_sum_1", "forward"),
            kernel("triton_red_fused_sum_1", "backward"),
            f"async_compile.triton('triton_poi_fused_add_0', '''\n{kernel('triton_poi_fused_add_0', 'graph')}''')",
        )
    ):
        (tmp_path / "ab").mkdir(exist_ok=True)
        (tmp_path / "ab" / f"{place}.py").write_text(text, encoding="utf-8")
    key = kernel_key(kernel("triton_poi_fused_add_0"))
    entries = generated(tmp_path, {key: {"XBLOCK": 512, "num_warps": 8, "configs_hash": "x"}})
    assert entries["triton_poi_fused_add_0"] == {"key": key, "config": {"XBLOCK": 512, "num_warps": 8}}
    assert entries["triton_red_fused_sum_1"] == {}, "two kernels have the name"


def row(
    us: float, *, ahead: bool, device: str = "H100", **kernels: tuple[str, float, float]
) -> dict[str, Any]:
    entries = {name: {"key": key, "calls": calls, "us": us} for name, (key, calls, us) in kernels.items()}
    return {
        "model": "m", "device": device, "configuration": "default", "ahead": ahead, "at_once": 1, "us": us,
        "first": 1.0, "timed": 3,
        "kernels": {**entries, "gemm": {"calls": 1.0, "us": 50.0}},
    }  # fmt: skip


def test_what_is_lost_is_the_difference_to_the_fastest_of_the_same_source() -> None:
    lines = table(
        [
            row(900.0, ahead=False, triton_a=("k", 4.0, 292.0), triton_b=("l", 1.0, 9.0)),
            row(700.0, ahead=True, triton_c=("k", 4.0, 92.0), triton_b=("l", 1.0, 8.0)),
            row(600.0, ahead=True, device="H200", triton_a=("k", 4.0, 50.0), triton_b=("l", 1.0, 5.0)),
            {"model": "m", "device": "H100", "configuration": "max-autotune", "late": 140.0},
        ]
    ).splitlines()[2:]
    assert len(lines) == 3, "a compile that was late has no times"
    assert lines[0].endswith("| yes | 1 | 700.0 | 1.0 | 3 | 0 |  |"), "the fastest first"
    assert lines[1].endswith("| no | 1 | 900.0 | 1.0 | 3 | 201 | `triton_a` 200, `triton_b` 1 |")
    assert lines[2].startswith("| m | H200 | `default` |"), "another GPU's kernels do not count"
    assert lines[2].endswith("| yes | 1 | 600.0 | 1.0 | 3 | 0 |  |")


@pytest.mark.parametrize(
    ("name", "can"),
    [
        ("default", True), ("max-autotune", True),
        ("default+freezing=True+attention=flash", True), ("reduce-overhead+freezing=True", False),
        ("eager", False), ("default+blocks", False), ("backend:eager", False),
    ],
)  # fmt: skip
def test_what_the_benchmark_cannot_compile_is_refused(name: str, can: bool) -> None:  # noqa: FBT001 - both cases
    assert _can_compile(name) == can


@pytest.mark.parametrize(
    ("code", "is_ready"), [("print('ready')", True), ("import time; time.sleep(60)", False)]
)
def test_a_compile_that_is_late_is_ended(code: str, *, is_ready: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert _is_ready(process, time.monotonic() + (30 if is_ready else 0.5)) == is_ready
        assert process.wait(10) == (0 if is_ready else -9)

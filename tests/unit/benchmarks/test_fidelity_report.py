"""The report tells differences of the generation from choices that a GPU made by timing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.gpu import fidelity


def graph(*kernels: str, mm: int = 1) -> dict[str, Any]:
    return {"phase": "inference", "kernels": kernels, "externs": {"extern_kernels.mm": mm}}


def case(*graphs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"graphs": list(graphs), "failure": None, "seconds": 1.0, **more}


def test_a_padded_multiplication_is_no_difference_of_the_generation(tmp_path: Path) -> None:
    plain = graph("first", "second")
    padded = case(graph("pad", "first", "other"), padded=["[2, 3] @ [3, 2]"], untimed=case(plain))
    halves = {
        "real": {
            "padded": {"float32": padded},
            "wrong": {"float32": case(graph("first\nx", "second", mm=2))},
        },
        "virtual": {"padded": {"float32": case(plain)}, "wrong": {"float32": case(plain)}},
    }
    assert fidelity._report(tmp_path, {}, ["padded"], halves) == 0
    (changed,) = (tmp_path / "differences").iterdir()
    assert changed.name == "padded-float32-inference.diff"
    assert changed.read_text().strip() == (
        "# decided by timing on the GPU: 2 kernels differ, 0 with nothing timed. Padded: [2, 3] @ [3, 2]"
    )
    assert fidelity._report(tmp_path, {}, ["padded", "wrong", "absent"], halves) == 1
    rows = (tmp_path / "fidelity.md").read_text().splitlines()
    assert "| padded | float32 | inference | 1 / 3 | 2 / 2 | 1 / 1 |" in rows
    assert "| **total** | | | 2 / 5 | 3 / 4 | 2 / 3 |" in rows
    difference = (tmp_path / "differences" / "wrong-float32-inference.diff").read_text()
    assert difference.startswith("# extern_kernels.mm: (2, 1)\n\n--- real\n+++ virtual")
    assert "\n-x\n" in difference
    report = json.loads((tmp_path / "fidelity.json").read_text())
    assert report["failures"] == ["absent: not run: the time was over"]
    assert [result["padded"] for result in report["results"]] == [["[2, 3] @ [3, 2]"], []]

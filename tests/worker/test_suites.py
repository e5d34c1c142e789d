"""Rows of the built-in suites make their models and run, and torch's own record of the run says what Fuselight says."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.suites import suite_rows

ROOT = Path(__file__).parents[2]
TRANSFORMERS = ("DistilBertForMaskedLM", "T5Small", "hf_Reformer")
OTHERS = {"timm": "regnety_002", "torchvision": "squeezenet1_1"}

# No test here needs the import itself, which takes a second in each process of pytest.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None,
    reason="the models come from transformers",
)


def measure(results: Path, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    command = [sys.executable, str(ROOT / "benchmarks" / "suite.py"), "run", "--results", str(results)]
    done = subprocess.run(
        [*command, "--models", ",".join(names)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return {line["name"]: line for line in lines if "name" in line}


def test_rows_run_and_agree_with_torch(tmp_path: Path) -> None:
    found = measure(tmp_path / "suite.jsonl", TRANSFORMERS)
    assert set(found) == set(TRANSFORMERS)
    for row in found.values():
        assert row["failure"] == "", row
        assert row["agrees"] is True, row
        assert row["graphs"] > 0, row
        assert row["facts"]["graphs"][0] > 0, row
    assert [found[name]["breaks"] for name in ("DistilBertForMaskedLM", "T5Small")] == [0, 0]
    assert found["hf_Reformer"]["breaks"] > 0


@pytest.mark.parametrize("package", OTHERS)
def test_a_row_of_another_library_runs(package: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    name = OTHERS[package]
    assert any(row.name == name and row.packages == (package,) for row in suite_rows("pytorch-163"))
    found = measure(tmp_path / "suite.jsonl", (name,))
    assert (found[name]["failure"], found[name]["agrees"], found[name]["graphs"]) == ("", True, 1)

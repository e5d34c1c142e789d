"""Rows of the built-in suites make their models and run, and torch's own record of the run says what Fuselight says."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.suites import suite_rows
from tests.support.case_files import selected_names
from tests.support.prepared import program_interpreter

ROOT = Path(__file__).parents[3]
OTHERS = {"timm": "regnety_002", "torchvision": "squeezenet1_1"}

# No test here needs the import itself, which takes a second in each process of pytest.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None,
    reason="the models come from transformers",
)


def measure(results: Path, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    command = [
        program_interpreter(),
        str(ROOT / "benchmarks" / "studies" / "suite.py"),
        "run",
        "--results",
        str(results),
    ]
    done = subprocess.run(
        [*command, "--models", ",".join(names)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return {line["name"]: line for line in lines if "name" in line}


@pytest.fixture(scope="module")
def rows(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """The rows of the selected models, by name, from one process."""
    names = tuple(selected_names(request, "name"))
    measured = measure(tmp_path_factory.mktemp("suite") / "suite.jsonl", names)
    assert set(measured) == set(names)
    return measured


@pytest.mark.parametrize(
    ("name", "has_breaks"),
    [
        pytest.param("T5Small", False, marks=pytest.mark.corpora),
        pytest.param("DistilBertForMaskedLM", False, marks=pytest.mark.contract),
        pytest.param("hf_Reformer", True, marks=pytest.mark.contract),
    ],
)
def test_a_row_runs_and_agrees_with_torch(
    name: str,
    has_breaks: bool,  # noqa: FBT001 - a column of the table
    rows: dict[str, dict[str, Any]],
) -> None:
    row = rows[name]
    assert row["failure"] == "", row
    assert row["agrees"] is True, row
    assert row["graphs"] > 0, row
    assert row["facts"]["graphs"][0] > 0, row
    assert (row["breaks"] > 0) is has_breaks, row


@pytest.mark.parametrize("package", OTHERS)
def test_a_row_of_another_library_runs(package: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    name = OTHERS[package]
    assert any(row.name == name and row.packages == (package,) for row in suite_rows("pytorch-163"))
    entries = measure(tmp_path / "suite.jsonl", (name,))
    assert (entries[name]["failure"], entries[name]["agrees"], entries[name]["graphs"]) == ("", True, 1)

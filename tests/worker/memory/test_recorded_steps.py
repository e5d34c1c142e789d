"""Estimates are those of an H200, whose steps were recorded (docs/results/memory.md has all of them)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.studies import memory_on_gpu
from benchmarks.studies.memory_models import MODELS

pytestmark = pytest.mark.torch

ROWS: list[dict[str, Any]] = json.loads(memory_on_gpu.RECORDING.read_text(encoding="utf-8"))["rows"]
COMPILED = "vocabulary of 128,256"
"""Its code is generated in a second."""
WANTED = [
    row
    for row in ROWS
    if row["model"] in MODELS
    and row["model"] != "convolutions"
    and (row["form"] == "eager" or row["model"] == COMPILED)
]


@pytest.mark.parametrize("row", WANTED, ids=lambda row: f"{row['model']}-{row['step']}-{row['form']}")
def test_the_peak_is_that_of_the_gpu(row: dict[str, Any]) -> None:
    peak = memory_on_gpu.estimated(row["model"], training=row["step"] == "training", form=row["form"])
    assert peak == pytest.approx(row["bytes"], rel=0.001)

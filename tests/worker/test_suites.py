"""Rows of the built-in suites make their models and run: one of each library that is installed here."""

from __future__ import annotations

import importlib.util

import pytest

from fuselight.report import Rung
from fuselight.suites import suite_rows
from tests.support.live_worker import LiveWorker

ROWS = {f"{row.group}/{row.name}": row for row in suite_rows("pytorch-163")}


@pytest.mark.parametrize(
    ("name", "is_whole"),
    [
        ("huggingface/DistilBertForMaskedLM", True),
        ("huggingface/T5Small", True),
        ("torchbench/hf_Reformer", False),
        ("torchbench/hf_GPT2", True),
        ("timm/regnety_002", True),
        ("torchbench/squeezenet1_1", True),
    ],
)
def test_a_row_makes_its_model_and_runs(live: LiveWorker, name: str, *, is_whole: bool) -> None:
    row = ROWS[name]
    for package in row.packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    report = live.analyse(row.text, row.target, file=row.file)
    assert report.failures == ()
    assert report.inputs is not None
    assert report.inputs.rung is Rung.DIRECTIVE
    graphs = {one.frame for one in report.compiles if one.graph is not None}
    if is_whole:
        assert (len(graphs), report.breaks) == (1, ())
    else:
        assert graphs
        assert report.breaks

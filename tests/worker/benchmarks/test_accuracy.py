# ruff: noqa: FBT001 - the columns of a table
"""A few architectures of `benchmarks/accuracy.py`: the graph breaks equal torch's own record."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.case_files import selected_names

# No test here needs the import itself, which takes a second in each process of pytest.
pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("transformers") is None,
        reason="the architectures come from transformers",
    ),
]
PATH = Path(__file__).parents[3] / "benchmarks" / "accuracy.py"


@pytest.fixture(scope="module")
def accuracy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("accuracy_benchmark", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def scores(request: pytest.FixtureRequest, accuracy: ModuleType) -> dict[str, Any]:
    """The scores of the selected models, by name; one process imports torch and the models for all."""
    names = selected_names(request, "name")
    return dict(zip(names, accuracy.measure([(name, "train") for name in names]), strict=True))


@pytest.mark.parametrize(
    ("name", "breaks"),
    [
        pytest.param("reformer", True, marks=pytest.mark.contract),
        pytest.param("gpt2", False, marks=pytest.mark.contract),
    ],
)
def test_every_record_is_reported_and_nothing_else(
    accuracy: ModuleType, scores: dict[str, Any], name: str, breaks: bool
) -> None:
    row = scores[name]
    assert row["error"] is None
    assert row["problems"] == 0
    assert bool(row["breaks"].recorded) is breaks
    for level in accuracy.LEVELS:
        score = row[level]
        assert score is not None
        assert (score.missing, score.surplus) == ((), ()), level


def test_a_comparison_counts_missing_and_extra_breaks(accuracy: ModuleType) -> None:
    score = accuracy.compare(
        {("a.py", 1, "GB0001"), ("a.py", 2, None)}, {("a.py", 1, "GB0001"), ("b.py", 1, None)}
    )
    assert (score.recall, score.precision) == (0.5, 0.5)
    assert score.missing == (("a.py", 2, None),)

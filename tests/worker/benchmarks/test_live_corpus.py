"""A few edits of the corpus on a small model: no prediction is wrong, and a break is found before the run finds it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest

from benchmarks.live_corpus.compare import SourceComparison
from benchmarks.live_corpus.sources import PREFIX
from tests.support.live_worker import LiveWorker

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns before Python 3.11"),
]

TEXT = f"""{PREFIX}

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x, bias=None):
        y = self.up(x)
        if bias is not None:
            y = y + bias
            y = y * 2
        z = y.relu()
        return z + x


class LiveCorpusModel(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.block = Block()

    def forward(self, x):
        return self.block(x)


def example_inputs():
    return [{{"x": torch.randn(2, 8)}}]
"""


@dataclass(frozen=True)
class SmallSource:
    """What a comparison needs of a source."""

    name: str = "small"
    held_out: bool = False

    def text(self) -> str:
        return TEXT


def test_predictions_agree_with_runs_of_the_edited_text(live: LiveWorker) -> None:
    source: Any = SmallSource()
    counts = {"insert": 2, "clean": 1, "untraced": 1}
    outcomes = SourceComparison(source, live).outcomes("3", counts, removals=1)
    kinds = [edit_outcome.kind for edit_outcome in outcomes]
    assert kinds == ["insert", "insert", "clean", "untraced", "remove"]
    for outcome in outcomes:
        assert (outcome.wrong_rules, outcome.wrong_trace, outcome.kept) == ([], [], 0), outcome
        assert outcome.refused == ""
        if outcome.kind == "insert":
            assert set(outcome.added) & set(outcome.trace or ()), outcome

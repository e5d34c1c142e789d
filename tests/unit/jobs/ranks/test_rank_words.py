"""Lists of ranks in words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.jobs.ranks.model import RankGroup


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ((3,), "rank 3"),
        ((5, 3), "ranks 3 and 5"),
        ((0, 1), "ranks 0 and 1"),
        ((0, 1, 2, 4, 6, 7), "ranks 0-2, 4, 6-7"),
        (range(1024), "ranks 0-1023"),
        (range(0, 60, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, ..."),
    ],
)
def test_runs_of_ranks_are_folded_and_long_lists_are_cut(ranks: Sequence[int], words: str) -> None:
    assert ranks_in_words(ranks) == words
    assert RankGroup(tuple(ranks)).label == words

"""Breaks of one place in one compile: what keeps torch from resuming belongs to the break that it meets there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import Break, Location, add_break

LINE, OTHER = Location("/w/m.py", 16), Location("/w/m.py", 17)
FIRST = Break("0/0", ("GB0170",), ("branch",), (LINE,))
SECOND = Break("0/0", ("GB0092",), ("no reconstruction",), (LINE,))


@pytest.mark.parametrize(
    ("second", "skipped", "rest"),
    [
        (SECOND, False, None),
        (replace(SECOND, frame_skipped=True), True, None),
        (replace(SECOND, rest_from=18), False, 18),
    ],
    ids=["alone", "the frame is skipped", "the rest is skipped"],
)
def test_what_follows_in_the_same_place_joins_the_break_with_what_it_costs(
    second: Break, *, skipped: bool, rest: int | None
) -> None:
    breaks = [FIRST]
    add_break(breaks, second)
    (joined,) = breaks
    assert (joined.ids, joined.types) == (("GB0170", "GB0092"), ("branch", "no reconstruction"))
    assert (joined.frame_skipped, joined.rest_from, joined.reason) == (skipped, rest, FIRST.reason)


@pytest.mark.parametrize(
    "other",
    [replace(SECOND, compile_id="1/0"), replace(SECOND, stack=(OTHER,)), replace(SECOND, ids=FIRST.ids)],
    ids=["another compile", "another line", "the same break again"],
)
def test_another_break_stays_one_of_its_own(other: Break) -> None:
    breaks = [FIRST]
    add_break(breaks, other)
    assert breaks == [FIRST, other]

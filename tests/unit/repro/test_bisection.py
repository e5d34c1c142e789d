"""The release in which a fault begins or ends, with a table in place of environments."""

from __future__ import annotations

import asyncio

import pytest

from fuselight.shared.report import ScriptOutcome, ScriptState
from fuselight_server.repro.bisection import ReleaseChange, find_change, releases_between

STATES = {"r": ScriptState.RIGHT, "w": ScriptState.FAULT, "?": ScriptState.ERROR}


def change_of(shown: str) -> tuple[ReleaseChange, list[str]]:
    """Of releases 2.0, 2.1 and so on: `r` is right, `w` wrong, `?` cannot run the program."""
    releases = tuple(f"2.{minor}" for minor in range(len(shown)))
    ran: list[str] = []

    async def run(name: str) -> ScriptOutcome:
        ran.append(name)
        return ScriptOutcome(STATES[shown[releases.index(name)]])

    return asyncio.run(find_change(releases, run)), ran


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ("rrrww", "torch 2.2 is right, and 2.3 is wrong"),
        ("rw", "torch 2.0 is right, and 2.1 is wrong"),
        ("wwwwr", "torch 2.3 is wrong, and 2.4 is right"),
        ("www", "torch 2.0 and 2.2 have the fault"),
        ("rrr", "torch 2.0 and 2.2 have no fault"),
        ("??rrww", "torch 2.3 is right, and 2.4 is wrong"),
        ("rrww?", "torch 2.1 is right, and 2.2 is wrong"),
        ("rr?ww", "torch 2.1 is right, and 2.3 is wrong (2.2 between them cannot run it)"),
        ("r???w", "torch 2.0 is right, and 2.4 is wrong (2.1, 2.2, 2.3 between them cannot run it)"),
        ("??w", "torch 2.2 has the fault"),
        ("???", "no release could run the program"),
    ],
)
def test_the_change_is_between_two_releases_that_ran(shown: str, words: str) -> None:
    change, ran = change_of(shown)
    assert change.words == words
    assert len(ran) == len(set(ran)), "no release runs twice"


def test_a_release_that_cannot_run_it_says_why() -> None:
    right, wrong = ScriptOutcome(STATES["r"]), ScriptOutcome(STATES["w"])
    outcomes = {
        "2.0": right,
        "2.1": ScriptOutcome(STATES["?"], "Traceback\nkilled after 900 s"),
        "2.2": wrong,
    }
    change = asyncio.run(find_change(tuple(outcomes), lambda name: asyncio.sleep(0, outcomes[name])))
    assert change.words == (
        "torch 2.0 is right, and 2.2 is wrong (2.1 between them cannot run it: killed after 900 s)"
    )
    first = {"2.0": outcomes["2.1"], "2.1": right}
    change = asyncio.run(find_change(tuple(first), lambda name: asyncio.sleep(0, first[name])))
    assert change.words == "torch 2.1 has no fault (2.0 cannot run it: killed after 900 s)"


def test_few_of_many_releases_run() -> None:
    change, ran = change_of("r" * 30 + "w" * 20)
    assert (change.before, change.after) == ("2.29", "2.30")
    assert len(ran) <= 8


@pytest.mark.parametrize(
    ("text", "releases"),
    [
        ("2.11..2.13", "2.11 2.12 2.13"),
        ("2.13.0..2.14.1", "2.13.0 2.14.0 2.14.1"),
        ("2.12.1..2.14.0", "2.12.1 2.13.0 2.14.0"),
        ("2.14.0..2.14.2", "2.14.0 2.14.1 2.14.2"),
        ("2.14.1..2.14.2", "2.14.1 2.14.2"),
    ],
)
def test_a_range_has_both_ends(text: str, releases: str) -> None:
    assert releases_between(text) == tuple(releases.split())


@pytest.mark.parametrize(
    "text", ["2.15..2.11", "2.13..2.14.1", "2.13.0..2.14", "1.13..2.0", "2.13.1..2.13.1", "2.13", ""]
)
def test_other_texts_are_not_ranges(text: str) -> None:
    with pytest.raises(ValueError, match="is not a range of releases"):
        releases_between(text)

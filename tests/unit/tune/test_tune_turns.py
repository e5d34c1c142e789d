"""Searches on one machine pause while one of them times calls."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fuselight.tune.turns import Turns

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the locks and forks of Unix")


@pytest.fixture
def searches(tmp_path: Path) -> Iterator[tuple[Turns, Turns]]:
    """Two searches of one user."""
    with ExitStack() as stack:
        pair = (Turns(str(tmp_path)), Turns(str(tmp_path)))
        for turns in pair:
            stack.callback(turns.close)
        yield pair


class Clock:
    """A clock that only waiting moves."""

    now = 0.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("fuselight.tune.turns.time.sleep", clock.sleep)
    return clock


def _wait_until_asked(turns: Turns) -> None:
    until = time.monotonic() + 20
    while not turns.is_asked_to_wait():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_search_times_only_while_the_other_waits(searches: tuple[Turns, Turns]) -> None:
    turns, other = searches
    happened: list[str] = []

    def time_calls() -> None:
        with turns.timing():
            happened.append("timed")

    assert not other.is_asked_to_wait()
    thread = threading.Thread(target=time_calls)
    thread.start()
    _wait_until_asked(other)
    happened.append("paused")
    other.make_way()
    happened.append("continued")
    thread.join(20)
    assert happened == ["paused", "timed", "continued"]
    assert turns.waited > 0
    assert other.waited > 0
    assert not other.is_asked_to_wait()


def test_two_searches_never_time_at_once(searches: tuple[Turns, Turns]) -> None:
    timing, most = [0], [0]

    def time_calls(turns: Turns) -> None:
        for _ in range(5):
            with turns.timing():
                timing[0] += 1
                most[0] = max(most[0], timing[0])
                time.sleep(0.01)
                timing[0] -= 1
        turns.close()  # one that goes on without making way would be waited for

    threads = [threading.Thread(target=time_calls, args=(search,)) for search in searches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1]


def test_a_fork_that_lives_on_holds_no_lock(tmp_path: Path, clock: Clock) -> None:
    turns = Turns(str(tmp_path))
    read, write = os.pipe()
    begun, begins = os.pipe()
    with turns.timing():
        child = os.fork()
        if child == 0:
            os.close(write)
            os.write(begins, b"1")
            os.read(read, 1)  # until the parent closes its end
            os._exit(0)
        assert os.read(begun, 1), "the fork runs: it has given up its copies of the locks"
    turns.close()
    other = Turns(str(tmp_path), clock=clock.read)
    try:
        assert not other.is_asked_to_wait()
        with other.timing():
            assert other.waited == 0
    finally:
        other.close()
        for pipe in (write, read, begun, begins):
            os.close(pipe)
        os.waitpid(child, 0)


def test_without_a_folder_a_search_is_alone(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder in ("", str(file / "below")):
        turns = Turns(folder, clock=clock.read)
        with turns.timing():
            assert not Turns(folder, clock=clock.read).is_asked_to_wait()
        turns.make_way()
        assert turns.waited == 0


@pytest.mark.parametrize("kind", ["link", "open to others", "another user's", "a file", "linked locks"])
def test_a_folder_that_others_prepared_is_not_used(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """A search then runs as if it were alone: nobody else can hold its locks, and it writes nowhere else."""
    folder, elsewhere = tmp_path / "turns", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if kind == "link":
        folder.symlink_to(elsewhere)
    elif kind == "a file":
        folder.touch()
    else:
        folder.mkdir(mode=0o700)
    if kind == "open to others":
        folder.chmod(0o777)
    elif kind == "another user's":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    elif kind == "linked locks":
        (folder / "running").symlink_to(elsewhere / "running")
    turns = Turns(str(folder), clock=clock.read)
    with turns.timing():
        assert not turns.is_asked_to_wait()
    turns.close()
    assert clock.now == 0, "nobody was waited for"
    assert not list(elsewhere.iterdir())
    assert folder.is_symlink() or folder.is_file() or kind == "linked locks" or not list(folder.iterdir())

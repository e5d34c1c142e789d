"""Answers that outlast the server: private, revocable, and never from a file that somebody else wrote."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fuselight_server.base.consent_store import ConsentAnswer, ConsentStore, state_folder


@pytest.fixture
def store(tmp_path: Path) -> ConsentStore:
    return ConsentStore(tmp_path / "state" / "fuselight")


def subjects(store: ConsentStore) -> list[str]:
    return [kept.subject for kept in store.answers()]


def answer(store: ConsentStore, subject: str) -> str | None:
    entry = store.entry(subject)
    return entry.answer if entry is not None else None


def test_an_answer_outlasts_the_store_object(store: ConsentStore) -> None:
    assert answer(store, "/w") is None
    store.keep_answer("/w", "run")
    store.keep_answer("/w/train.py#first-call", "command")
    again = ConsentStore(store.path.parent)
    assert (answer(again, "/w"), answer(again, "/w/train.py#first-call")) == ("run", "command")
    assert answer(again, "/w/train.py") is None, "an answer about a part is none for the whole program"
    again.keep_answer("/w", "never")
    assert answer(store, "/w") == "never"


def test_later_is_no_answer(store: ConsentStore) -> None:
    store.keep_answer("/w", "later")
    assert not store.path.exists()


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("/w", ["/other/a.py", "/w2"]),
        ("/w/a.py", ["/other/a.py", "/w", "/w2"]),
        ("/w2", ["/other/a.py", "/w", "/w/a.py", "/w/a.py#first-call"]),
        ("/nowhere", ["/other/a.py", "/w", "/w/a.py", "/w/a.py#first-call", "/w2"]),
    ],
)
def test_forgetting_a_path_forgets_what_lies_in_it(store: ConsentStore, path: str, left: list[str]) -> None:
    for subject in ("/w", "/w/a.py", "/w/a.py#first-call", "/w2", "/other/a.py"):
        store.keep_answer(subject, "run")
    forgotten = [kept.subject for kept in store.forget_answers(path)]
    assert subjects(store) == left
    assert len(forgotten) == 5 - len(left)


def test_all_answers_are_forgotten(store: ConsentStore) -> None:
    store.keep_answer("/w", "run")
    assert [kept.subject for kept in store.forget_all()] == ["/w"]
    assert store.forget_all() == ()
    assert store.answers() == ()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_nobody_else_reads_the_file_or_puts_another_in_its_place(store: ConsentStore) -> None:
    store.keep_answer("/w", "run")
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    store.path.parent.chmod(0o755)
    assert answer(store, "/w") is None, "others could have written it"
    with pytest.raises(OSError, match="other users can open it"):
        store.keep_answer("/w", "run")


@pytest.mark.skipif(os.name != "posix", reason="making a link needs no permission on POSIX alone")
def test_a_link_in_place_of_the_file_is_not_followed(store: ConsentStore, tmp_path: Path) -> None:
    store.keep_answer("/w", "run")
    elsewhere = tmp_path / "elsewhere.json"
    store.path.rename(elsewhere)
    store.path.symlink_to(elsewhere)
    assert answer(store, "/w") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 2, "answers": {"/w": {"answer": "run", "when": 1}}}',
        '{"schema": 1, "answers": ["/w"]}',
        '{"schema": 1, "answers": {"/w": "run"}}',
        '{"schema": 1, "answers": {"/w": {"answer": "always", "when": 1}}}',
        '{"schema": 1, "answers": {"/w": {"answer": "run", "when": "x"}}}',
    ],
)
def test_a_damaged_file_counts_as_empty_and_is_replaced(store: ConsentStore, text: str) -> None:
    store.keep_answer("/w", "run")
    store.path.write_text(text)
    assert answer(store, "/w") is None
    store.keep_answer("/v", "never")
    assert store.answers() == (ConsentAnswer("/v", "never", store.answers()[0].when),)
    assert json.loads(store.path.read_text())["schema"] == 1


def test_each_system_has_its_folder() -> None:
    home = Path.home()
    assert state_folder({}, "linux") == home / ".local" / "state" / "fuselight"
    assert state_folder({"XDG_STATE_HOME": "/x"}, "linux") == Path("/x/fuselight")
    assert state_folder({}, "darwin") == home / "Library" / "Application Support" / "fuselight"
    assert state_folder({"LOCALAPPDATA": "/l"}, "win32") == Path("/l/fuselight")


def test_answers_that_are_given_at_the_same_time_are_all_kept(store: ConsentStore) -> None:
    stores = [ConsentStore(store.path.parent) for _ in range(16)]
    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(lambda item: item[1].keep_answer(f"/w{item[0]}", "run"), enumerate(stores)))
    assert subjects(store) == sorted(f"/w{number}" for number in range(len(stores)))


def test_a_time_that_no_float_holds_is_no_answer(store: ConsentStore) -> None:
    store.keep_answer("/w", "run")
    store.path.write_text(store.path.read_text().replace(str(store.answers()[0].when), "9" * 400))
    assert store.answers() == ()

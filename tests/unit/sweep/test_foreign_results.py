"""A results folder that others have prepared: nothing outside of it is written, and nothing of theirs is cut."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fuselight.shared.suites import suite_rows, write_rows
from fuselight_server.sweep.results import (
    ABOUT,
    LOCK,
    PAGE,
    ROWS,
    ResultsError,
    ResultsFolder,
    earlier_sweep,
    read_results,
)
from tests.support.sweeps import row

FOREIGN = b"my own data, without an end of line"


def used(path: Path) -> ResultsFolder:
    folder = ResultsFolder(path)
    try:
        folder.take_folder()
        folder.open_rows()
        folder.append(row("a"))
        folder.write(ABOUT, '{"suite": "s"}')
        folder.write(PAGE, "<html>Fuselight</html>")
    finally:
        folder.close()
    return folder


@pytest.mark.parametrize("name", [LOCK, ROWS])
@pytest.mark.parametrize("kind", ["file", "folder", "nowhere", "pipe", "zero"])
def test_no_link_of_a_results_folder_is_followed(tmp_path: Path, name: str, kind: str) -> None:
    target, out = tmp_path / "target", tmp_path / "out"
    out.mkdir()
    make: dict[str, Callable[[], object]] = {
        "file": lambda: target.write_bytes(FOREIGN), "folder": target.mkdir, "pipe": lambda: os.mkfifo(target),
        "zero": lambda: target.symlink_to("/dev/zero"), "nowhere": lambda: None,
    }  # fmt: skip
    make[kind]()
    (out / name).symlink_to(target)
    with pytest.raises(ResultsError, match="it is a link"):
        used(out)
    assert (out / name).is_symlink()
    if kind == "file":
        assert target.read_bytes() == FOREIGN
    assert kind != "nowhere" or not target.exists()


@pytest.mark.parametrize("name", [LOCK, ROWS, ABOUT, PAGE])
@pytest.mark.parametrize("text", [FOREIGN, b'{"a": 1}\n{"b"', b"\n\nx\n"])
def test_a_file_of_the_users_is_neither_cut_nor_replaced(tmp_path: Path, name: str, text: bytes) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(ResultsError, match=f"{name} is no file of a sweep: move it away"):
        used(tmp_path)
    assert (tmp_path / name).read_bytes() == text


def test_a_pipe_in_place_of_the_rows_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ROWS)
    with pytest.raises(ResultsError, match="not a regular file"):
        used(tmp_path)
    with pytest.raises(ResultsError, match="not a regular file"):
        read_results(str(tmp_path))


def test_what_a_sweep_has_written_is_its_own(tmp_path: Path) -> None:
    used(tmp_path)
    (tmp_path / ROWS).write_bytes((tmp_path / ROWS).read_bytes() + b'{"id":"half')
    used(tmp_path)
    assert [sweep_row.name for sweep_row in read_results(str(tmp_path)).rows] == ["a"]
    (tmp_path / ROWS).write_bytes(b'{"i')  # the first write was interrupted
    used(tmp_path)
    assert (tmp_path / LOCK).read_bytes().startswith(f"{os.getpid()} on ".encode())


def test_the_sweeps_of_a_store_lie_in_it(tmp_path: Path) -> None:
    """A repository may bring `.fuselight`, or a part of it, as a link."""
    elsewhere, store = tmp_path / "elsewhere", tmp_path / "project" / ".fuselight"
    used(elsewhere / "s-20260101-000000")
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    store.mkdir(parents=True)
    (store / "sweeps").symlink_to(elsewhere)
    assert earlier_sweep(store / "sweeps", "s", "s") is None
    for name in ("s-20260101-000000", "new/deep"):
        with pytest.raises(ResultsError, match="it is a link"):
            used(store / "sweeps" / name)
    assert {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()} == before
    assert not (elsewhere / "new").exists()


def test_the_models_of_a_suite_replace_no_file_of_the_users(tmp_path: Path) -> None:
    rows = [suite_row for suite_row in suite_rows("pytorch-163") if not suite_row.absent][:1]
    path = Path(write_rows(rows, str(tmp_path / "models"))[rows[0].file])
    write_rows(rows, str(tmp_path / "models"))
    path.write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(OSError, match="no file of a suite"):
        write_rows(rows, str(tmp_path / "models"))
    assert path.read_text(encoding="utf-8") == "x = 1\n"
    (tmp_path / "linked").symlink_to("models")
    with pytest.raises(OSError, match="a link"):
        write_rows(rows, str(tmp_path / "linked"))
    other = tmp_path / "other"
    other.mkdir()
    (other / path.relative_to(tmp_path / "models").parts[0]).symlink_to(tmp_path)
    with pytest.raises(OSError, match="a link"):
        write_rows(rows, str(other))

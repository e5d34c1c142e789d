"""The folder of a sweep: nothing is lost, nothing is repeated, and nothing that is damaged stops it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuselight_server.sweep.exports import rows_as_json
from fuselight_server.sweep.results import (
    ABOUT,
    ROWS,
    ResultsError,
    ResultsFolder,
    earlier_sweep,
    read_results,
)
from fuselight_server.sweep.rows import SweepAbout, SweepRow
from tests.support.sweeps import failed, row


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[ResultsFolder]:
    taken = ResultsFolder(tmp_path / "out" / "sweep")
    taken.take_folder()
    yield taken
    taken.close()


def again(folder: ResultsFolder) -> tuple[SweepRow, ...]:
    folder.close()
    folder.take_folder()
    return folder.open_rows()


def test_rows_come_back_as_they_were(folder: ResultsFolder) -> None:
    assert folder.open_rows() == ()
    assert not folder.has_rows()
    rows = (row("a", breaks=1, break_causes={"x": 1}, notes=("n",)), failed("b"))
    for sweep_row in rows:
        folder.append(sweep_row)
    assert again(folder) == rows
    assert read_results(str(folder.path)).rows == rows


def test_the_newest_row_of_a_task_counts(folder: ResultsFolder) -> None:
    folder.open_rows()
    folder.append(row("a", breaks=1))
    folder.append(row("b"))
    folder.append(row("a", breaks=2))
    assert [(sweep_row.name, sweep_row.breaks) for sweep_row in again(folder)] == [("a", 2), ("b", None)]


@pytest.mark.parametrize("left", [b'{"id":"b', b"\x00\xff", b'{"id":"b"}'])
def test_what_an_interrupted_write_left_is_cut_off(folder: ResultsFolder, left: bytes) -> None:
    folder.open_rows()
    folder.append(row("a"))
    with (folder.path / ROWS).open("ab") as file:
        file.write(left)
    assert [sweep_row.name for sweep_row in again(folder)] == ["a"]
    folder.append(row("b"))
    assert [sweep_row.name for sweep_row in again(folder)] == ["a", "b"]
    assert folder.damaged == 0


def test_a_damaged_line_hides_no_other(folder: ResultsFolder) -> None:
    folder.open_rows()
    folder.append(row("a"))
    with (folder.path / ROWS).open("ab") as file:
        file.write(b"\xff not json\n[]\n" + b'{"id": 3}\n')
    folder.close()
    folder.take_folder()
    folder.open_rows()
    folder.append(row("b"))
    assert [sweep_row.name for sweep_row in again(folder)] == ["a", "b"]
    assert folder.damaged == 3


@pytest.mark.slow
def test_two_sweeps_in_one_folder_are_refused(folder: ResultsFolder) -> None:
    script = (
        "import sys; from pathlib import Path; from fuselight_server.sweep.results import *\n"
        "try: ResultsFolder(Path(sys.argv[1])).take_folder()\n"
        "except ResultsError as error: print(error)"
    )
    stdout = subprocess.run(
        [sys.executable, "-c", script, str(folder.path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout
    assert f"another sweep (process {os.getpid()} on " in stdout
    assert "--out" in stdout
    folder.close()
    folder.take_folder()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ResultsError, match=r"cannot write results to .*--out"):
        ResultsFolder(tmp_path / "file" / "out").take_folder()


def test_a_full_disk_keeps_the_rows_before(folder: ResultsFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.open_rows()
    folder.append(row("a"))
    real = os.write

    def write(descriptor: int, data: memoryview) -> int:
        if len(data) < 40:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: len(data) - 30])

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(ResultsError, match="No space left"):
        folder.append(row("b"))
    monkeypatch.undo()
    folder.append(row("c"))
    assert [sweep_row.name for sweep_row in again(folder)] == ["a", "c"]
    assert folder.damaged == 0


def test_an_export_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(rows_as_json([row("a")], SweepAbout(suite="s")), encoding="utf-8")
    results = read_results(str(path))
    assert [sweep_row.name for sweep_row in results.rows] == ["a"]
    assert results.about == SweepAbout(suite="s")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"rows": 3}', "\x00"])
def test_what_is_no_sweep_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError, match="no row of a sweep"):
        read_results(str(tmp_path / "x.json"))
    with pytest.raises(ResultsError, match="has no results"):
        read_results(str(tmp_path / "nothing"))


def test_rows_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / ROWS).write_text(json.dumps({"schema": 99, "id": "a"}) + "\n", encoding="utf-8")
    with pytest.raises(ResultsError, match="newer version"):
        read_results(str(tmp_path))


def test_the_sweep_to_resume_is_the_newest_of_its_suite(tmp_path: Path) -> None:
    def swept(name: str, about: str) -> Path:
        (tmp_path / "sweeps" / name).mkdir(parents=True)
        (tmp_path / "sweeps" / name / ABOUT).write_text(about, encoding="utf-8")
        return tmp_path / "sweeps" / name

    def resumed_sweep(suite: str, path: str) -> Path | None:
        return earlier_sweep(tmp_path / "sweeps", suite, path)

    here = str(tmp_path / "a")
    assert resumed_sweep("a", here) is None
    swept("a-20260101-000000", json.dumps({"path": here}))
    latest = swept("a-20260102-000000", json.dumps({"path": f"{here}/../a"}))
    for number, about in enumerate(
        ("{", "[]", "{}", '{"path": 3}', '{"path": "\\u0000"}', '{"path": "/other/a"}')
    ):
        swept(f"a-20260103-00000{number}", about)
    swept("a-3-20260104-000000", json.dumps({"path": here}))
    assert resumed_sweep("a", here) == latest
    old = swept("pytorch-163-20260101-000000", json.dumps({"path": str(tmp_path / "pytorch-163")}))
    assert resumed_sweep("pytorch-163", "pytorch-163") == old, "as older versions wrote it"
    new = swept("pytorch-163-20260102-000000", json.dumps({"path": "pytorch-163"}))
    assert resumed_sweep("pytorch-163", "pytorch-163") == new
    assert resumed_sweep("pytorch-163", str(tmp_path / "elsewhere" / "pytorch-163")) is None

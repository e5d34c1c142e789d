"""A run on save: it does not change the workspace's files, and ends once it has seen the inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from fuselight.shared.report import Report
    from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

TRAINING = """\
import os, pathlib, shutil, torch

@torch.compile(backend="eager")
def step(x):
    return (x * 2).sum()

if __name__ == "__main__":
    assert open("log.txt").read() == "mine"
    torch.save({"weight": torch.ones(2)}, "ckpt.pt")
    assert torch.load("ckpt.pt")["weight"].tolist() == [1, 1]
    with open("log.txt", "a") as log:
        log.write("!")
    assert pathlib.Path("log.txt").read_text() == "mine!"
    pathlib.Path("new.txt").write_text("new")
    torch.save([1], "ckpt.tmp")
    os.replace("ckpt.tmp", "ckpt.pt")
    assert torch.load("ckpt.pt") == [1]
    os.replace("old.txt", "moved.txt")
    assert open("moved.txt").read() == "old"
    os.remove("log.txt")
    shutil.rmtree("runs")
    pathlib.Path("kept.txt").unlink()
    for number in range(100):
        step(torch.ones(4))
        if number == 5:
            step(torch.ones(4, 4))
    raise ValueError("this is never reached by a save")
"""
FILES = {"log.txt": "mine", "ckpt.pt": "weights", "old.txt": "old", "kept.txt": "kept", "runs/events": "e"}


@pytest.fixture
def worker(one_worker: LiveWorker, tmp_path: Path) -> LiveWorker:
    one_worker.move_to(tmp_path)
    return one_worker


def run(worker: LiveWorker, source: str, name: str = "", *, automatic: bool) -> Report:
    return worker.report(replace(worker.request(source, name), automatic=automatic))


def write(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def files(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".py"]
    return {path.relative_to(folder).as_posix(): path.read_bytes().decode(errors="replace") for path in paths}


def test_a_run_on_save_writes_no_file_of_the_workspace(worker: LiveWorker) -> None:
    write(worker.folder)
    source = f"import os\nos.chdir({str(worker.folder)!r})\n{TRAINING}"
    report = run(worker, source, automatic=True)
    assert files(worker.folder) == FILES
    assert not report.failures, report.failures
    notes = {note.kind: note for note in report.notes}
    assert notes["writes_diverted"].text == (
        "this run on save did not write or change `ckpt.pt`, `log.txt`, `new.txt` and 5 more"
    )
    where = notes["writes_diverted"].location
    assert where is not None
    assert source.splitlines()[where.line - 1].strip().startswith("torch.save")


def test_a_run_on_save_ends_once_nothing_new_is_compiled(worker: LiveWorker) -> None:
    write(worker.folder)
    source = f"import os\nos.chdir({str(worker.folder)!r})\n{TRAINING}"
    report = run(worker, source, automatic=True)
    assert len(report.compiles) == 2, "the second shape comes before the end"
    (note,) = (note for note in report.notes if note.kind == "ended_early")
    assert note.location is not None
    assert source.splitlines()[note.location.line - 1] == "        step(torch.ones(4))"


def test_a_run_that_the_user_starts_is_the_whole_program(worker: LiveWorker) -> None:
    write(worker.folder)
    report = run(worker, f"import os\nos.chdir({str(worker.folder)!r})\n{TRAINING}", automatic=False)
    assert [failure.exception for failure in report.failures] == ["ValueError"]
    assert not {"writes_diverted", "ended_early"} & {note.kind for note in report.notes}
    assert set(files(worker.folder)) == {"ckpt.pt", "moved.txt", "new.txt"}


READING = """\
import torch

# fuselight: f(f32[4])
def f(x):
    with open(__file__) as file:
        file.read()
    return x.sin()
"""


def test_a_break_at_open_reads_the_same_in_either_run(worker: LiveWorker) -> None:
    saved, asked = (run(worker, READING, "f", automatic=automatic) for automatic in (True, False))
    assert [graph_break.reason for graph_break in saved.breaks] == [
        graph_break.reason for graph_break in asked.breaks
    ]
    assert [graph_break.stack for graph_break in saved.breaks] == [
        graph_break.stack for graph_break in asked.breaks
    ]
    assert saved.breaks

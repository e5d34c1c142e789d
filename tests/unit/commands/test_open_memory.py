"""`fuselight open` on snapshots of the allocator: lines of the local source, ranks, and files that cannot be read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.editor.presenters.job_page import page_of
from fuselight_server.editor.results.jobs import job_result_of
from fuselight_server.editor.session.jobs import summary_of
from tests.support.command import run_cli
from tests.support.snapshots import BACKWARD, Allocator, frame
from tests.support.trace_logs import JOBS

MIB = 1 << 20
SOURCE = """\
import torch


class Net:
    def forward(self, x):
        h = self.up(x)
        self.seen.append(h.mean(0))
        return h


def train(net):
    for x in batches():
        net(x).sum().backward()
"""
CALLER = frame(13, "train")


def trained(size: int) -> Allocator:
    allocator = Allocator()
    for _ in range(6):
        hidden = allocator.alloc(size, [frame(6), CALLER])
        allocator.alloc(MIB, [frame(7), CALLER])
        allocator.free(allocator.alloc(512, [*BACKWARD, CALLER]))
        allocator.free(hidden)
    return allocator


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "train.py").write_text(SOURCE)
    snapshots = tmp_path / "snapshots"
    snapshots.mkdir()
    for rank in range(2):
        allocator = trained((1 + rank) * 4 * MIB)
        if rank:
            allocator.fail(1 << 30, [frame(6), CALLER], 36 * MIB)
        (snapshots / f"rank{rank}.pickle").write_bytes(allocator.pickled())
    (snapshots / "rank2.pickle").write_bytes(trained(MIB).pickled()[:2000])
    return tmp_path


def test_text_has_findings_peaks_and_differences_on_local_lines(folder: Path) -> None:
    run = run_cli("open", str(folder / "snapshots"), "--source", str(folder / "app"))
    assert run.exit_code == 1
    text = run.stdout
    assert text.startswith(
        "Job snapshots, 2 snapshots\n\nerror[FL952]: memory ran out here: 1.1 GB were asked for"
    )
    assert "warning[FL951]: memory grows here: 1 MB more in each of 5 steps, which is never freed" not in text
    assert "warning[FL951]: memory grows here: 1 MB more in each of 5 backwards, which is never freed" in text
    assert "In ranks 0 and 1 of 2 snapshots; the numbers are of rank 0." in text
    assert "The snapshot does not quote this line" in text
    assert "rank 1 has more at its peak than rank 0:" in text
    assert "train.py:6  h = self.up(x)" in text
    assert "rank2.pickle: the snapshot cannot be read: the pickle is cut off." in text


def test_json_has_the_memory_of_each_process(folder: Path) -> None:
    run = run_cli("open", str(folder / "snapshots"), "--source", str(folder / "app"), "--format", "json")
    (job,) = json.loads(run.stdout)["jobs"]
    first, second = job["memory"]["processes"]
    assert (first["label"], second["label"]) == ("rank 0", "rank 1")
    (device,) = first["devices"]
    assert device["growth"]["lines"][0]["held"]["location"]["path"] == str(folder / "app" / "train.py")
    assert sum(row["bytes"] for row in device["peak"]["held"]) == device["peak"]["allocated"]
    (difference,) = job["memory"]["differences"]
    assert (difference["most_rank"], difference["most"] - difference["least"]) == (1, 4 * MIB)


def test_snapshots_and_logs_in_one_folder_are_one_job(folder: Path) -> None:
    recorded = next(path for path in JOBS if path.name == "graph_break")
    for log in recorded.iterdir():
        (folder / "snapshots" / log.name).write_bytes(log.read_bytes())
    run = run_cli("open", str(folder / "snapshots"), "--source", str(folder / "app"), "--format", "json")
    (job,) = json.loads(run.stdout)["jobs"]
    assert len(job["processes"]) == 1
    assert len(job["memory"]["processes"]) == 2


def test_a_snapshot_alone_that_cannot_be_read_is_an_error(folder: Path) -> None:
    run = run_cli("open", str(folder / "snapshots" / "rank2.pickle"))
    assert run.exit_code == 2
    assert "the snapshot cannot be read: the pickle is cut off." in run.stderr


def test_memory_in_pieces_is_on_the_line_that_keeps_them(folder: Path) -> None:
    allocator = Allocator()
    for _ in range(10):
        allocator.alloc(20 * MIB, [frame(6), CALLER])
        (block,) = allocator.segments[-1]["blocks"]
        block["size"] = 6 * MIB
        piece = {**block, "address": block["address"] + 6 * MIB, "size": 14 * MIB, "state": "inactive"}
        allocator.segments[-1]["blocks"].append(piece)
    file = folder / "pieces.pickle"
    file.write_bytes(allocator.pickled())
    run = run_cli("open", str(file), "--source", str(folder / "app"))
    assert "[FL953]: memory in pieces: tensors of this line keep segments with 147 MB of 147 MB" in run.stdout
    assert "expandable_segments:True" in run.stdout
    assert run.exit_code == 0


def test_the_page_of_a_job_has_its_memory_without_a_log(folder: Path) -> None:
    request = OpenRequest((folder / "snapshots",), (folder / "app",))
    (opened,) = asyncio.run(open_jobs(request, lambda _: None, CancelToken()))
    result = job_result_of(0, "", opened)
    assert {item.tracked.finding.code for item in result.findings} == {"FL951", "FL952"}
    page = page_of(result, None, (), lambda path: Path(path).name)
    assert page.statements[0] == "2 findings in 2 snapshots (1 error and 1 warning)"
    assert page.statements[1].startswith("Memory of rank 1: peak 14.7 MB of tensors")
    assert summary_of(opened) == "2 findings in 2 snapshots"

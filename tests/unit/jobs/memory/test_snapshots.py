"""Snapshots of torch's allocator: what is read of each release, and what damaged and hostile files come to."""

from __future__ import annotations

import contextlib
import gzip
import pickle
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from fuselight_server.jobs.memory.analysis import analyze
from fuselight_server.jobs.memory.files import MAX_UNPACKED, find_snapshots, rank_of, read_memory
from fuselight_server.jobs.memory.model import DeviceMemory, MemoryGrowth, StepMark, TensorOrigin
from fuselight_server.jobs.memory.snapshot import SnapshotError, parse_snapshot
from fuselight_server.jobs.memory.words import growth_in_words
from tests.support.snapshots import APP, BACKWARD, GENERATED, OPTIMIZER, SITE, Allocator, frame

MIB = 1 << 20
RELEASES = ("2.0", "2.11", "2.15")
CALLER = frame(40, "train")


def trained(release: str = "2.15", steps: int = 8, *, marks: bool = True) -> Allocator:
    """Steps of which line 10 keeps a tensor and line 12 none."""
    allocator = Allocator(release)
    allocator.existing(8 * MIB)
    for step in range(steps):
        hidden = allocator.alloc(4 * MIB, [frame(12), CALLER])
        allocator.alloc(MIB, [frame(10), CALLER])
        if marks:
            allocator.free(allocator.alloc(512, [*BACKWARD, CALLER]))
        gradient = allocator.alloc(2 * MIB, [])
        allocator.free(hidden)
        state = allocator.alloc(MIB, [*OPTIMIZER, frame(41, "train")] if marks else [frame(41, "train")])
        allocator.free(gradient)
        if step:
            allocator.free(state)
    return allocator


def device_of(allocator: Allocator, protocol: int = pickle.DEFAULT_PROTOCOL) -> DeviceMemory:
    (device,) = analyze(parse_snapshot(allocator.pickled(protocol)))
    return device


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_and_protocol_reads_alike(release: str) -> None:
    expected = device_of(trained(release))
    for protocol in range(
        1, pickle.HIGHEST_PROTOCOL + 1
    ):  # the bytes of a record are known at once from 4 on
        assert device_of(trained(release), protocol) == expected


def test_the_events_are_those_that_a_pickle_has() -> None:
    allocator = trained(steps=30)
    (trace,) = parse_snapshot(allocator.pickled()).traces
    for event, written in zip(trace, allocator.trace, strict=True):
        assert (event.action, event.address, event.size, event.time_us) == (
            written["action"],
            written["addr"],
            written["size"],
            written["time_us"],
        )
        frames = [(item["filename"], item["line"], item["name"]) for item in written["frames"]]
        assert [tuple(item) for item in event.stack.frames] == frames


def test_the_rows_of_a_peak_add_up_and_have_the_lines() -> None:
    peak = device_of(trained(steps=3)).peak
    assert peak.allocated == sum(row.bytes for row in peak.held)
    by_line = {(row.origin, row.location and row.location.line): row.bytes for row in peak.held}
    assert by_line == {
        (TensorOrigin.BEFORE, None): 8 * MIB,
        (TensorOrigin.LINE, 12): 4 * MIB,
        (TensorOrigin.LINE, 10): 3 * MIB,
        (TensorOrigin.NO_STACK, None): 2 * MIB,
        (TensorOrigin.LINE, 41): MIB,
    }


def test_a_line_that_is_never_freed_grows_and_no_other_does() -> None:
    growth = device_of(trained()).growth
    assert growth is not None
    assert (growth.mark, growth.steps) == (StepMark.OPTIMIZER, 7)
    (line,) = growth.lines  # not the state of the optimizer, of the first step
    assert line.held.location is not None
    assert (line.held.location.path, line.held.location.line) == (APP, 10)
    assert (line.held.bytes, line.steps) == (7 * MIB, 7)
    assert [place.line for place in line.callers] == [40, 10]
    assert growth.allocated[-1] - growth.allocated[0] == (7 + 1) * MIB  # and a temporary of the optimizer


def test_without_steps_the_parts_of_the_recording_are_compared() -> None:
    growth = device_of(trained(steps=40, marks=False)).growth
    assert growth is not None
    assert growth.mark is StepMark.PART
    assert [line.held.location and line.held.location.line for line in growth.lines] == [10]


def test_what_is_replaced_in_each_step_does_not_grow() -> None:
    allocator = Allocator()
    kept = 0
    for _ in range(8):
        new = allocator.alloc(MIB, [frame(10)])
        if kept:
            allocator.free(kept)
        kept = new
        allocator.free(allocator.alloc(512, [*BACKWARD, CALLER]))
    growth = device_of(allocator).growth
    assert growth is not None
    assert (growth.mark, growth.lines) == (StepMark.BACKWARD, ())


def stepped(steps: int, after: Callable[[Allocator, int], None]) -> MemoryGrowth:
    """The growth of a recording with `after` in each step."""
    allocator = Allocator()
    for step in range(steps):
        allocator.free(allocator.alloc(512, [*BACKWARD, CALLER]))
        after(allocator, step)
        allocator.free(allocator.alloc(512, [*OPTIMIZER, CALLER]))
    growth = device_of(allocator).growth
    assert growth is not None
    return growth


@pytest.mark.parametrize("every", [5, 10])
def test_a_line_that_keeps_a_tensor_in_every_nth_step_grows(every: int) -> None:
    def after(allocator: Allocator, step: int) -> None:
        if step % every == 0:
            allocator.alloc(3 * MIB, [frame(10)])

    growth = stepped(60, after)
    (line,) = growth.lines
    count = 60 // every - 1  # the first step is left out
    assert (line.held.bytes, line.steps, line.is_replaced) == (3 * MIB * count, count, False)
    assert growth_in_words(growth, line) == f"3.1 MB more in {count} of 59 steps, which is never freed"


@pytest.mark.parametrize(("most", "every", "cleared"), [(5, 1, 60), (1, 20, 60), (9, 10, 30)])
def test_a_buffer_that_lets_go_does_not_grow(most: int, every: int, cleared: int) -> None:
    """The last few steps, the best state so far, and what an epoch collects."""
    kept: list[int] = []

    def after(allocator: Allocator, step: int) -> None:
        while kept and (len(kept) >= most or step % cleared == 0):
            allocator.free(kept.pop(0))
        if step % every == 0:
            kept.append(allocator.alloc(3 * MIB, [frame(10)]))

    assert stepped(75, after).lines == ()


@pytest.mark.parametrize("steps", [5, 40])
def test_a_tensor_that_is_replaced_by_a_larger_one_grows(steps: int) -> None:
    kept: list[int] = []

    def after(allocator: Allocator, step: int) -> None:
        kept.append(allocator.alloc((step + 1) * MIB, [frame(10), CALLER]))
        for old in kept[:-1]:
            allocator.free(old)
        del kept[:-1]

    growth = stepped(steps, after)
    (line,) = growth.lines
    assert (line.is_replaced, line.held.bytes) == (True, (steps - 1) * MIB)
    assert line.held.location is not None
    assert (line.held.location.line, [place.line for place in line.callers]) == (10, [40, 10])
    assert growth_in_words(growth, line).endswith(f"more over {steps - 1} steps, in larger tensors")


def test_compiled_code_has_the_line_after_its_generated_module() -> None:
    allocator = Allocator()
    inner = frame(30, "call", GENERATED)
    package = frame(99, "forward", f"{SITE}/transformers/models/bert/modeling_bert.py")
    allocator.alloc(MIB, [inner, frame(7, "run", f"{SITE}/torch/_inductor/utils.py"), frame(12), CALLER])
    allocator.alloc(2 * MIB, [package, CALLER])
    allocator.alloc(3 * MIB, [package])
    rows = device_of(allocator).end.held
    assert [
        (row.origin, row.location and row.location.line, row.is_compiled, row.inside and row.inside.line)
        for row in rows
    ] == [
        (TensorOrigin.LIBRARY, 99, False, None),
        (TensorOrigin.LINE, 40, False, 99),
        (TensorOrigin.LINE, 12, True, None),
    ]


def test_memory_that_runs_out_has_its_line_and_what_was_alive() -> None:
    allocator = trained()
    allocator.fail(1 << 30, [frame(12), CALLER], 36 * MIB)
    (failure,) = device_of(allocator).failures
    assert (failure.requested, failure.device_free) == (1 << 30, 36 * MIB)
    assert failure.location is not None
    assert failure.location.line == 12
    assert failure.moment.allocated == (8 + 8 + 1) * MIB


def test_pieces_are_named_apart_from_whole_segments() -> None:
    allocator = Allocator()
    allocator.alloc(20 * MIB, [frame(12)])
    (segment,) = allocator.segments
    (block,) = segment["blocks"]
    block |= {"size": 6 * MIB}
    segment["blocks"].append(
        {**block, "address": block["address"] + 6 * MIB, "size": 14 * MIB, "state": "inactive"}
    )
    allocator.free(allocator.alloc(MIB, [frame(13)]))
    free = device_of(allocator).free
    assert (free.between_tensors, free.whole_segments, free.largest) == (14 * MIB, MIB, 14 * MIB)
    assert [(row.location and row.location.line, row.bytes) for row in free.pinned_by] == [(12, 14 * MIB)]


def test_damaged_snapshots_raise_no_other_error() -> None:
    data, numbers = trained().pickled(), random.Random(7)  # noqa: S311 - damage that is the same each time
    for _ in range(150):
        damaged = bytearray(data[: numbers.randrange(len(data))] if numbers.random() < 0.5 else data)
        for _ in range(numbers.randrange(4)):
            damaged[numbers.randrange(len(damaged))] = numbers.randrange(256)
        with contextlib.suppress(SnapshotError, OverflowError):
            analyze(parse_snapshot(bytes(damaged)))


class Calls:
    """Its pickle would create a file."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, ("created", "w")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"segments": [Calls()], "device_traces": []}, "opcode"),
        ({"segments": 3}, "no `segments`"),
        ({"segments": [{"x": 1}]}, "not of the form"),
        (
            {"segments": [], "device_traces": [[{"action": "alloc", "addr": -1, "size": 2, "frames": []}]]},
            "a size",
        ),
        (
            {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 2, "frames": [3]}]]},
            "form",
        ),
        (
            {"segments": [], "device_traces": [[{"action": [], "addr": 1, "size": 2, "frames": []}]]},
            "not a text",
        ),
    ],
)
def test_what_is_no_snapshot_is_refused_with_a_reason(body: object, reason: str) -> None:
    with pytest.raises(SnapshotError, match=reason):
        parse_snapshot(pickle.dumps(body))


def test_a_list_of_many_segments_is_bounded() -> None:
    block = {"size": 1, "state": "inactive"}
    blocks = [block] * 100_000
    body = {"segments": [{"total_size": 1, "blocks": blocks} for _ in range(100)], "device_traces": []}
    with pytest.raises(SnapshotError, match="blocks"):
        parse_snapshot(pickle.dumps(body))


def test_files_and_their_notes(tmp_path: Path) -> None:
    allocator = trained()
    data = allocator.pickled()
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "snapshot.pickle").write_bytes(data)
    (tmp_path / "memory_rank-12.pickle.gz").write_bytes(gzip.compress(data))
    (tmp_path / "cut_rank3.pickle.gz").write_bytes(gzip.compress(data)[:-2000])
    (tmp_path / "weights.pickle").write_bytes(pickle.dumps({"weights": [1]}))
    (tmp_path / "empty.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    stackless = Allocator()
    stackless.alloc(MIB, [])
    (tmp_path / "stackless.pickle").write_bytes(stackless.pickled())
    (tmp_path / "outside.pickle").symlink_to("/etc/hostname")
    names = [Path(name).name for name in find_snapshots([tmp_path])]
    assert sorted(names) == sorted(
        [
            "cut_rank3.pickle.gz",
            "empty.pickle",
            "memory_rank-12.pickle.gz",
            "stackless.pickle",
            "snapshot.pickle",
        ]
    )
    read = {Path(name).name: read_memory(name) for name in find_snapshots([tmp_path])}
    assert {
        name: item.note.partition(": ")[2].split(",")[0].split(":")[0] for name, item in read.items()
    } == {
        "cut_rank3.pickle.gz": "the snapshot cannot be read",
        "empty.pickle": "the snapshot is empty",
        "memory_rank-12.pickle.gz": "",
        "snapshot.pickle": "",
        "stackless.pickle": "the snapshot has no Python stacks",
    }
    ranks = {name: item.process.rank for name, item in read.items() if item.process is not None}
    assert ranks == {
        "empty.pickle": None,
        "memory_rank-12.pickle.gz": 12,
        "snapshot.pickle": 0,
        "stackless.pickle": None,
    }
    assert rank_of("/jobs/iteration_100/rank7_memory_snapshot.pickle") == 7


def test_a_small_file_that_unpacks_to_much_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuselight_server.jobs.memory.files.MAX_UNPACKED", 1 << 20)
    file = tmp_path / "bomb.pickle.gz"
    file.write_bytes(gzip.compress(trained().pickled()[:-1] + bytes(4 << 20)))
    assert MAX_UNPACKED > 1 << 20
    read = read_memory(str(file))
    assert read.process is None
    assert "more than 1 MB" in read.note

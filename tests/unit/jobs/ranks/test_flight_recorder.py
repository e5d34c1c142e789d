"""Dumps of the flight recorder, and pickles that are more than data."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.jobs.ranks.flight_recorder import MAX_DUMP, DumpPlace, read_dumps, waits_of
from fuselight_server.jobs.ranks.plain_pickle import NotPlainError, load_plain


def entry(
    sequence: int, name: str = "all_reduce", *, state: str = "completed", line: int = 5
) -> dict[str, Any]:
    return {
        "collective_seq_id": sequence,
        "frames": [
            {"filename": "/py/site-packages/torch/distributed/distributed_c10d.py", "line": 9, "name": name},
            {"filename": "/job/train.py", "line": line, "name": "step"},
        ],
        "is_p2p": False,
        "process_group": ("0", "default_pg"),
        "profiling_name": f"nccl:{name}",
        "state": state,
    }


def dump(entries: list[dict[str, Any]], ranks: str = "[0, 1, 2]") -> dict[str, Any]:
    return {"entries": entries, "pg_config": {"0": {"ranks": ranks}}, "version": "2.10"}


def messages(folder: Path) -> list[str]:
    return [wait.message for wait in waits_of(read_dumps([str(folder)]))]


class Calls:
    """Its pickle would create a file."""

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)

    target = Path("/")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_of_each_protocol_is_read(protocol: int) -> None:
    value: dict[str, Any] = {
        "a": [1, -(2**40), 2.5, None, True],
        "b": ("x", b"y" if protocol > 2 else "y"),
        "c": {},
        "d": [[], ()],
    }
    value["again"] = value["a"]
    assert load_plain(pickle.dumps(value, protocol)) == value


def test_a_pickle_that_would_call_something_is_refused_and_calls_nothing(tmp_path: Path) -> None:
    Calls.target = tmp_path / "created"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(NotPlainError):
            load_plain(pickle.dumps({"entries": [Calls()]}, protocol))
        (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump([{"x": Calls()}]), protocol))
        assert read_dumps([str(tmp_path)]) == []
    assert not Calls.target.exists()


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80", b"\x80\x02.", b"\x80\x02]s.", b"\x80\x02Na.", b"\x80\x02h\x05.", b"\x80\x04\x95\xff"],
)
def test_damaged_pickles_are_an_error_of_one_kind(data: bytes) -> None:
    with pytest.raises(NotPlainError):
        load_plain(data)


def doubled(levels: int, opening: bytes, closing: bytes) -> bytes:
    """A pickle of a few bytes for each level, whose value as a tree doubles with each."""
    level = opening + b"h\x00h\x00" + closing + b"q\x00"
    return b"(]q\x00" + level * levels


SHARED = {
    "lists": doubled(60, b"](", b"e"),
    "tuples": doubled(60, b"(", b"t"),
    "pairs": b"]q\x00" + b"h\x00h\x00\x86q\x00" * 60,
    "values of dicts": b"(]q\x00" + b"}(X\x01\0\0\0ah\x00X\x01\0\0\0bh\x00uq\x00" * 60,
    "itself": b"]q\x00h\x00a",
    "deep": b"]" * 3_000 + b"a" * 2_999,
    "long": b"]q\x00(" + b"N" * 3_000 + b"e" + b"](" + b"h\x00" * 3_000 + b"e",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_a_value_that_contains_itself_many_times_is_refused(tmp_path: Path, name: str) -> None:
    data = b"\x80\x02" + SHARED[name] + b"."
    with pytest.raises(NotPlainError, match=r"too many values|nested too deeply"):
        load_plain(data)
    for part in ("process_group", "profiling_name", "frames", "pg_id", "state", "collective_seq_id"):
        head = b"\x80\x02}(X\x07\0\0\0version" + b"K\x02" + b"X\x07\0\0\0entries](}"
        key = b"X" + len(part).to_bytes(4, "little") + part.encode()
        (tmp_path / "nccl_trace_rank_0").write_bytes(head + key + SHARED[name] + b"seu.")
        assert read_dumps([str(tmp_path)]) == []


@pytest.mark.parametrize("opcodes", [b"h\x00Ns", b"(h\x00Nu", b"(h\x00Nd"])
def test_a_key_of_nested_tuples_is_refused(opcodes: bytes) -> None:
    tuples = b")q\x00" + b"h\x00h\x00\x86q\x00" * 60
    with pytest.raises(NotPlainError, match="a key is"):
        load_plain(b"\x80\x02" + tuples + b"}" + opcodes + b".")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("process_group", [["a"], "b"]),
        ("profiling_name", {"a": 1}),
        ("collective_seq_id", 1e999),
        ("collective_seq_id", "9" * 10_000),
        ("frames", [{"filename": [1], "name": "f", "line": 1}]),
    ],
)
def test_a_part_of_a_dump_with_another_type_is_no_dump(tmp_path: Path, part: str, value: object) -> None:
    body = dump([{**entry(1, state="started"), part: value}])
    (tmp_path / "fr_trace_0.json").write_text(json.dumps(body))
    assert messages(tmp_path) == []


def test_long_texts_and_numbers_of_a_dump_are_cut(tmp_path: Path) -> None:
    body = dump([entry(1, "x" * 100_000, state="started")])
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(body, 2))
    (message,) = messages(tmp_path)
    assert len(message) < 5_000
    with pytest.raises(NotPlainError, match="a number is too large"):
        load_plain(pickle.dumps(10**5_000, 2))


def test_the_ranks_of_a_group_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    loads = json.loads
    entries = [{**entry(number), "process_group": ("0", f"group {number}")} for number in range(50)]
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump(entries), 2))

    def noted_loads(text: str) -> object:
        read.append(text)
        return loads(text)

    monkeypatch.setattr(json, "loads", noted_loads)
    (found_dump,) = read_dumps([str(tmp_path)])
    assert len(found_dump.members) == 50
    assert read == ["[0, 1, 2]"]


def test_who_waits_where_and_who_has_not_started(tmp_path: Path) -> None:
    started = dump([entry(1), entry(2, state="started", line=41)])
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(started, 2))
    (tmp_path / "nccl_trace_rank_1").write_bytes(pickle.dumps(dump([entry(1)]), 2))
    (tmp_path / "fr_trace_2.json").write_text(json.dumps(started))
    assert messages(tmp_path) == [
        "ranks 0 and 2 wait in `all_reduce` (number 2 of group `0 default_pg`), which rank 1 has not started"
    ]
    (wait,) = waits_of(read_dumps([str(tmp_path)]))
    assert wait.location is not None
    assert (wait.location.path, wait.location.line) == ("/job/train.py", 41)


def test_ranks_that_wait_in_other_collectives_and_a_rank_without_a_dump(tmp_path: Path) -> None:
    for rank, name in enumerate(("all_reduce", "broadcast")):
        body = dump([entry(1, name, state="scheduled")])
        (tmp_path / f"comm_lib_trace_rank_{rank}").write_bytes(pickle.dumps(body, 2))
    assert messages(tmp_path) == [
        f"rank {rank} waits in `{name}` (number 1 of group `0 default_pg`), for which rank {other} calls `{instead}`; "
        "rank 2 has no dump"
        for rank, name, other, instead in (
            (0, "all_reduce", 1, "broadcast"),
            (1, "broadcast", 0, "all_reduce"),
        )
    ]


def recorded(
    body: dict[str, Any], line: int, call: str = "", peer: int | None = None, ended: str = ""
) -> str:
    """The dump that `fuselight run` has a rank write: with the stack of its main thread."""
    frames = [{"filename": "/job/train.py", "line": line, "name": "main"}]
    if call:
        frames.insert(0, {"filename": "/py/torch/distributed/distributed_c10d.py", "line": 9, "name": call})
    named = {"call": {"name": call, "peer": peer}} if call else {}
    return json.dumps({**body, "stack": frames, **named, **({"ended": ended} if ended else {})})


def test_where_the_ranks_are_that_have_not_started_it(tmp_path: Path) -> None:
    waiting = dump([entry(1), entry(2, "barrier", state="scheduled", line=9)])
    (tmp_path / "flight_recorder_rank_0").write_text(recorded(waiting, 9, "barrier"))
    (tmp_path / "flight_recorder_rank_1").write_text(recorded(dump([entry(1)]), 31))
    (tmp_path / "flight_recorder_rank_2").write_text(recorded(dump([entry(1)]), 40, ended="ValueError"))
    (wait,) = waits_of(read_dumps([str(tmp_path)]))
    assert wait.message == (
        "rank 0 waits in `barrier` (number 2 of group `0 default_pg`), which ranks 1 and 2 have not started; "
        "rank 2 has ended by ValueError"
    )
    assert [(place.line, words) for place, words in wait.related] == [
        (31, "rank 1 is here"),
        (40, "rank 2 ended here"),
    ]


def test_a_receive_is_known_by_the_stack_and_comes_after_what_it_follows_from(tmp_path: Path) -> None:
    """gloo records no receive. Rank 0 waits for rank 1, which waits for rank 2, which does not wait."""
    inside = dump([entry(1), entry(2, state="scheduled", line=20)])
    (tmp_path / "flight_recorder_rank_0").write_text(recorded(dump([entry(1)]), 12, "recv", peer=1))
    (tmp_path / "flight_recorder_rank_1").write_text(recorded(inside, 20, "all_reduce"))
    (tmp_path / "flight_recorder_rank_2").write_text(recorded(dump([entry(1)]), 30))
    first, second = waits_of(read_dumps([str(tmp_path)]))
    assert first.ranks == (1,)
    assert second.message == "rank 0 waits in `recv` from rank 1"
    assert second.location is not None
    assert second.location.line == 12
    assert [(place.line, words) for place, words in second.related] == [
        (20, "rank 1 waits in `all_reduce` here")
    ]
    assert second.sequence is None


def test_a_collective_of_a_compiled_graph_is_on_the_first_line_of_its_function(tmp_path: Path) -> None:
    waiting = entry(2, "all_to_all", state="scheduled")
    waiting["frames"] = [
        {"filename": "/py/site-packages/torch/_dynamo/eval_frame.py", "line": 9, "name": "_fn"},
        {"filename": "/job/moe.py", "line": 21, "name": "torch_dynamo_resume_in_forward_at_21"},
        {"filename": "/job/moe.py", "line": 40, "name": "main"},
    ]
    (tmp_path / "flight_recorder_rank_0").write_text(json.dumps(dump([waiting], "[0]")))
    (wait,) = waits_of(read_dumps([str(tmp_path)]))
    assert wait.message == (
        "rank 0 waits in `all_to_all` (number 2 of group `0 default_pg`, in the graph that starts on this line)"
    )
    assert wait.location is not None
    assert (wait.location.line, wait.location.function) == (21, "forward")


def test_dumps_of_an_earlier_run_in_the_same_folder_are_not_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "flight_recorder_rank_0").write_text(json.dumps(dump([entry(1, state="scheduled")])))
    changed = (tmp_path / "flight_recorder_rank_0").stat().st_mtime
    assert len(read_dumps([str(tmp_path)], DumpPlace("", changed - 1))) == 1
    assert read_dumps([str(tmp_path)], DumpPlace("", changed + 1)) == []


def test_other_files_are_no_dumps(tmp_path: Path) -> None:
    (tmp_path / "dedicated_log_torch_trace_rank_0.log").write_bytes(
        pickle.dumps(dump([entry(1, state="started")]), 2)
    )
    (tmp_path / "trace_1.json").write_text('{"traceEvents": []}')
    (tmp_path / "trace_2.json").write_text('{"entries": [1], "version": 1}')
    (tmp_path / "trace_3").write_bytes(b"\x00" * 100)
    (tmp_path / "trace_4").mkdir()
    os.mkfifo(tmp_path / "trace_5")
    with (tmp_path / "trace_6.json").open("wb") as file:
        file.truncate(MAX_DUMP + 1)
    assert read_dumps([str(tmp_path), str(tmp_path / "absent")]) == []


def test_dumps_at_a_place_of_the_user_are_those_of_this_run_only(tmp_path: Path) -> None:
    logs, place = tmp_path / "logs", tmp_path / "dumps"
    logs.mkdir()
    place.mkdir()
    for name, sequence in (("mine.3", 1), ("mine.4", 2), ("mine.old", 3), ("other5", 4)):
        (place / name).write_text(json.dumps(dump([entry(sequence, state="started")], ranks="[]")))
    (place / "mine.6").write_text("no dump")
    os.utime(place / "mine.4", (1_000, 1_000))
    named = DumpPlace(str(place / "mine."), since=2_000)
    assert [known.rank for known in read_dumps([str(logs)], named)] == [3]
    assert read_dumps([str(logs)], DumpPlace(str(tmp_path / "none" / "x"), 0.0)) == []


def test_a_frame_of_inductors_cache_is_not_the_users(tmp_path: Path) -> None:
    waiting = entry(1, state="started", line=8)
    name = "cuq54xicmnkbmspvm4flzwh2dov7efre3d6gdvdvnyvwknybgkz3.py"
    for folder, expected in (("uq", "/job/train.py"), ("other", f"/cache/other/{name}")):
        waiting["frames"][0]["filename"] = f"/cache/{folder}/{name}"
        (tmp_path / "nccl_trace_rank_0").write_text(json.dumps(dump([waiting])))
        (wait,) = waits_of(read_dumps([str(tmp_path)]))
        assert wait.location is not None
        assert wait.location.path == expected

"""Logs with damage of many kinds: a damaged record is one note, and all others are read as if nothing had happened."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.jobs.trace_log.model import NoteKind
from fuselight_server.jobs.trace_log.payloads import read_all_metrics
from fuselight_server.jobs.trace_log.reader import read_jobs
from tests.support.command import run_cli
from tests.support.trace_logs import JOBS, compiled, record

NAME = "dedicated_log_torch_trace_{}.log"
Damage = Callable[[bytes, random.Random], bytes]


def flip_bytes(data: bytes, numbers: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(numbers.randint(1, 40)):
        damaged[numbers.randrange(len(damaged))] = numbers.randrange(256)
    return bytes(damaged)


def truncate(data: bytes, numbers: random.Random) -> bytes:
    return data[: numbers.randrange(len(data))]


def cut_start(data: bytes, numbers: random.Random) -> bytes:
    return data[numbers.randrange(len(data)) :]


def put_nulls(data: bytes, numbers: random.Random) -> bytes:
    start = numbers.randrange(len(data))
    return data[:start] + bytes(numbers.choice((1, 7, 4096))) + data[start + numbers.choice((0, 4096)) :]


def duplicate(data: bytes, numbers: random.Random) -> bytes:
    start, end = sorted(numbers.randrange(len(data)) for _ in range(2))
    return data[:end] + data[start:]


def shuffle(data: bytes, numbers: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    for _ in range(20):
        first, second = (numbers.randrange(len(lines)) for _ in range(2))
        lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def interleave(data: bytes, numbers: random.Random) -> bytes:
    lines, again = data.splitlines(keepends=True), iter(data.splitlines(keepends=True))
    return b"".join(line + (next(again, b"") if numbers.random() < 0.5 else b"") for line in lines)


def not_utf8(data: bytes, numbers: random.Random) -> bytes:
    for _ in range(10):
        start = numbers.randrange(len(data))
        data = data[:start] + numbers.choice((b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xe2\x80")) + data[start:]
    return data


def exchange_values(data: bytes, numbers: random.Random) -> bytes:
    """Heads of valid JSON whose values have other types."""
    values: list[Any] = [
        None,
        -1,
        1e308,
        10**30,
        "",
        "x" * 300,
        [],
        {},
        [[]],
        {"a": {"b": []}},
        True,
        "\ud800",
        "\0\n",
    ]

    def changed(value: Any, depth: int = 0) -> Any:
        if numbers.random() < 0.05:
            return numbers.choice(values)
        if isinstance(value, dict) and depth < 6:
            return {key: changed(item, depth + 1) for key, item in value.items()}
        return (
            [changed(item, depth + 1) for item in value] if isinstance(value, list) and depth < 6 else value
        )

    lines = data.splitlines(keepends=True)
    for index, line in enumerate(lines):
        start = line.find(b"] {")
        if start >= 0 and numbers.random() < 0.3:
            try:
                head = json.loads(line[start + 2 :])
            except ValueError:
                continue
            lines[index] = line[: start + 2] + json.dumps(changed(head)).encode() + b"\n"
    return b"".join(lines)


DAMAGES = (
    flip_bytes,
    truncate,
    cut_start,
    put_nulls,
    duplicate,
    shuffle,
    interleave,
    not_utf8,
    exchange_values,
)


def logs_in(folder: Path) -> list[tuple[str, bytes]]:
    return [
        (path.name.removesuffix(".gz"), gzip.decompress(path.read_bytes()))
        for path in sorted(folder.glob("*.log.gz"))
    ]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_log_is_read_as_far_as_it_can_be(tmp_path: Path, damage: Damage, seed: int) -> None:
    numbers = random.Random(f"{damage.__name__} {seed}")  # noqa: S311 - the same damage in each run
    folder = numbers.choice(JOBS)
    (tmp_path / NAME.format("whole")).write_bytes(compiled(process=3))
    for name, data in logs_in(folder):
        (tmp_path / name).write_bytes(damage(data, numbers))
    result = run_cli("open", str(tmp_path), "--format", "json", "--source", str(tmp_path))
    assert result.exit_code in {0, 1}, (folder, result.stderr)
    assert "has changed since" not in result.stdout + result.stderr
    assert json.loads(result.stdout)["jobs"]


def opened(folder: Path, logs: list[tuple[str, bytes]]) -> Any:
    folder.mkdir(exist_ok=True)
    for name, data in logs:
        (folder / name).write_bytes(data)
    result = run_cli("open", str(folder), "--format", "json", "--source", str(folder))
    return json.loads(result.stdout)


@pytest.mark.parametrize("job", JOBS[:: len(JOBS) // 12], ids=lambda job: f"{job.parent.name}-{job.name}")
def test_a_log_with_lines_that_end_in_cr_lf_is_the_same_log(tmp_path: Path, job: Path) -> None:
    logs = logs_in(job)
    (tmp_path / "logs").mkdir()
    expected = opened(tmp_path / "logs", logs)
    given = opened(tmp_path / "logs", [(name, data.replace(b"\n", b"\r\n")) for name, data in logs])
    assert given == expected


def test_a_rank_whose_log_has_cr_lf_does_not_differ_from_the_others(tmp_path: Path) -> None:
    (job,) = [folder for folder in JOBS if folder.match("torch-2.13/ranks_same")]
    first, *others = logs_in(job)
    data = opened(tmp_path / "logs", [(first[0], first[1].replace(b"\n", b"\r\n")), *others])
    assert not [finding for finding in data["findings"] if finding["code"].startswith("FL91")]


@pytest.mark.parametrize("value", [b"\xff", b"\xc3(", b"\x80\x80", b"\0"])
def test_bytes_that_are_not_utf8_in_a_name_lose_no_record(tmp_path: Path, value: bytes) -> None:
    data = compiled(path="/job/NAME.py").replace(b"NAME", value)
    (tmp_path / NAME.format("a")).write_bytes(data + compiled("1/0/0", start=1_005))
    (job,) = read_jobs([tmp_path])
    (process,) = job.processes
    assert [str(item.id) for item in process.compiles] == ["0/0", "1/0"]
    heads = [item.metrics.head for item in process.compiles if item.metrics is not None]
    if value == b"\0":  # JSON has no such character: its records are damaged, and each is counted
        assert process.bad_records == 2
    else:
        assert [fields["co_name"] for _, fields in read_all_metrics(heads)] == ["f", "f"]
        assert process.bad_records == 0


def test_damaged_records_are_one_note_with_the_reason(tmp_path: Path) -> None:
    bad = record("compilation_metrics", {"co_name": "f"}).replace(b'"co_name"', b'"co_name')
    (tmp_path / NAME.format("a")).write_bytes(compiled() + bad * 3 + compiled("1/0/0", start=1_005))
    (job,) = read_jobs([tmp_path])
    (note,) = job.notes
    assert note.kind is NoteKind.BAD_RECORDS
    assert note.message.startswith("3 records cannot be read; the first, at byte ")
    (process,) = job.processes
    assert len(process.compiles) == 2


def test_the_envelope_may_come_first_in_a_head(tmp_path: Path) -> None:
    head = json.dumps(
        {"rank": 0, "frame_id": 5, "frame_compile_id": 0, "compilation_metrics": {"co_name": "g"}}
    )
    line = f"V1127 20:00:00.000000 7 torch/x.py:1] {head}\n".encode()
    (tmp_path / NAME.format("a")).write_bytes(compiled() + line)
    (job,) = read_jobs([tmp_path])
    (process,) = job.processes
    heads = [row.head for item in process.compiles for attempt in item.attempts for row in attempt.metrics]
    assert [fields["co_name"] for _, fields in read_all_metrics(heads)][-1] == "g"

"""Comparing the 1,024 ranks of a job: time and memory, and the time against reading the logs alone.

The logs are those of a recorded job of equal ranks, again and again with further frame numbers, addresses and ranks,
1 MB for each rank. One operator of one rank is another one: the comparison has to name it, and nothing else.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
RANKS, SIZE, ODD = 1_024, 1_000_000, 517
_JOB = "replicated"
_FRAME = re.compile(rb'"frame_id": (\d+)')
_EVENT_FRAME = re.compile(rb'"compile_id": "(\d+)/')
_ADDRESS = re.compile(rb"(?<=, )1\d{14}(?=[,)])")
_RANK = re.compile(rb'"rank": \d+')
_STRINGS = re.compile(rb'^.*\] \{"str": .*\n', re.MULTILINE)
_MAX_SECONDS, _MAX_RATIO, _MAX_MEMORY = 60.0, 2.5, 300.0


def rows() -> list[Row]:
    """Measure both in a process of its own each."""
    with tempfile.TemporaryDirectory() as folder:
        total = _write(Path(folder))
        alone = _measured("read", folder)
        compared = _measured("compare", folder)
    _check(compared["messages"])
    detail = f"one core, {total / 1e6:,.0f} MB; reading alone {alone['seconds']:.1f} s"
    return [
        Row(f"compare {RANKS:,} ranks", compared["seconds"], _MAX_SECONDS, "s", detail=detail),
        Row("the same, against reading the logs", compared["seconds"] / alone["seconds"], _MAX_RATIO),
        Row(f"memory for {RANKS:,} ranks", compared["memory"], _MAX_MEMORY, "MB"),
    ]


def _check(messages: list[str]) -> None:
    if len(messages) != 1 or f"rank {ODD}" not in messages[0]:
        raise AssertionError(f"rank {ODD} differs and no other: {messages}")


def _write(folder: Path) -> int:
    """The logs of all ranks. Returns their size."""
    with tarfile.open(ROOT / "tests" / "recordings" / "ranks" / "torch-2.13.tar.xz") as archive:
        member = archive.extractfile(f"{_JOB}/dedicated_log_torch_trace_rank_0_{_JOB}.log")
        assert member is not None
        text = member.read()
    strings, body = b"".join(_STRINGS.findall(text)), _STRINGS.sub(b"", text)
    rounds = [_moved(body, turn * 100) for turn in range(max(1, SIZE // len(body)))]
    size = 0
    for rank in range(RANKS):
        log = _RANK.sub(b'"rank": %d' % rank, strings + b"".join(rounds))
        log = _ADDRESS.sub(b"%d" % (140_000_000_000_000 + rank * 64), log)
        if rank == ODD:
            log = log.replace(b'" = torch.relu(', b'" = torch.tanh(', 1)
        size += Path(folder, f"dedicated_log_torch_trace_rank_{rank}_x.log").write_bytes(log)
    return size


def _moved(text: bytes, frames: int) -> bytes:
    text = _FRAME.sub(lambda match: b'"frame_id": %d' % (int(match[1]) + frames), text)
    return _EVENT_FRAME.sub(lambda match: b'"compile_id": "%d/' % (int(match[1]) + frames), text)


def _measured(what: str, folder: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.rank_logs", what, folder]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return dict(json.loads(answer.stdout))


def _read(paths: Iterator[Path]) -> None:
    from fuselight_server.jobs.trace_log.reader import JobReader  # noqa: PLC0415 - in the child

    for path in paths:
        reader = JobReader([path])
        for _ in reader.steps():
            pass
        reader.jobs()


def _compare(folder: Path) -> list[str]:
    from fuselight_server.jobs.ranks.comparison import compare_digests  # noqa: PLC0415 - in the child
    from fuselight_server.jobs.ranks.many import read_many  # noqa: PLC0415 - the same
    from fuselight_server.jobs.trace_log.files import find_logs  # noqa: PLC0415 - the same

    (job,) = read_many(find_logs([folder]), "job")
    table = compare_digests(job.digests)
    return [] if table is None else [difference.message for difference in table.differences]


def main() -> int:
    """In the child: read or compare, and print what it took."""
    folder = Path(sys.argv[2])
    start = time.process_time()
    messages: list[str] = []
    if sys.argv[1] == "compare":
        messages = _compare(folder)
    else:
        _read(iter(sorted(folder.iterdir())))
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "memory": memory, "messages": messages}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Reading the logs of a job against `json.loads` over its records, and the memory that a log of 1 GB takes.

The log is made of the recorded jobs of the tests, again and again, with further frame numbers in each round,
and with what the recordings leave out: key components and settings of torch.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.table import Row, median

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
_SMALL, _LARGE = 100_000_000, 1_000_000_000
_ROUNDS = 5
_FRAME = re.compile(rb'"frame_id": (\d+)')
_LISTED = re.compile(rb'"components": \[(?:"(?:[^"\\]|\\.)*", ){10}("(?:[^"\\]|\\.)*", )')
_METRICS = re.compile(rb'("(?:bwd_)?compilation_metrics": \{)')
_COMPONENTS, _SETTINGS = 620, 34_000
"""What the recordings leave out: components of each key, and bytes of settings in each record of metrics."""
_MAX_RATIO, _MAX_MEMORY, _MAX_FIRST = 1.5, 300.0, 1.0


def rows() -> list[Row]:
    """Measure both."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "dedicated_log_torch_trace_x.log")
        _write(log, _SMALL)
        _read(log)  # imports
        times = [(_json_seconds(log), _read(log)[0]) for _ in range(_ROUNDS)]
        parsed, ours = median([parsed for parsed, _ in times]), median([ours for _, ours in times])
        _write(log, _LARGE)
        memory, first, seconds = _measured_apart(log)
    return [
        Row(
            "a log of 100 MB, against json.loads over its records",
            ours / parsed,
            _MAX_RATIO,
            detail=f"{ours:.2f} s against {parsed:.2f} s of CPU",
        ),
        Row(
            "memory while a log of 1 GB is read",
            memory,
            _MAX_MEMORY,
            "MB",
            detail=f"{seconds:.1f} s of CPU; the first compile after {first * 1000:.0f} ms",
        ),
        Row("the first compile of a log of 1 GB", first, _MAX_FIRST, "s"),
    ]


def _write(path: Path, size: int) -> None:
    """A log of about this size."""
    logs = sorted((ROOT / "tests" / "recordings" / "jobs").glob("torch-*/[a-t]*/*.log.gz"))
    settings = b'\\1"inductor_config": "%s", ' % (b"x" * _SETTINGS)
    text = _LISTED.sub(
        lambda match: match[0] + match[1] * _COMPONENTS,
        _METRICS.sub(
            settings, b"".join(gzip.decompress(log.read_bytes()) for log in logs if "ranks" not in log.name)
        ),
    )
    with path.open("wb") as file:
        turn = 0
        while file.tell() < size:
            file.write(_moved(text, turn * 100))
            turn += 1


def _moved(text: bytes, frames: int) -> bytes:
    return _FRAME.sub(lambda match: b'"frame_id": %d' % (int(match[1]) + frames), text)


def _json_seconds(path: Path) -> float:
    """Processor time of json.loads over the heads and the JSON payloads of a log, with the simplest loop."""
    start = time.process_time()
    for head, payload in _records(path):
        json.loads(head[head.index(b"{") :])
        if payload[:2] in {b"\t{", b"\t["}:
            with contextlib.suppress(ValueError):  # text that looks like JSON
                json.loads(payload)
    return time.process_time() - start


def _records(path: Path) -> Iterator[tuple[bytes, bytes]]:
    head, payload = b"", []
    with path.open("rb") as file:
        for line in file:
            if line.startswith(b"\t"):
                payload.append(line)
                continue
            if head:
                yield head, b"".join(payload)
            head, payload = line, []
    yield head, b"".join(payload)


def _read(path: Path) -> tuple[float, float]:
    """Processor time of the reader, and when it had the first compile."""
    from fuselight_server.jobs.trace_log.reader import JobReader  # noqa: PLC0415 - in the child, too

    start, first = time.process_time(), None
    reader = JobReader([path])
    for step in reader.steps():
        if first is None and step.finished:
            first = time.process_time() - start
    reader.jobs()
    return time.process_time() - start, float("inf") if first is None else first


def _measured_apart(path: Path) -> tuple[float, float, float]:
    """Peak memory in MB, when the first compile was known, and all processor time, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.trace_log", str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    memory, first, seconds = json.loads(answer.stdout)
    return float(memory), float(first), float(seconds)


def main() -> int:
    """In the child: read the log and print what it took."""
    seconds, first = _read(Path(sys.argv[1]))
    print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, first, seconds]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

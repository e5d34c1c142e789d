"""The text of several jobs has the findings that JSON has, under their job: also of logs that grow while followed."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.jobs import FindingStream, jobs_as_json, print_jobs
from fuselight_server.commands import open as opening
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.opened_job import OpenedJob
from tests.support.job_logs import SOURCE, log_of, project, written
from tests.support.trace_logs import compiled, event

_HEADING = re.compile(r"Job (?P<name>[^,]+),?")
_BLOCK = re.compile(r"(?:error|warning|note|info|hint)\w*\[(?P<code>\w+)\]: (?P<title>.+)")
OTHER = SOURCE.replace("print(x)", "log(x)").replace("class Net", "class Other")


def at(log: bytes, start: int) -> bytes:
    """The log of a process that starts at this second."""
    minute, second = divmod(start, 60)
    moment = f"20:{minute:02}:{second:02}.".encode()
    clock = event("pid", "B", float(start), at="", second=start, process=int(log.split()[2]))
    return clock + log.replace(b"20:00:00.", moment)


def again(log: bytes, times: int) -> bytes:
    """The log, and more recompilations for the same reason."""
    first = log.index(b'"dynamo_start"', log.index(b"compilation_metrics"))
    part = log[log.rindex(b"\nV", 0, first) + 1 :]
    for number in range(2, times + 2):
        log += part.replace(b'"frame_compile_id": 1', f'"frame_compile_id": {number}'.encode())
    return log


def read(text: str) -> dict[str, Counter[tuple[str, str]]]:
    """The findings under each heading; a block that is printed again replaces the first."""
    jobs: dict[str, Counter[tuple[str, str]]] = {}
    name, is_changed = "", False
    for line in text.splitlines():
        heading, block = _HEADING.match(line), _BLOCK.match(line)
        if heading:
            name, is_changed = heading["name"], False
            jobs.setdefault(name, Counter())
        elif line.startswith("Changed since they were printed"):
            is_changed = True
        elif line.startswith("no longer: "):
            code, title = re.findall(r"\[(\w+)\] \S+: (.+)", line)[0]
            jobs[name][code, title] -= 1
        elif block and not (is_changed and jobs[name][block["code"], block["title"]]):
            jobs[name][block["code"], block["title"]] += 1
    return {name: +counter for name, counter in jobs.items()}


def text_of(jobs: tuple[OpenedJob, ...], stream: FindingStream | None, out: io.StringIO) -> str:
    terminal = Terminal(out)
    print_jobs(jobs, stream or FindingStream(terminal), terminal)
    return out.getvalue()


def expected(jobs: tuple[OpenedJob, ...]) -> dict[str, Counter[tuple[str, str]]]:
    return {job.name: Counter((item.code, item.title) for item in job.findings) for job in jobs}


def agree(text: str, jobs: tuple[OpenedJob, ...]) -> None:
    """The text has what JSON has."""
    assert read(text) == expected(jobs)
    data = json.loads(jobs_as_json(jobs))
    total = len(data["findings"])
    assert total == sum(counter.total() for counter in expected(jobs).values())
    assert f"Found {total} finding" in text
    sections = re.split(r"(?m)^(?=Job )", text)
    for job in jobs:
        (section,) = [part for part in sections if part.startswith(f"Job {job.name},")]
        for finding in job.findings:
            _, _, block = section.partition(f"[{finding.code}]: {finding.title}\n")
            times = re.search(r", (\d+) times", " ".join(block.partition("= help:")[0].split()))
            assert (int(times[1]) if times else 1) == finding.count


LOGS = {
    "the same findings": [log_of("/job/net.py"), log_of("/job/net.py", process=8)],
    "the same, in other numbers": [
        again(log_of("/job/net.py"), 4),
        again(log_of("/job/net.py", process=8), 7),
    ],
    "different findings": [log_of("/job/net.py"), log_of("/job/other.py", process=8, text="log(x)")],
    "three jobs, two alike": [
        log_of("/job/net.py"),
        log_of("/job/other.py", process=8, text="log(x)"),
        again(log_of("/job/net.py", process=9), 2),
    ],
    "one without findings": [compiled(start=0, process=8, path="/job/other.py"), log_of("/job/net.py")],
    "one damaged": [
        log_of("/job/net.py"),
        log_of("/job/net.py", process=8)[:-200] + b"V1127 20:00:00.000000 8 {",
    ],
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return project(tmp_path / "source", {"net.py": SOURCE, "other.py": OTHER})


@pytest.mark.parametrize("name", LOGS)
def test_text_and_json_agree(tmp_path: Path, source: Path, name: str) -> None:
    logs = {str(number): at(log, 60 * number) for number, log in enumerate(LOGS[name])}
    request = OpenRequest((written(tmp_path / "logs", logs),), (source,))
    jobs = asyncio.run(open_jobs(request, lambda _text: None, CancelToken()))
    assert len(jobs) == len(logs)
    agree(text_of(jobs, None, io.StringIO()), jobs)


@pytest.mark.parametrize("name", LOGS)
def test_text_and_json_agree_on_logs_that_grow(
    tmp_path: Path, source: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each log grows in three parts; the second job, which gives the first one its number, begins last."""
    monkeypatch.setattr(opening, "_FIRST_PARTIAL", 0.0)
    monkeypatch.setattr(opening, "_FOLLOW_EVERY", 0.02)
    whole = [at(log, 60 * number) for number, log in enumerate(LOGS[name])]
    parts: list[tuple[str, bytes]] = []
    for number, log in enumerate(whole):
        heads = [0, *(match.end() - 1 for match in re.finditer(rb"\nV", log))]
        cuts = [0, heads[len(heads) // 3], heads[2 * len(heads) // 3], len(log)]
        parts += [(str(number), log[start:end]) for start, end in itertools.pairwise(cuts)]
    folder = written(tmp_path / "logs", {parts[0][0]: parts[0][1]})
    token, out = CancelToken(), io.StringIO()
    stream = FindingStream(Terminal(out))
    remaining = parts[1:]

    def take(jobs: tuple[OpenedJob, ...]) -> None:
        stream(jobs)
        if not remaining:
            token.cancel()
            return
        log, data = remaining.pop(0)
        with (folder / f"dedicated_log_torch_trace_{log}.log").open("ab") as file:
            file.write(data)

    request = OpenRequest((folder,), (source,), is_followed=True)
    jobs = asyncio.run(asyncio.wait_for(open_jobs(request, lambda _text: None, token, on_partial=take), 120))
    assert len(jobs) == len(whole)
    text = text_of(jobs, stream, out)
    final = read(text)
    assert {job: final.get(job) for job in expected(jobs)} == expected(jobs) or _under_first_name(final, jobs)
    for job in jobs:
        assert job.name in final


def _under_first_name(final: dict[str, Counter[tuple[str, str]]], jobs: tuple[OpenedJob, ...]) -> bool:
    """A job that was alone was printed as `logs` before it became `logs (1)`."""
    first = jobs[0].name
    joined = {**final, first: final.get(first, Counter()) | final.get("logs", Counter())}
    joined.pop("logs", None)
    return joined == expected(jobs)


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--follow"]], ids=["read once", "followed"])
def test_a_reader_that_ends_early_gets_no_traceback(tmp_path: Path, source: Path, more: list[str]) -> None:
    logs = written(tmp_path / "logs", {"a": again(at(log_of("/job/net.py"), 0), 100)})
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "fuselight_server", "open", str(logs), "--source", str(source), *more]
    ended = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, "")

"""py-spy's answer becomes the user's line, and a sampler that does not work says why."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from fuselight.shared.report import innermost_user_frame
from fuselight_server.execution.worker_client import sampling

PROGRAM = """\
import sys
def wait():
    print("ready", flush=True)
    sys.stdin.readline()
wait()
"""


def frame(name: str, path: str, line: int) -> dict[str, object]:
    return {"name": name, "filename": path, "line": line}


MODULE = frame("<module>", "/m.py", 3)


def test_the_main_thread_is_read_outermost_first() -> None:
    stack = sampling.read_dump(
        [
            {"pid": 7, "os_thread_id": 8, "frames": [frame("helper", "/t.py", 1)]},
            {
                "pid": 7,
                "os_thread_id": 7,
                "frames": [frame("forward", "/m.py", 88), frame("<module>", "/m.py", 3)],
            },
        ]
    )
    assert [(place.function, place.line) for place in stack] == [("<module>", 3), ("forward", 88)]


def test_without_thread_ids_the_module_frame_tells_the_main_thread() -> None:
    stack = sampling.read_dump(
        [
            {"pid": 7, "os_thread_id": None, "frames": [frame("run", "/t.py", 1)]},
            {"pid": 7, "os_thread_id": None, "frames": [MODULE]},
        ]
    )
    assert stack[-1].path == "/m.py"


@pytest.mark.parametrize("answer", [None, [], {}, [{"frames": None}]])
def test_a_damaged_answer_is_an_error_for_the_reader(answer: object) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        sampling.read_dump(answer)


def test_libraries_inside_the_workspace_are_not_the_users_lines() -> None:
    places = sampling.read_dump(
        [
            {
                "pid": 1,
                "os_thread_id": 1,
                "frames": [frame("f", "/w/.venv/lib/site-packages/a.py", 2), frame("g", "/w/m.py", 9)],
            }
        ]
    )
    location = innermost_user_frame(places, ("/w",))
    assert location is not None
    assert (location.path, location.line) == ("/w/m.py", 9)
    assert innermost_user_frame(places, ("/elsewhere",)) is None


def test_a_live_process_is_sampled_on_its_line(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(PROGRAM)
    with subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        sample = asyncio.run(sampling.sample(process.pid, seconds=60))
        process.communicate(b"\n")
    if sample.stack:
        assert [(place.path, place.line) for place in sample.stack[-1:]] == [(str(script), 4)]
    else:  # a container that forbids ptrace: then there must be a reason for the user to read
        assert sample.why_not


def test_an_ended_process_gives_a_reason() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    sample = asyncio.run(sampling.sample(process.pid, seconds=60))
    assert sample.stack == ()
    assert sample.why_not


def test_without_py_spy_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "py_spy_path", lambda: None)
    assert asyncio.run(sampling.sample(1)).why_not == "py-spy is not installed"


@pytest.mark.skipif(sys.platform == "win32", reason="the sampler is a shell script")
def test_only_asyncio_reads_the_exit_status_of_a_sampler_that_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = tmp_path / "sampler"
    sampler.write_text("#!/bin/sh\nexec sleep 100\n")
    sampler.chmod(0o700)
    monkeypatch.setattr(sampling, "py_spy_path", lambda: str(sampler))
    polled: list[int] = []
    poll = subprocess.Popen.poll

    def note(process: subprocess.Popen[bytes]) -> int | None:
        polled.append(process.pid)
        return poll(process)

    monkeypatch.setattr(subprocess.Popen, "poll", note)

    async def end_two() -> None:
        slow = await sampling.sample(1, seconds=0.1)
        assert slow.why_not == "py-spy gave no answer within 0.1 s"
        task = asyncio.create_task(sampling.sample(1, seconds=60))
        _, pending = await asyncio.wait([task], timeout=0.1)
        assert pending == {task}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(end_two())
    assert (polled, caplog.messages) == ([], [])

"""Checks as processes: two of the same file at once, and signals to the command and to its worker while a target runs.

The worker is a script without torch that answers from reports. It waits where a test has to act.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.worker_launch import launch_path
from fuselight_server.base.store import Store
from fuselight_server.execution.runs.stored_reports import stored_captures
from tests.support.live_worker import wait_gone

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the interpreter is a shell script")

MODEL = """\
import torch


# fuselight: first(f32[4])
@torch.compile
def first(x):
    return x


# fuselight: second(f32[4])
@torch.compile
def second(x):
    print(x)
    return x
"""
WORKER = """\
import os, sys, time
from dataclasses import replace
from pathlib import Path

sys.path[:0] = {paths!r}
from fuselight.shared.protocol import PROTOCOL, Answer, CaptureRequest, Hello, Started, from_json, to_json
from fuselight.shared.report import Reads, TargetRef, Versions, data_key
from fuselight.shared import wire
from tests.support.reports import at, broken, report

folder = Path({folder!r})
made = report()


def send(message):
    os.write(1, wire.frame(wire.dump(to_json(message))))


def wait(name):
    (folder / f"{{name}}.{{os.getpid()}}").touch()
    while not (folder / f"go.{{name}}").exists():
        time.sleep(0.01)


def answer(request):
    target = request.target
    if target.name in os.environ.get("WAITS", "").split():
        wait(target.name)
    place = at(13, (4, 12), path=target.path, function="second")
    breaks = (broken(place, gb="GB0059"),) if target.name == "second" else ()
    return replace(
        made,
        breaks=breaks,
        target=TargetRef(target.path, target.name, target.line, target.kind),
        roots=request.roots,
        files={{target.path: data_key(Path(target.path).read_bytes())}},
        reads=Reads(),
    )


send(Hello(PROTOCOL, made.versions, os.getpid(), True))
reader = wire.FrameReader()
while data := os.read(0, 1 << 16):
    for payload in reader.feed(data):
        message = from_json(wire.load(payload))
        if isinstance(message, CaptureRequest):
            send(Started(message.id, os.getpid()))
            send(Answer(message.id, answer(message)))
"""
STOPPED = (
    "fuselight: stopped: these are the findings so far; 1 target not run, and not all advice was tried\n"
)
START = (
    "import signal, sys\nfor name in ('SIGTERM', 'SIGHUP'):\n    signal.signal(getattr(signal, name), signal.SIG_DFL)\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom fuselight_server import main\nsys.exit(main())"
)
"""A test run that ignores a signal, as under nohup, hands that on to its children."""


@dataclass
class CheckedProject:
    """A project whose interpreter is the script, and the signs that the script gives and waits for."""

    folder: Path

    @contextlib.contextmanager
    def check(self, waits: str = "") -> Iterator[subprocess.Popen[str]]:
        """A check, whose worker waits in the runs of the targets that are named."""
        command = [sys.executable, "-c", START, "check", "model.py", "--python", str(self.folder / "python")]
        with subprocess.Popen(
            command,
            cwd=self.folder / "project",
            env=self._environment(waits),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            yield process

    def _environment(self, waits: str) -> dict[str, str]:
        """`WAITS` is different for no check that a kept capture may answer: it counts as all variables do."""
        given = {"XDG_STATE_HOME": str(self.folder / "state"), "TMPDIR": str(self.folder / "temporary")}
        return {**os.environ, **given, "WAITS": waits}

    def workers_in(self, name: str, count: int, *checks: subprocess.Popen[str]) -> list[int]:
        """The processes of the workers that run a target, once there are so many."""
        deadline = time.monotonic() + 120
        while len(paths := [*self.folder.glob(f"{name}.*")]) < count:
            assert time.monotonic() < deadline
            assert all(check.poll() is None for check in checks)
            time.sleep(0.01)
        return [int(path.suffix[1:]) for path in paths]

    def go_on(self, name: str) -> None:
        """Let the workers end the run of a target."""
        (self.folder / f"go.{name}").touch()

    def kept(self) -> set[str]:
        """The targets whose captures can be read. Nothing else is in the folder of captures."""
        captures = stored_captures(Store.at(self.folder / "project"))
        assert sorted(captures.folder.iterdir()) == sorted(captures.files())
        return {captures.read(file).report.target.name for file in captures.files()}


@pytest.fixture
def project(tmp_path: Path) -> CheckedProject:
    for name in ("project", "temporary", "state"):
        (tmp_path / name).mkdir()
    (tmp_path / "project" / "model.py").write_text(MODEL)
    (tmp_path / "project" / "pyproject.toml").touch()
    root = Path(launch_path()).parents[3]
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(paths=[str(root / "compiler"), str(root)], folder=str(tmp_path)))
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\nexec {sys.executable} {script}\n")
    interpreter.chmod(0o755)
    return CheckedProject(tmp_path)


@pytest.mark.slow
def test_two_checks_of_a_file_at_once_keep_both_captures(project: CheckedProject) -> None:
    with project.check("first second") as process, project.check("first second") as two:
        for target in ("first", "second"):  # both answer, and write what they keep, at the same moment
            project.workers_in(target, 2, process, two)
            project.go_on(target)
        printed = [check.communicate(timeout=120) for check in (process, two)]
    assert [process.returncode, two.returncode] == [1, 1]
    assert printed[0] == printed[1]
    assert printed[0][1] == ""
    assert printed[0][0].count("GB0059") == 1
    assert project.kept() == {"first", "second"}


@pytest.mark.slow
def test_sigterm_to_a_check_keeps_what_has_run_and_leaves_nothing(project: CheckedProject) -> None:
    """tests/unit/cli/test_interrupts.py has the other signals."""
    with project.check("second") as check:
        (worker,) = project.workers_in("second", 1, check)
        check.send_signal(signal.SIGTERM)
        out, error = check.communicate(timeout=120)
    assert (check.returncode, error) == (-signal.SIGTERM, STOPPED)
    assert out.startswith("first (model.py): ")
    wait_gone(worker)
    assert not [*(project.folder / "temporary").iterdir()]
    assert project.kept() == {"first"}
    project.go_on("second")
    with project.check("second") as again:
        out, error = again.communicate(timeout=120)
    assert (again.returncode, error, out.count(", unchanged since ")) == (1, "", 1)
    assert project.kept() == {"first", "second"}


@pytest.mark.slow
def test_a_signal_to_the_worker_is_reported_and_not_kept(project: CheckedProject) -> None:
    with project.check("second") as check:
        (worker,) = project.workers_in("second", 1, check)
        os.kill(worker, signal.SIGINT)
        out, error = check.communicate(timeout=120)
    assert check.returncode in {1, 2}
    assert "SIGINT" in out
    assert error == ""
    wait_gone(worker)
    assert not [*(project.folder / "temporary").iterdir()]
    assert project.kept() == {"first"}

"""Ctrl-C and SIGTERM at any moment of a command: one line, the exit code of a signal, nothing left.

Each command is a process of its own, without torch: what it would start is a script that hangs.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuselight_server.base import interrupts
from tests.support.live_worker import wait_gone

MODEL = "import torch\n\n# fuselight: run(f32[2])\n@torch.compile\ndef run(x):\n    return x\n"
STOPPED = "fuselight: stopped\n"
SIGNAL_IN_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in a shell's background ignores it
class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            {act}
sys.meta_path.insert(0, Interrupts())
from fuselight_server import main
sys.exit(main())
"""


def run_python(code: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "temporary").mkdir()
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("fuselight_server.cli.tune", "os.kill(os.getpid(), signal.SIGINT)"),
        ("fuselight_server.source.document", "os.kill(os.getpid(), signal.SIGINT)"),
        # Python reports an interrupt within a class statement as a RuntimeError that it caused.
        (
            "fuselight_server.commands.fix",
            "raise RuntimeError('Error calling __set_name__') from KeyboardInterrupt()",
        ),
    ],
)
def test_ctrl_c_during_an_import(project: Path, name: str, act: str) -> None:
    code = SIGNAL_IN_IMPORT.format(name=name, act=act)
    done = run_python(code, "tune", "model.py", "--python", sys.executable, folder=project)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", STOPPED)


@pytest.mark.slow
def test_an_error_that_is_no_interrupt_is_shown(project: Path) -> None:
    code = SIGNAL_IN_IMPORT.format(name="fuselight_server.commands.fix", act="raise RuntimeError('a defect')")
    done = run_python(code, "tune", "model.py", folder=project)
    assert done.returncode == 1
    assert "RuntimeError: a defect" in done.stderr


def test_an_interrupt_is_found_in_a_chain_of_exceptions() -> None:
    error: BaseException = KeyboardInterrupt()
    for kind in (RuntimeError, ImportError):
        outer = kind()
        outer.__context__ = error
        error = outer
    assert interrupts.is_interrupt(error)
    loop = ValueError()
    loop.__context__ = RuntimeError()
    loop.__context__.__context__ = loop
    assert not interrupts.is_interrupt(loop)


def hanging_interpreter(project: Path) -> Path:
    """A program in place of Python that notes its PID and hangs, as one that imports torch from a slow disk."""
    path = project / "python"
    path.write_text(
        f"#!/bin/sh\necho $$ > {project}/began.new\nmv {project}/began.new {project}/began\nexec sleep 1000\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "number"), [("fix", signal.SIGINT), ("forecast", signal.SIGTERM), ("forecast", signal.SIGHUP)]
)
def test_a_signal_while_the_worker_starts_leaves_nothing(
    project: Path, command: str, number: signal.Signals
) -> None:
    # A test run that ignores a signal, as under nohup, hands that on to its children.
    code = (
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"{number:d} == signal.SIGINT or signal.signal({number:d}, signal.SIG_DFL)\n"
        "from fuselight_server import main\nsys.exit(main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, command, "model.py", "--python", str(hanging_interpreter(project))],
        cwd=project,
        env={**os.environ, "TMPDIR": str(project / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not (project / "began").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (130 if number == signal.SIGINT else -number, "", STOPPED)
    assert not [*(project / "temporary").iterdir()]
    wait_gone(int((project / "began").read_text()))


def test_a_command_that_ignores_ctrl_c_ends_by_sigterm() -> None:
    """A shell has a command in its background ignore Ctrl-C."""
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "from fuselight_server.base import interrupts\ninterrupts.raise_at_interrupts()\n"
        "def work():\n    print('began', flush=True)\n    time.sleep(60)\n    return 0\n"
        "sys.exit(interrupts.end_of(work))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        process.terminate()
        _out, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (-signal.SIGTERM, STOPPED)


ONLY_IN_LAUNCH = (
    "import os, signal, sys\nif 'run' in sys.orig_argv and 'launch.py' in ' '.join(sys.orig_argv):\n"
)
TO_BOTH = "    for pid in (os.getppid(), os.getpid()):\n        os.kill(pid, signal.SIGINT)\n"


@pytest.mark.parametrize("moment", ["site", "import"])
def test_ctrl_c_before_the_program_of_run_begins(project: Path, moment: str) -> None:
    """As a terminal does, to the command and to what it started: while Python starts, and while we are imported."""
    text = ONLY_IN_LAUNCH + TO_BOTH
    if moment == "import":
        hook = TO_BOTH.replace("\n    ", "\n            ").replace("    for", "            for", 1)
        text = (
            f"{ONLY_IN_LAUNCH}    class Interrupts:\n        def find_spec(self, name, path, target=None):\n"
            f"            if name != 'fuselight.worker.child.program':\n                return\n{hook}"
            "    sys.meta_path.insert(0, Interrupts())\n"
        )
    (project / "sitecustomize.py").write_text(text)
    (project / "train.py").write_text("print('ran')\n")
    code = "import sys\nfrom fuselight_server import main\nsys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--python", sys.executable, "train.py"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), "TMPDIR": str(project / "temporary")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", STOPPED)
    assert not [*(project / "temporary").iterdir()]


@pytest.mark.slow
def test_ctrl_c_in_the_program_is_the_programs(project: Path) -> None:
    (project / "train.py").write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "    signal.pause()\nexcept KeyboardInterrupt:\n    print('caught')\n"
    )
    code = "import sys\nfrom fuselight_server import main\nsys.exit(main())"
    done = run_python(code, "run", "--python", sys.executable, "train.py", folder=project)
    assert (done.returncode, done.stdout) == (0, "caught\n")

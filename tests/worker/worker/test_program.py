"""`fuselight run`: the program cannot detect the recorder, and its findings are stored however it ends."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fuselight.shared.codec import decode
from fuselight.shared.inputs import parse_directive
from fuselight.shared.report import Report, Rung
from fuselight.shared.worker_launch import launch_path
from tests.support.prepared import program_interpreter

TELLS = """\
import os, signal, sys, threading
print(sys.argv, sys.path[0], __name__, __file__, sorted(k for k in globals() if not k.startswith("_")))
print("fuselight" in str(sys.path), file=sys.stderr)
print(*(signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)))
print([thread.name for thread in threading.enumerate()], os._exit.__module__)
"""

MODEL = """\
import sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, dim, *, act="relu"):
        super().__init__()
        self.l = nn.Linear(dim, dim)

    def forward(self, x, scale=1.0):
        y = self.l(x)
        print("in the break")
        return y.relu() * scale

@torch.compile(backend="eager")
def step(x, n):
    return x * n

net = torch.compile(Net(4), backend="eager")
net(torch.ones(3, 4))
net(torch.ones(5, 4))
step(torch.ones(2), n=3)
"""

BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""So that what a program had written and not flushed when it died shows."""


def run(
    folder: Path, *program: str, python: str = sys.executable, **options: object
) -> tuple[subprocess.CompletedProcess[str], Report | None]:
    report = folder / "report.json"
    command = [
        python,
        launch_path(),
        "run",
        "--report",
        str(report),
        "--root",
        str(folder),
        "--",
        *program,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=BUFFERED, timeout=120, check=False, **options
    )  # type: ignore[call-overload]
    return done, read(report)


def read(path: Path) -> Report | None:
    return decode(Report, json.loads(path.read_text())) if path.exists() else None


def plain(folder: Path, *program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *program],
        capture_output=True,
        text=True,
        cwd=folder,
        env=BUFFERED,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "end",
    [
        "",
        "sys.exit(3)\n",
        "sys.exit('words')\n",
        "raise ValueError('mine')\n",
        "def f():\n    raise KeyError(1)\nf()\n",
        "import atexit\natexit.register(print, 'at exit')\n",
        "os.kill(os.getpid(), 15)\n",
        "os.kill(os.getpid(), 9)\n",
        "raise KeyboardInterrupt\n",
        "this is no python\n",
    ],
)
def test_a_program_cannot_detect_the_recorder(tmp_path: Path, end: str) -> None:
    (tmp_path / "program.py").write_text(TELLS + end)
    ours, _ = run(tmp_path, "program.py", "-a", "--report", "b c")
    theirs = plain(tmp_path, "program.py", "-a", "--report", "b c")
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_a_missing_script_is_reported_as_python_does(tmp_path: Path) -> None:
    ours, _ = run(tmp_path, "gone.py")
    theirs = plain(tmp_path, "gone.py")
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_a_module_runs_as_with_m(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "program.py").write_text(
        "import sys\nprint(sys.argv, sys.path[0], __name__, __package__)\n"
    )
    ours, _ = run(tmp_path, "-m", "package.program", "x")
    theirs = plain(tmp_path, "-m", "package.program", "x")
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)


def test_a_program_that_never_compiles_has_no_report(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import torch\nprint('torch._dynamo' in __import__('sys').modules)\n"
    )
    done, report = run(tmp_path, "program.py")
    assert done.stdout == "False\n"
    assert report is None


FORKS = """
import os
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
    step(torch.ones(2), n=4)
    raise ValueError
else:
    step(torch.ones(2), n=5)
    sys.exit(0)
"""


def test_findings_and_inputs_are_recorded_and_a_forked_process_leaves_the_report_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(MODEL + FORKS)
    done, report = run(tmp_path, "program.py", python=program_interpreter())
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "ValueError")
    assert "fuselight" not in done.stderr
    assert report is not None
    assert report.problems == ()
    assert {graph_break.stack[-1].line for graph_break in report.breaks} == {12}
    assert len(report.recompiles) >= 1
    assert report.inputs is not None
    assert report.inputs.rung is Rung.PROGRAM
    assert [(failure.exception, failure.phase) for failure in report.failures] == [("ValueError", "main")]
    texts = {(recorded_call.target, recorded_call.text) for recorded_call in report.recorded}
    assert texts == {
        ("Net", "Net(dim=4, act='relu')(f32[3, 4], 1.0, train=True)"),
        ("Net", "Net(dim=4, act='relu')(f32[5, 4], 1.0, train=True)"),
        ("step", "step(f32[2], 3, no_grad=False)"),
        ("step", "step(f32[2], 4, no_grad=False)"),
    }
    for recorded_call in report.recorded:
        parse_directive(recorded_call.text)
    assert stat.S_IMODE((tmp_path / "report.json").stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.glob("report*")] == ["report.json"]


TIMED = """\
import os, time
import fuselight.worker.child.program as program
spent = []
real = program._Session._write
def write(self):
    start = time.process_time()
    real(self)
    spent.append(time.process_time() - start)
program._Session._write = write
"""
MANY = """\
spent.clear()
functions = {}
for number in range(40):
    exec(compile(f"def f{number}(x):\\n    return x + {number}", __file__, "exec"), functions)
start = time.process_time()
for number in range(40):
    torch.compile(functions[f"f{number}"], backend="eager")(torch.ones(2))
print(len(spent), sum(spent) / (time.process_time() - start), flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_report_is_complete_after_an_end_that_runs_no_code_and_adds_little_to_each_compile(
    tmp_path: Path,
) -> None:
    """As any signal, crash or `os._exit`. The test above ends with an error, which runs Python's own teardown."""
    (tmp_path / "program.py").write_text(TIMED + MODEL + MANY)
    done, report = run(tmp_path, "program.py", python=program_interpreter())
    assert done.returncode != 0
    assert report is not None, done.stderr
    line = 1 + (TIMED + MODEL).splitlines().index('        print("in the break")')
    assert {graph_break.stack[-1].line for graph_break in report.breaks} == {line}
    assert [recorded_call.target for recorded_call in report.recorded[:3]] == ["Net", "Net", "step"]
    assert all(record.graph is not None for record in report.compiles[-41:])
    functions = [report.frames[record.frame].function for record in report.compiles]
    assert functions[-41:] == ["step", *(f"f{number}" for number in range(40))]
    assert report.problems == ()
    assert [entry.name for entry in tmp_path.glob("report*")] == ["report.json"]
    count, share = done.stdout.split()[-2:]
    assert (int(count), float(share) < 0.25) == (40, True), done.stdout

"""Whatever user code does, its run has one answer that names the culprit and the line, and the next run works."""

# ruff: noqa: E501 - programs on one line

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuselight.protocol import Answer, Refused
from fuselight.report import Culprit
from fuselight_server import sampling, worker_runs, worker_start
from tests.support.live_worker import LiveWorker, replace, wait_gone

GOOD = """\
import torch
# fuselight: f(f32[4])
def f(x):
    return x.sin()
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWorker]:
    live = LiveWorker(tmp_path_factory.mktemp("workspace"))
    yield live
    live.close()


@pytest.fixture(autouse=True)
def the_next_run_works(live: LiveWorker) -> Iterator[None]:
    """After each test: the same host answers a plain request, and nothing of the run is left."""
    live.lines.clear()
    yield
    print("\n".join(live.lines))  # noqa: T201 - shown when a test fails
    hello = live.do(live.worker.start())
    report = live.analyse(GOOD, file="good.py")
    assert report.failures == ()
    assert len(report.compiles) == 1
    assert live.do(live.worker.start()).pid == hello.pid, "the host was restarted"


def body(text: str) -> str:
    """A function whose body is `text`, called through torch.compile and left by a graph break."""
    indented = "\n".join(f"    {line}" for line in text.splitlines())
    return f"import os, sys, torch\n# fuselight: f(f32[4])\ndef f(x):\n    torch._dynamo.graph_break()\n{indented}\n    return x.sin()\n"


def test_prints_are_kept_and_the_protocol_is_untouched(live: LiveWorker) -> None:
    report = live.analyse(body("print('from python')\nsys.stderr.write('to stderr\\n')"))
    assert report.failures == ()
    assert report.output.stdout == "from python\n"
    assert report.output.stderr == "to stderr\n"


def test_c_level_and_binary_output_is_kept(live: LiveWorker) -> None:
    report = live.analyse(
        body(
            "import ctypes\nctypes.CDLL(None).puts(b'from C')\nctypes.CDLL(None).fflush(None)\nos.write(1, bytes(range(256)))"
        )
    )
    assert report.failures == ()
    assert "from C" in report.output.stdout
    assert "\\xff" in report.output.stdout
    assert report.output.stdout_bytes == 256 + 7


def test_output_is_bounded_and_counted(live: LiveWorker) -> None:
    report = live.analyse(
        body("for _ in range(1000): os.write(1, b'x' * 1000)\nprint('the end')"), output_kb=4
    )
    assert report.output.stdout.endswith("the end\n")
    assert len(report.output.stdout) == 4096
    assert report.output.stdout_bytes == 1_000_008


def test_a_child_that_inherits_stdout_does_not_hold_the_run(live: LiveWorker) -> None:
    source = body(
        "import subprocess\nsubprocess.Popen(['sh', '-c', 'echo from a child; sleep 600'])\nsubprocess.run(['echo', 'another'])"
    )
    report = live.analyse(source, seconds=30)
    assert report.failures == ()
    assert "another" in report.output.stdout


def test_a_daemon_that_leaves_its_group_is_killed(live: LiveWorker, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    live.analyse(
        body(
            f"import subprocess\nchild = subprocess.Popen(['sleep', '600'], start_new_session=True)\nopen({str(note)!r}, 'w').write(str(child.pid))"
        )
    )
    wait_gone(int(note.read_text()))


@pytest.mark.parametrize("way", ["sys.exit(3)", "raise SystemExit(3)", "os._exit(3)"])
def test_exits_name_the_users_line(live: LiveWorker, way: str) -> None:
    failure = live.failure(body(way))
    assert (failure.culprit, failure.kind) == (Culprit.USER, "exit")
    assert "3" in failure.message
    assert failure.stack[-1].line == 5


def test_exit_at_import(live: LiveWorker) -> None:
    failure = live.failure("import sys\nsys.exit('no')\n")
    assert (failure.kind, failure.phase, failure.stack[-1].line) == ("exit", "import", 2)


def test_what_was_learnt_before_an_exit_counts(live: LiveWorker) -> None:
    report = live.analyse(body("os._exit(0)"))
    assert report.breaks[0].stack[-1].line == 4


def test_a_segfault_names_signal_and_line(live: LiveWorker) -> None:
    report = live.analyse(body("import ctypes\nctypes.string_at(0)"))
    (failure,) = report.failures
    assert report.breaks[0].stack[-1].line == 4, "what was learnt before counts"
    assert (failure.culprit, failure.kind) == (Culprit.USER, "signal")
    assert "SIGSEGV" in failure.message
    assert (Path(failure.stack[-1].path).name, failure.stack[-1].line) == ("model.py", 6)


def test_a_kill_from_outside(live: LiveWorker) -> None:
    failure = live.failure(body("os.kill(os.getpid(), 9)"))
    assert failure.kind == "signal"
    assert "SIGKILL" in failure.message


def spinning(loop: str) -> str:
    """`f` calls, outside of what is traced, a function that does not come back."""
    indented = "\n".join(f"    {line}" for line in loop.splitlines())
    return f"import torch\n# fuselight: f(f32[4])\ndef f(x):\n    spin()\n    return x.sin()\n@torch.compiler.disable\ndef spin():\n{indented}\n"


DEAF = """\
import signal
for one in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(one, signal.SIG_IGN)
while True: pass"""
"""Ignored, not blocked: a thread of CUDA's, which torch starts where there is a GPU, takes what this one blocks."""


def test_an_endless_loop_is_stopped_on_its_line_with_what_was_learnt(live: LiveWorker) -> None:
    report = live.analyse(spinning("while True: pass"), seconds=3)
    (failure,) = report.failures
    assert (failure.culprit, failure.kind) == (Culprit.USER, "timeout")
    assert failure.stack[-1].line == 8
    assert "killed after 3 s at model.py:8" in failure.message
    assert report.breaks[0].stack[-1].line == 4


def test_to_be_stopped_breaks_no_graph(live: LiveWorker) -> None:
    source = (
        "import time, torch\n# fuselight: f(f32[4])\ndef f(x):\n    while True:\n        time.sleep(0.01)\n"
    )
    report = live.analyse(source, seconds=3)
    (failure,) = report.failures
    assert (failure.kind, failure.stack[-1].line) == ("timeout", 5)
    assert report.breaks
    assert all("sleep" in one.explanation for one in report.breaks), "our own handler was traced"


def test_an_endless_call_in_c_is_killed_on_its_line(live: LiveWorker) -> None:
    failure = live.failure(
        body("import ctypes\nlibc = ctypes.PyDLL(None)\nwhile True: libc.pause()"), seconds=3
    )
    assert failure.kind == "timeout"
    assert failure.stack[-1].line == 7


def test_a_loop_that_swallows_everything_is_killed(live: LiveWorker) -> None:
    loop = "while True:\n  try:\n    while True: pass\n  except BaseException: pass"
    failure = live.failure(spinning(loop), seconds=3)
    assert failure.kind == "timeout"
    assert failure.stack[-1].line in range(8, 12)


def test_one_that_can_no_longer_be_asked_is_not_said_to_be_where_it_was_last_heard_of(
    live: LiveWorker,
) -> None:
    failure = live.failure(spinning(DEAF), seconds=3)
    assert failure.kind == "timeout"
    assert "killed after 3 s in the call; last heard of at model.py:" in failure.message
    assert failure.stack, "there is a line to show it on"


def test_an_answer_whose_folder_the_code_deletes_is_lost_and_no_exit_of_the_codes(live: LiveWorker) -> None:
    hunt = "import glob, shutil, tempfile\nfor one in glob.glob(tempfile.gettempdir() + f'/fuselight-worker-*-{os.getppid()}-*/*'):\n    shutil.rmtree(one)"
    failure = live.failure(body(hunt))
    assert (failure.culprit, failure.kind) == (Culprit.FUSELIGHT, "damaged_answer")


@pytest.mark.parametrize(
    "patch",
    [
        "os.replace = os.getpid = os.write = os.fstat = None",
        "os.getpid = lambda: 1",
        "json.dumps = json.loads = lambda *_, **__: 1",
    ],
)
def test_what_the_code_puts_in_the_place_of_pythons_own_is_not_ours(live: LiveWorker, patch: str) -> None:
    source = "import json, os\n" + patch + "\n" + GOOD
    report = live.analyse(source)
    assert report.failures == ()
    assert len(report.compiles) == 1


def test_without_open_no_file_can_be_compiled_and_that_is_told(live: LiveWorker) -> None:
    failure = live.failure("import builtins\nbuiltins.open = None\nraise ValueError('mine')\n")
    assert (failure.culprit, failure.exception) == (Culprit.USER, "ValueError")


def test_a_silent_run_is_sampled_on_the_users_line(live: LiveWorker) -> None:
    live.analyse(body("import time\nwhile True: time.sleep(0.01)"), seconds=6)
    sampled = [one for one in live.progress if one.line == 6 and "model.py:6" in one.detail]
    assert sampled, live.progress


async def not_permitted(pid: int) -> sampling.Sample:
    return sampling.Sample(why_not=f"Permission denied for {pid}")


def test_where_py_spy_may_not_look_the_run_itself_says_where_it_is(
    live: LiveWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_runs, "sample", not_permitted)
    report = live.analyse(spinning("while True: pass"), seconds=6)
    assert any(one.line == 8 and one.detail.endswith("spin, model.py:8") for one in live.progress), (
        live.progress
    )
    assert any("Permission denied" in line for line in live.lines)
    (failure,) = report.failures
    assert (failure.kind, failure.stack[-1].line) == ("timeout", 8)
    asked = live.analyse(spinning("import time\ntime.sleep(3)"), seconds=60)
    assert asked.failures == (), "to be asked changes nothing"
    assert any(one.line == 9 for one in live.progress), live.progress


def test_where_neither_can_the_phase_stands_alone(live: LiveWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_runs, "sample", not_permitted)
    report = live.analyse(spinning(DEAF), seconds=4)
    (failure,) = report.failures
    assert report.breaks[0].stack[-1].line == 4, "what was learnt before counts"
    assert (failure.culprit, failure.kind, failure.phase) == (Culprit.USER, "timeout", "trace")
    assert not [one for one in live.progress if one.line in range(8, 11)]


def test_memory_is_limited(live: LiveWorker) -> None:
    failure = live.failure(
        body("hoard = []\nwhile True: hoard.append(bytearray(10_000_000))"), memory_mb=1500
    )
    assert (failure.culprit, failure.kind) == (Culprit.USER, "memory")
    assert failure.stack[-1].line == 6


def test_a_model_too_large_to_build_is_built_on_fake_tensors(live: LiveWorker) -> None:
    source = """\
import torch
# fuselight: Net()(f32[2, 30000])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(30000, 30000)
        self.b = torch.nn.Linear(30000, 30000)
    def forward(self, x):
        return self.b(self.a(x).relu())
"""
    report = live.analyse(source, "Net", memory_mb=1500)
    assert report.failures == ()
    assert report.inputs is not None
    assert report.inputs.fake
    assert any(note.kind == "fake_tensors" and "memory" in note.text for note in report.notes)
    assert len(report.compiles) == 1


def test_a_fork_that_falls_through_gives_one_answer(live: LiveWorker) -> None:
    report = live.analyse(body("os.fork()"))
    assert report.failures == ()
    assert report.breaks[0].stack[-1].line == 4


def test_changing_directory_changes_nothing(live: LiveWorker) -> None:
    assert live.analyse(body("os.chdir('/')")).failures == ()


def test_closing_every_descriptor_is_told_and_loses_nothing(live: LiveWorker) -> None:
    report = live.analyse(body("os.closerange(0, 4096)"))
    (failure,) = report.failures
    assert (failure.culprit, failure.kind, failure.stack[-1].line) == (Culprit.USER, "descriptors", 2)
    assert report.breaks[0].stack[-1].line == 4


def test_descriptors_reused_by_the_user_are_not_written_to(live: LiveWorker, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    live.analyse(
        body(f"os.closerange(3, 4096)\nfor _ in range(40): os.open({str(mine)!r}, os.O_RDWR | os.O_CREAT)")
    )
    assert mine.read_bytes() == b""


def test_threads_do_not_hold_the_run(live: LiveWorker) -> None:
    report = live.analyse(
        body("import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()")
    )
    assert report.failures == ()


def test_an_exception_is_on_the_users_line(live: LiveWorker) -> None:
    failure = live.failure(body("raise ValueError('mine')"))
    assert (failure.culprit, failure.kind, failure.exception) == (Culprit.USER, "exception", "ValueError")
    assert failure.stack[-1].line == 5


def test_a_syntax_error_at_import(live: LiveWorker) -> None:
    failure = live.failure("import torch\ndef f(x:\n    pass\n")
    assert (failure.culprit, failure.kind, failure.phase) == (Culprit.USER, "import", "import")
    assert (Path(failure.stack[-1].path).name, failure.stack[-1].line) == ("model.py", 2)
    assert failure.message.startswith("SyntaxError: ")


def test_a_syntax_error_in_an_imported_file_is_there_with_its_column(live: LiveWorker) -> None:
    (live.folder / "broken.py").write_text("ok = 1\nif 'é' = 2:\n    pass\n", encoding="utf-8")
    failure = live.failure("import broken\n")
    (live.folder / "broken.py").unlink()
    place = failure.stack[-1]
    assert (Path(place.path).name, place.line, place.column) == ("broken.py", 2, 3)
    assert failure.stack[0].line == 1


def test_what_traces_through_an_exit_never_shows_our_own_frames(live: LiveWorker) -> None:
    report = live.analyse(
        "import os, torch\n# fuselight: f(f32[4])\ndef f(x):\n    if x.dim() == 1:\n        os._exit(3)\n    return x.sin()\n"
    )
    ours = str(worker_start.launch_path().parents[1])
    assert ours not in repr(
        replace(report, texts={}, failures=tuple(replace(f, traceback="") for f in report.failures))
    )
    assert {found.stack[-1].line for found in report.breaks} == {5}
    assert [failure.kind for failure in report.failures] == ["exit"]


def test_a_spawn_that_imports_main_again(live: LiveWorker) -> None:
    source = """\
import multiprocessing
import torch

def work(n):
    return n + 1

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        print("got", pool.map(work, [1]))
    print(torch.compile(lambda x: x + 1)(torch.ones(2)))
"""
    report = live.analyse(source, "")
    assert report.failures == (), report.output
    assert "got [2]" in report.output.stdout
    assert len(report.compiles) == 1


def _library_of_torchs() -> str:
    """A module that torch imports and Python itself did not: what a site's `.pth` files load, no file can shadow."""
    command = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    started_with = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return next(name for name in ("random", "cProfile", "colorsys") if name not in started_with)


@pytest.mark.parametrize("name", ["events", "wire", _library_of_torchs(), "report", "host"])
def test_the_users_modules_are_found_before_ours_and_the_librarys(live: LiveWorker, name: str) -> None:
    (live.folder / "shadow").mkdir(exist_ok=True)
    (live.folder / "shadow" / f"{name}.py").write_text("mine = True\n")
    report = live.analyse(f"import {name}\nassert {name}.mine\n" + GOOD, file="shadow/model.py")
    (live.folder / "shadow" / f"{name}.py").unlink()
    assert report.failures == ()


def test_our_folder_is_not_on_the_users_path(live: LiveWorker) -> None:
    report = live.analyse(body("print([p for p in sys.path if 'fuselight' in p or p.endswith('/worker')])"))
    assert report.output.stdout.splitlines()[0] == "[]"


def test_unsaved_text_counts(live: LiveWorker) -> None:
    (live.folder / "helper.py").write_text("raise RuntimeError('the saved text')\n")
    path = live.folder / "helper.py"
    source = "import torch, helper, unsaved\n# fuselight: f(f32[4])\ndef f(x):\n    return helper.g(x) * unsaved.n\n"
    overlays = {str(path): "def g(x):\n    return x + 1\n", str(live.folder / "unsaved.py"): "n = 2\n"}
    assert live.analyse(source, overlays=overlays).failures == ()


def test_two_saves_within_a_second_both_count(live: LiveWorker) -> None:
    source = "import torch, helper2\n# fuselight: f(f32[4])\ndef f(x):\n    print(helper2.n)\n    return x\n"
    seen = []
    for number in (4, 7):
        helper = live.folder / "helper2.py"
        helper.write_text(f"n = {number}\n")
        os.utime(helper, (1_000_000_000, 1_000_000_000))
        seen.append(live.analyse(source).output.stdout)
    assert seen == ["4\n", "7\n"]


def test_fifty_megabytes_pass_both_ways(live: LiveWorker) -> None:
    overlays = {str(live.folder / "large.py"): "#" * 50_000_000}
    report = live.analyse(body("os.write(1, b'y' * 55_000_000)"), output_kb=50_000, overlays=overlays)
    assert report.failures == ()
    assert len(report.output.stdout) == 50_000 * 1024


def test_runs_of_two_saves_do_not_disturb_each_other(live: LiveWorker) -> None:
    slow = live.request(
        body("import time\nprint('started', flush=True)\nwhile True: time.sleep(0.01)"), file="slow.py"
    )
    good = live.request(GOOD, file="good.py")

    async def both() -> Answer | Refused:
        begun = asyncio.Event()
        first = asyncio.create_task(
            live.worker.run(slow, lambda one: begun.set() if one.phase == "trace" else None)
        )
        await begun.wait()
        answer = await live.worker.run(good, lambda _: None)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return answer

    answer = live.do(both())
    assert isinstance(answer, Answer)
    assert answer.report.failures == ()


def test_the_host_keeps_the_fork_rules_after_all_that(live: LiveWorker) -> None:
    hello = live.do(live.worker.start())
    live.analyse(
        GOOD.replace("import torch", "import torch, transformers, numpy, jaxtyping"), file="libraries.py"
    )
    live.analyse(GOOD, file="good.py")
    descriptors = [str(entry.readlink()) for entry in Path(f"/proc/{hello.pid}/fd").iterdir()]
    assert not [path for path in descriptors if path.startswith("/dev/nvidia")]
    assert not [line for line in live.lines if "fork rule" in line]
    report = live.analyse(
        body("print(torch.get_num_threads())\n(torch.randn(800, 800) @ torch.randn(800, 800)).sum()"),
        seconds=30,
    )
    assert report.failures == ()
    assert int(report.output.stdout.splitlines()[0]) >= 1
    assert sys.platform == "linux"

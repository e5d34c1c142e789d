"""Output, children, descriptors and modules of user code do not affect the host, and the next run works."""

# ruff: noqa: E501 - programs on one line

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuselight.shared.report import Culprit
from tests.support.live_worker import GOOD, LiveWorker, body, wait_gone

pytestmark = pytest.mark.usefixtures("the_next_run_works")


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


def test_a_fork_that_falls_through_gives_one_answer(live: LiveWorker) -> None:
    report = live.analyse(body("os.fork()"))
    assert report.failures == ()
    assert report.breaks[0].stack[-1].line == 4


def test_changing_directory_changes_nothing(live: LiveWorker) -> None:
    assert live.analyse(body("os.chdir('/')")).failures == ()


def test_closing_every_descriptor_is_reported_and_loses_nothing(live: LiveWorker) -> None:
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
    """A module that torch imports and Python did not: files cannot shadow modules that a site's `.pth` files load."""
    command = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    started_with = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return next(name for name in ("random", "cProfile", "colorsys") if name not in started_with)


@pytest.mark.parametrize("name", ["events", "wire", _library_of_torchs(), "report", "host"])
def test_the_users_modules_are_found_before_ours_and_the_library(live: LiveWorker, name: str) -> None:
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


def test_the_host_keeps_the_fork_rules_after_all_that(live: LiveWorker) -> None:
    hello = live.do(live.worker.start())
    live.analyse(
        GOOD.replace("import torch", "import torch, transformers, numpy, jaxtyping"), file="libraries.py"
    )
    live.analyse(GOOD, file="good.py")
    descriptors = list[str]()
    for entry in Path(f"/proc/{hello.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the host has closed it meanwhile
            descriptors.append(str(entry.readlink()))
    assert descriptors
    assert not [path for path in descriptors if path.startswith("/dev/nvidia")]
    assert not [line for line in live.lines if "fork rule" in line]
    report = live.analyse(
        body("print(torch.get_num_threads())\n(torch.randn(800, 800) @ torch.randn(800, 800)).sum()"),
        seconds=30,
    )
    assert report.failures == ()
    assert int(report.output.stdout.splitlines()[0]) >= 1
    assert sys.platform == "linux"

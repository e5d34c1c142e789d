"""Which threads break the fork rules: those that remain after a fork, and no others."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMPILER = Path(__file__).parents[3] / "compiler"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="fork rules hold where the host forks: on Linux"
)

START = """\
import os, sys, threading, warnings
from fuselight.worker.processes import fork_rules

stop = threading.Event()
thread = threading.Thread(target=stop.wait, daemon=True)

def end():
    stop.set()
    while os.path.exists(f"/proc/self/task/{thread.native_id}"):
        pass

baseline = fork_rules.baseline()
"""


def run(body: str) -> list[str]:
    """Run the lines in a process of their own, where warnings are errors. Returns the lines that it printed."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            f"import sys; sys.path.insert(0, {str(COMPILER)!r})\n{START}{body}",
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_thread_that_a_library_ends_before_a_fork_breaks_no_rule() -> None:
    body = "os.register_at_fork(before=end)\nthread.start()\nprint(fork_rules.violations(baseline))\n"
    assert run(body) == ["()"]


def test_a_thread_that_stays_breaks_one() -> None:
    body = "thread.start()\nprint(fork_rules.violations(baseline))\n"
    assert run(body) == ["('1 new threads',)"]


def test_a_thread_that_a_fork_does_not_need_breaks_no_rule() -> None:
    body = (
        "thread.start()\n"
        "with open(f'/proc/self/task/{thread.native_id}/comm', 'w') as file:\n"
        "    file.write('jemalloc_bg_thd')\n"
        "print(fork_rules.violations(baseline))\n"
    )
    assert run(body) == ["()"]


def test_the_baseline_has_no_thread_that_ends_before_a_fork() -> None:
    body = "os.register_at_fork(before=end)\nthread.start()\nprint(fork_rules.baseline())\n"
    assert run(body) == ["1"]


def test_nothing_is_forked_without_a_new_thread() -> None:
    body = "os.register_at_fork(before=lambda: print('forked'))\nprint(fork_rules.violations(baseline))\n"
    assert run(body) == ["()"]


def test_preparing_to_fork_reaps_only_its_own_child() -> None:
    body = """\
other = os.posix_spawn(sys.executable, [sys.executable, "-c", "raise SystemExit(7)"], os.environ)
os.waitid(os.P_PID, other, os.WEXITED | os.WNOWAIT)
fork_rules.prepare_to_fork()
print(os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]))
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child is left")
"""
    assert run(body) == ["7", "no child is left"]


def test_a_library_that_hangs_in_a_fresh_child_blocks_nothing() -> None:
    body = """\
os.register_at_fork(after_in_child=threading.Event().wait)
fork_rules.prepare_to_fork()
print('settled')
"""
    assert run(body) == ["settled"]


def test_preparing_to_fork_continues_with_warnings_as_errors() -> None:
    body = """\
plain = os.fork

def fork():  # as that of Python 3.12 and newer does in a process of several threads
    pid = plain()
    if pid:
        warnings.warn("use of fork() may lead to deadlocks in the child", DeprecationWarning, stacklevel=2)
    return pid

os.fork = fork
thread.start()
print(fork_rules.violations(baseline))
"""
    assert run(body) == ["('1 new threads',)"]


def test_preparing_to_fork_continues_without_processes() -> None:
    body = """\
def refuse():
    raise BlockingIOError(11, "Resource temporarily unavailable")

os.fork = refuse
thread.start()
print(fork_rules.violations(baseline))
"""
    assert run(body) == ["('1 new threads',)"]


LOCKED = f"""
import os, signal, sys
sys.path.insert(0, {str(COMPILER)!r})
import tqdm, tqdm.auto
from fuselight.worker.processes import fork_rules

if sys.argv[1] == "renewed":
    fork_rules.renew_locks_in_forks()
tqdm.tqdm.get_lock()
held, holds = os.pipe()
paused = os.fork()
if paused == 0:
    tqdm.tqdm.get_lock().acquire()
    os.write(holds, b"1")
    signal.pause()
os.read(held, 1)
other = os.fork()
if other == 0:
    signal.alarm(3)
    list(tqdm.tqdm([1, 2], disable=True))
    list(tqdm.auto.tqdm([1, 2], disable=True))
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
os.kill(paused, signal.SIGKILL)
"""


@pytest.mark.parametrize(("locks", "code"), [("renewed", 0), ("shared", -signal.SIGALRM)])
def test_a_fork_does_not_wait_for_the_bars_of_another_process(locks: str, code: int) -> None:
    pytest.importorskip("tqdm")
    done = subprocess.run(
        [sys.executable, "-c", LOCKED, locks], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) == code, done.stderr

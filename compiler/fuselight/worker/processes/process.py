"""Process control through the kernel: death with the parent, sampling permission, and memory use.

Invariant: a function does nothing (or returns None) if the kernel lacks the feature. Correct answers never need it; it
only makes runs end faster and messages better.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)

SOFT_SIGNAL: int = signal.SIGRTMAX - 2 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2
"""Asks a run to stop and to record its position. A real-time signal: programs use SIGUSR1 and SIGUSR2 themselves."""

SAMPLE_SIGNAL: int = signal.SIGURG
"""Asks a run to dump its stack and go on. Ignored by default, so that it harms no program that a run turns into."""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PAUSE = 0.01
_LOOK_EVERY = 1.0
"""Seconds."""


def flush_output() -> None:
    """Flush what this process printed; user code may have replaced the streams."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def open_line_buffered_output() -> None:
    """Give descriptors 1 and 2 new streams: a crash loses no whole line, and odd text raises nothing.

    A line is written at once, also with `python -u`: lines of several processes are never mixed.
    """
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = open(  # noqa: SIM115 - open until the end
            descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _prctl(option: int, value: int | ctypes.c_ulong) -> None:
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent `parent` ends; at once if it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def end_with_owner() -> None:
    """End this process as soon as the one that started it is gone, until `outlive_owner`; at once if that is so.

    The kernel does it on Linux, a timer elsewhere: the host has no second thread. The owner holds the other end of
    descriptor 0, which tells whether it ended before this call.
    """
    owner = os.getppid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if _is_hung_up(0):
        os._exit(0)
    if not sys.platform.startswith("linux"):
        watch_owner(owner)


def watch_owner(owner: int) -> None:
    """Look each second whether the parent is still `owner`."""

    def look(_number: int, _frame: FrameType | None) -> None:
        if os.getppid() != owner:
            os._exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_EVERY, _LOOK_EVERY)


def outlive_owner() -> None:
    """Undo `end_with_owner`: from now on this process ends in order when its requests do."""
    _prctl(_PR_SET_PDEATHSIG, 0)
    stop_watching()


def stop_watching() -> None:
    """Undo `watch_owner`: user code may use the timer."""
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _is_hung_up(descriptor: int) -> bool:
    """Whether the other end of a pipe is closed, and nothing is left to read."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return any(event & select.POLLHUP and not event & select.POLLIN for _, event in poll.poll(0))


def allow_sampling() -> None:
    """Let any process of this user read our stack: under Yama's ptrace_scope=1 a sibling may not otherwise."""
    _prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that they can be found and killed."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def has_children() -> bool:
    """Whether this process has any child, without a look at all processes of the machine."""
    if sys.platform == "darwin":  # has no waitid
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def children_of(pid: int) -> tuple[int, ...]:
    """List the direct children of `pid`; empty where there is no /proc."""
    return tuple(child for child, parent in _parents().items() if parent == pid)


def kill_descendants(seconds: float = 5.0) -> None:
    """Kill all processes below this one and collect them, within `seconds`.

    What a killed process leaves becomes our child (`adopt_orphans`), and is killed next.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        below = descendants(os.getpid())[1:]
        for pid in below:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            if not below:
                return
        time.sleep(_PAUSE)


def descendants(pid: int) -> tuple[int, ...]:
    """List `pid` and all below it."""
    parents = _parents()
    descendants = [pid]
    for member in descendants:
        descendants += [
            child for child, parent in parents.items() if parent == member and child not in descendants
        ]
    return tuple(descendants)


def pause_tree(pid: int) -> None:
    """Stop `pid` and all below it until `resume_tree`; those that start a process meanwhile are looked at again."""
    stopped: set[int] = set()
    while new := [descendant for descendant in descendants(pid) if descendant not in stopped]:
        for number in new:
            stopped.add(number)
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGSTOP)


def resume_tree(pid: int) -> None:
    """Let `pid` and all below it continue."""
    for descendant in descendants(pid):
        with contextlib.suppress(OSError):
            os.kill(descendant, signal.SIGCONT)


def _parents() -> dict[int, int]:
    """Map every process of the machine to its parent: few kernels list the children of one."""
    parents = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):  # it ended in between
                continue
    return parents


def system_kills() -> int:
    """How many processes the kernel has killed since its start because memory ran out; 0 where it does not say."""
    with contextlib.suppress(OSError, ValueError), open("/proc/vmstat", encoding="ascii") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    return 0


def tree_memory(pid: int, *, enough: int) -> int | None:
    """Measure the resident bytes of `pid` and all below it, None if it has ended.

    Pages that processes share count once for each, until the sum passes `enough` bytes: then they are shared out.
    """
    if not sys.platform.startswith("linux"):
        return _group_memory(pid)
    members = descendants(pid)
    total = sum(resident(member) or 0 for member in members)
    if total > enough:
        total = sum(_proportional(member) or resident(member) or 0 for member in members)
    return total or None


def resident(pid: int) -> int | None:
    """Measure the resident bytes of one process, None where that cannot be known."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return None


def _proportional(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, IndexError):
        return None
    return None


def _group_memory(pid: int) -> int | None:
    """Ask `ps`, where there is no /proc."""
    try:
        listing = subprocess.run(
            ["/bin/ps", "-axo", "pgid=,rss="], capture_output=True, text=True, timeout=2, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    sizes = [int(row[1]) for row in (line.split() for line in listing.splitlines()) if row[:1] == [str(pid)]]
    return sum(sizes) * 1024 or None


def collect(pid: int) -> int | None:
    """Collect our child `pid` if it has ended, and kill what is left of its group.

    Returns its exit status, below 0 for a signal; None while it is running.

    Its group is killed before it is collected: from then on its number may be another process's. Raises
    ChildProcessError if it is no child of ours, or was collected already.
    """
    if sys.platform == "darwin":  # has no waitid; a group that still has members keeps its number
        collected, status = os.waitpid(pid, os.WNOHANG)
        if collected:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(status) if collected else None
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        return None
    kill_group(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_group(pid: int) -> None:
    """Kill the process group that `pid` leads, and `pid` itself should it not lead one yet. It is not collected yet."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)

"""Rules for a process that forks after importing torch, and checks of these rules.

A parallel operator, a large backward or an Inductor compile starts a thread pool, and a child forked afterwards hangs
at its first parallel operator. A parent that has initialized CUDA breaks CUDA in every child. Invariant: `violations`
is empty in the host at each fork. Only threads that remain after a fork count: OpenBLAS, for example, ends its threads
before a fork and restarts them when needed, and jemalloc works without its thread. Linux only, as forking is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings

HOST_VARIABLES = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of compile workers
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # a library's torch.cuda.is_available() must not initialize CUDA
}
"""Set in the host before torch is imported; a child gets the user's own values back."""

HOST_UNSET = ("TORCH_TRACE", "TORCH_LOGS_OUT")
"""Removed in the host: every child would write to the log file that the host opened."""

_DISPENSABLE = frozenset({b"jemalloc_bg_thd"})
"""Names of threads without which a library does in a fork: jemalloc, which comes with pyarrow, and so with pandas,
scikit-learn and transformers, has none there, and gives back its memory in the threads that use it
(background_thread_postfork_child)."""
_EXITING = 0x4
"""The kernel's PF_EXITING, in the flags of a thread's `stat`."""


def baseline() -> int:
    """Count this process's threads after importing torch and before any computation; a fork leaves these alone.

    Forks once if there are several, as numpy's own OpenBLAS may have some.
    """
    return _threads_after_a_fork(1)


def violations(before: int) -> tuple[str, ...]:
    """Describe which rules this process breaks; it had `before` threads. Forks once if there are new ones."""
    violations = []
    threads = _threads_after_a_fork(before)
    if threads > before:
        violations.append(f"{threads - before} new threads")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        violations.append("CUDA is initialized")
    devices = nvidia_descriptors()
    if devices:
        violations.append(f"open descriptors of {', '.join(devices)}")
    return tuple(violations)


def prepare_to_fork() -> None:
    """Fork a child that exits at once, so that libraries that end their threads before a fork have done so.

    Takes a few milliseconds. If no process can be started, the libraries' handlers before the fork still ran.
    """
    with contextlib.suppress(OSError):
        pid = fork()
        if pid == 0:
            os._exit(0)
        os.kill(pid, signal.SIGKILL)  # what a library does in a fresh child may never end
        os.waitpid(pid, 0)  # fails where SIGCHLD is ignored, once that child has ended


def renew_locks_in_forks() -> None:
    """Have each fork begin with a lock of its own for tqdm: torch.fx creates a bar of it for each graph that it runs.

    tqdm's lock is a semaphore that all forks share: a run that is paused or killed while it has it would stop others.
    """
    os.register_at_fork(after_in_child=_renew_tqdm_lock)


def _renew_tqdm_lock() -> None:
    module = sys.modules.get("tqdm.std")
    lock, bars = getattr(module, "TqdmDefaultWriteLock", None), [getattr(module, "tqdm", None)]
    if not isinstance(lock, type):
        return
    lock.th_lock = threading.RLock()  # type: ignore[attr-defined]
    if "mp_lock" in vars(lock):
        del lock.mp_lock  # type: ignore[attr-defined]
    while bars:
        bar = bars.pop()
        if isinstance(bar, type):
            bars += bar.__subclasses__()
            if "_lock" in vars(bar):
                del bar._lock  # type: ignore[attr-defined]  # noqa: SLF001 - tqdm then makes another one


def fork() -> int:
    """Fork as `os.fork` does, even if the user turns warnings into errors: an error would lose the child's PID."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: the process is multi-threaded
        return os.fork()


def _threads_after_a_fork(expected: int) -> int:
    """Count the threads. Only if there are more than `expected` it takes a fork to see which of them stay."""
    if thread_count() > expected:
        prepare_to_fork()
    return thread_count()


def thread_count() -> int:
    """Count the threads of this process, native threads included, that a fork would not copy."""
    return sum(_is_needed(name) for name in os.listdir("/proc/self/task"))


def _is_needed(thread: str) -> bool:
    """Whether a thread is still running and a fork needs it.

    A thread that has finished can still be listed.
    """
    try:
        with open(f"/proc/self/task/{thread}/stat", "rb") as file:
            name, _, fields = file.read().partition(b"(")[2].rpartition(b")")
        return name not in _DISPENSABLE and not int(fields.split()[6]) & _EXITING
    except OSError:  # it ended in between
        return False


def nvidia_descriptors() -> tuple[str, ...]:
    """Name the NVIDIA device files that this process has open."""
    descriptors = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the descriptor of the listing itself
            continue
        if path.startswith("/dev/nvidia"):
            descriptors.add(path)
    return tuple(sorted(descriptors))

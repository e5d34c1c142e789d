"""Runs a module as on Windows, without torch: `python as_on_windows.py MODULE ARGUMENTS`.

The standard library is imported first and keeps what it needs, as it works on Windows by other means. What is imported
later, ours among it, gets `os`, `signal` and `socket` as they are there. Paths stay those of this system.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import importlib.abc
import logging.handlers
import multiprocessing.connection
import os
import platform
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
import webbrowser
from pathlib import Path
from types import ModuleType
from typing import Any

platform.uname()
uuid.uuid4()
_IMPORTED_FIRST = (asyncio, concurrent.futures.thread, logging.handlers, multiprocessing.connection)
_IMPORTED_TOO = (shutil, subprocess, tempfile, webbrowser)
_MODULES = frozenset(
    [
        "_posixsubprocess",
        "crypt",
        "curses",
        "fcntl",
        "grp",
        "nis",
        "ossaudiodev",
        "posix",
        "pty",
        "pwd",
        "readline",
        "resource",
        "spwd",
        "syslog",
        "termios",
        "tty",
        "numpy",
        "torch",
        "triton",
    ]
)
_NAMES = {
    os: "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC WIFEXITED WIFSIGNALED WNOHANG chown chroot "
    "copy_file_range eventfd fchdir fchmod fchown fork forkpty getegid geteuid getgid getgroups getloadavg getpgid "
    "getpgrp getpriority getresuid getsid getuid killpg lchown lockf major memfd_create mkfifo mknod nice openpty "
    "pidfd_open pipe2 posix_spawn pread preadv pwrite register_at_fork sched_getaffinity sched_setaffinity sendfile "
    "setpgid setsid splice statvfs sync sysconf tcgetpgrp ttyname uname wait wait3 wait4 waitid",
    signal: "SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 "
    "SIGWINCH alarm pause pthread_kill pthread_sigmask setitimer sigpending siginterrupt sigwait",
    socket: "AF_UNIX",
}
"""What is missing there, by module."""


class _Others(importlib.abc.MetaPathFinder):
    """A finder that does not find the modules which are missing."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return (
            None if fullname.partition(".")[0] in _MODULES else self._finder.find_spec(fullname, path, target)
        )


class _Locks(ModuleType):
    """Locks of Windows that nobody else has."""

    LK_NBLCK = 2

    def locking(self, _handle: int, _mode: int, _length: int) -> None:
        return


for _name in _MODULES & sys.modules.keys():
    del sys.modules[_name]
sys.meta_path[:] = [_Others(finder) for finder in sys.meta_path]
sys.modules["msvcrt"] = _Locks("msvcrt")
for _module, _names in _NAMES.items():
    _as_there = ModuleType(_module.__name__, _module.__doc__)
    _missing = _names.split()
    _as_there.__dict__.update({name: value for name, value in vars(_module).items() if name not in _missing})
    sys.modules[_module.__name__] = _as_there
sys.platform = "win32"
sys.argv = sys.argv[1:]
sys.path[0] = str(Path.cwd())
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

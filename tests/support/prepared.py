"""Workers, servers and programs whose imports are done: forks of one process (zygote.py) instead of fresh interpreters.

For tests that are not about the start of a process. Where the variables differ from those of the zygote, and where a
system has no fork, the process is started as users start it.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from tests.support import zygote

ROOT = Path(__file__).parents[2]
_PATIENCE = 60.0
"""Seconds that a zygote may take to end."""
_STUB = """\
#!{python} -IS
import json, os, signal, socket, sys
given = sys.argv[1:]
if {condition}:
    names = [name for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)]
    numbers = [number for number in map(int, names) if os.get_inheritable(number)]
    request = {{"folder": os.getcwd(), "variables": dict(os.environ), "numbers": numbers}}
    request.update(arguments=given, executable=os.path.abspath(sys.argv[0]))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect({path!r})
    socket.send_fds(connection, [json.dumps(request).encode()], numbers)
    answer = connection.recv(64)
    if answer != {unlike!r}:
        null = os.open(os.devnull, os.O_RDWR)
        for number in numbers:
            os.dup2(null, number)
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda number, _: os.kill(int(answer), number))
        status = int(connection.recv(64) or 1)
        if status < 0:
            if -status != signal.SIGKILL:
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        os._exit(status)
os.execv({otherwise!r}, [{otherwise!r}, *given])
"""
"""Stands for its fork: it ends as the fork does, and the fork ends with it."""
_IS_HOST = "given[:2] == ['-X', 'utf8'] and len(given) == 3 and given[2].endswith('/worker/launch.py')"
_IS_PROGRAM = (
    'given[:1] in (["-m"], ["-c"], ["-u"]) or given[:2] == ["-X", "utf8"] or given and given[0][0] != "-"'
)


_AS_LAUNCH = "__file__ = {file!r}; exec(compile(open(__file__).read(), {launch!r}, 'exec'))"
"""Below the frames of a run in a fork are those of zygote.py: they count as ours, as those of launch.py do."""


def _command(kind: str, *arguments: str) -> list[str]:
    """The command that starts a zygote."""
    text = _AS_LAUNCH.format(file=zygote.__file__, launch=zygote.LAUNCH)
    return [sys.executable, "-X", "utf8", "-c", text, kind, *arguments]


class Zygote:
    """The process that forks, and the socket at which it is asked to; both end with this process."""

    def __init__(self, kind: str, variables: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fuselight-zygote-")
        self.path = str(Path(self._folder.name) / "socket")
        shared = os.environ.get(zygote.SHARED)
        forked = (
            _fork(_shared_zygote(kind, shared, variables), variables, zygote=self.path) if shared else None
        )
        self._process = forked or subprocess.Popen(
            _command(kind, self.path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(variables),
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        self.pid = self._process.pid
        atexit.register(self._close)

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # it ends with its standard input
        self._process.wait(_PATIENCE)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._folder.cleanup()

    def interpreter(self, condition: str, otherwise: str = sys.executable) -> str:
        """A program that forks where the condition on its arguments holds; elsewhere it is the interpreter `otherwise`.

        One zygote may give two such programs, by what they are otherwise.
        """
        name = "bin" if otherwise == sys.executable else "other-bin"
        stub = Path(self.path).parent / name / "python"  # as an environment has it
        stub.parent.mkdir(exist_ok=True)
        text = _STUB.format(
            python=sys.executable,
            condition=condition,
            path=self.path,
            unlike=zygote.UNLIKE,
            otherwise=otherwise,
        )
        if (
            not stub.exists() or stub.read_text(encoding="utf-8") != text
        ):  # a program cannot start while it is written
            stub.write_text(text, encoding="utf-8")
            stub.chmod(0o755)
        return str(stub)

    def fork(self, variables: Mapping[str, str]) -> ForkedProcess | None:
        """Fork a process with pipes; None if it has to be started with these variables."""
        return _fork(self.path, variables)


def _fork(path: str, variables: Mapping[str, str], **request: str) -> ForkedProcess | None:
    """The same by the zygote whose socket is `path`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    (stdin, ours), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
    asked = {"folder": str(Path.cwd()), "variables": dict(variables), **request}
    socket.send_fds(connection, [json.dumps(asked).encode()], [stdin, stdout, stderr])
    for descriptor in (stdin, stdout, stderr):
        os.close(descriptor)
    pipes = (open(ours, "wb"), open(out, "rb"), open(err, "rb"))  # noqa: PTH123, SIM115 - open as long as it
    answer = connection.recv(64)
    if answer != zygote.UNLIKE:
        return ForkedProcess(int(answer), connection, *pipes)
    connection.close()
    for pipe in pipes:
        pipe.close()
    return None


def _shared_zygote(kind: str, folder: str, variables: Mapping[str, str]) -> str:
    """The socket of the zygote that the processes of pytest fork theirs from; the first that needs it starts it.

    It ends with the parent of these processes, and not with the first of them.
    """
    import fcntl  # noqa: PLC0415 - there are zygotes on Linux alone

    path = Path(folder) / kind
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            started = subprocess.Popen(
                _command(kind, str(path), str(os.getppid())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                env=dict(variables),
                start_new_session=True,  # it may outlive this process
            )
            assert started.stdout is not None
            with started.stdout as output:
                assert output.readline() == b"ready\n"
            started.returncode = 0  # nobody waits for it here
    return str(path)


_ZYGOTES: list[Zygote] = []


class ForkedProcess:
    """A fork as subprocess.Popen shows a process."""

    def __init__(
        self, pid: int, connection: socket.socket, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]
    ) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        self._connection = connection

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._status(0.0)

    def wait(self, timeout: float) -> int:
        """Wait for its end; returns its exit status."""
        status = self._status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(["fork"], timeout)
        return status

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _status(self, seconds: float) -> int | None:
        if self.returncode is None:
            self._connection.settimeout(seconds)
            try:
                self.returncode = int(self._connection.recv(64))
            except (TimeoutError, BlockingIOError):
                return None
            self._connection.close()
        return self.returncode


def variables(base: Mapping[str, str] = os.environ, *, write_bytecode: bool = False) -> dict[str, str]:
    """The variables of a server, which it passes to its workers."""
    path = os.pathsep.join((str(ROOT / "compiler"), str(ROOT / "server")))
    environment = {**base, "PYTHONPATH": path}
    if not write_bytecode:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


_AT_START = dict(os.environ)
"""Not those that a test has changed when it is the first to need a fork."""


@functools.cache
def _zygote(kind: str) -> Zygote | None:
    """The zygote of this process; None where there can be none."""
    lacks_torch = kind != "server" and importlib.util.find_spec("torch") is None
    if lacks_torch or not sys.platform.startswith("linux"):
        return None
    started = Zygote(kind, variables(_AT_START))
    _ZYGOTES.append(started)
    return started


def forks() -> list[psutil.Process]:
    """Every fork that is alive, and what the forks have started."""
    return [
        process for started in _ZYGOTES for process in psutil.Process(started.pid).children(recursive=True)
    ]


def prepared_interpreter(*, for_programs: bool = False) -> str:
    """`bin/python` of a folder, for workers that are started with `variables()`, also of an installed extension.

    With `for_programs`, the programs that such a worker starts are those of `program_interpreter`.
    """
    host = _zygote("host")
    if host is None:
        return sys.executable
    return host.interpreter(_IS_HOST, program_interpreter() if for_programs else sys.executable)


def program_interpreter() -> str:
    """An interpreter whose programs have torch and TorchDynamo imported when they begin.

    For tests about what a program does, whatever it imports. The programs of one such interpreter share a hash seed.
    """
    program = _zygote("program")
    return sys.executable if program is None else program.interpreter(_IS_PROGRAM)


def start_server(
    command: Sequence[str], environment: Mapping[str, str], *, fresh: bool
) -> ForkedProcess | subprocess.Popen[bytes]:
    """Start a language server with pipes: a fork where that is possible and it need not be `fresh`, else `command`."""
    server = None if fresh else _zygote("server")
    return (server and server.fork(environment)) or subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
    )

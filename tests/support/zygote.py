"""A process that has imported what many processes of the tests import first, and forks each of them.

A worker takes 3 seconds of CPU to import torch, and a server more than 1 second. Invariant: a fork has the variables,
the folder and the descriptors of its request, and the modules of a fresh process after its imports. Where the variables
differ from those of the zygote, which may decide what is imported, nothing is forked, and the client starts a process.

zygote.py host|server SOCKET: forks for each connection, until its standard input is closed
"""

import sys

STARTED_WITH = frozenset(sys.modules)

import contextlib  # noqa: E402 - what Python loads at its start is read first
import gc  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import selectors  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
from collections.abc import Callable, Mapping  # noqa: E402
from typing import Any  # noqa: E402

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))  # noqa: PTH118, PTH120 - as in launch.py
LAUNCH = os.path.join(TOP, "compiler", "fuselight", "worker", "launch.py")  # noqa: PTH118
UNLIKE = b"unlike"
"""The answer to a request whose variables differ."""
_LARGEST = 1 << 20
_READ_LATER = frozenset({"PYTEST_CURRENT_TEST", "XDG_STATE_HOME"})
"""Variables that decide nothing of what is imported, and differ from test to test."""


def host() -> Callable[[], int]:
    """Import what a worker's host does, as `launch.py` does; returns what serves as a host, in a fork."""
    spec = importlib.util.spec_from_file_location("launch", LAUNCH)
    assert spec is not None
    assert spec.loader is not None
    launch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launch)
    launch.enter_as_guest()
    from fuselight.worker.host import host, warm  # noqa: PLC0415 - of this kind alone
    from fuselight.worker.processes.process import end_with_owner  # noqa: PLC0415 - the same

    sys.argv[:] = [LAUNCH]
    warm.warm_up(forks=True)

    def serve() -> int:
        end_with_owner()
        return host.main(STARTED_WITH)

    return serve


def server() -> Callable[[], int]:
    """Import what a language server does; returns what serves as a server, in a fork."""
    from fuselight_server.editor import app  # noqa: PLC0415 - of this kind alone

    sys.argv[:] = [app.__file__]

    def serve() -> int:
        app.main()
        return 0

    return serve


class Zygote:
    """The loop: a connection makes one request and lives as long as its fork."""

    def __init__(self, kind: Callable[[], Callable[[], int]], path: str) -> None:
        self._variables = _comparable(os.environ)  # a host changes some
        self._serve = kind()
        self._connections: dict[int, socket.socket] = {}
        """By the process ID of the fork."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen()
        self._selector = selectors.DefaultSelector()
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Fork as requested until standard input is closed."""
        self._selector.register(0, selectors.EVENT_READ, None)
        self._selector.register(self._woken, selectors.EVENT_READ, self._reap)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        os.write(1, b"ready\n")
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                key.data()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        data, descriptors, _, _ = socket.recv_fds(connection, _LARGEST, 3)
        request = json.loads(data)
        pid = 0
        if _comparable(request["variables"]) == self._variables:
            pid = os.fork()
            if pid == 0:
                self._become(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(b"%d" % pid if pid else UNLIKE)
        if not pid:
            connection.close()
            return
        self._connections[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._kill(pid))

    def _become(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Be the process that was requested, and end as it does."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            os.setsid()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["variables"])
            status = self._serve()
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        except BaseException:  # noqa: BLE001 - shown as Python does, which then ends with status 1
            sys.excepthook(*sys.exc_info())
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            os._exit(status)

    def _kill(self, pid: int) -> None:
        """End the fork of a client that is gone."""
        self._selector.unregister(self._connections[pid])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        os.read(self._woken, _LARGEST)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                connection = self._connections.pop(ended[0])
                with contextlib.suppress(KeyError):
                    self._selector.unregister(connection)
                with contextlib.suppress(OSError):
                    connection.sendall(b"%d" % os.waitstatus_to_exitcode(ended[1]))
                connection.close()


def _comparable(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in _READ_LATER}


if __name__ == "__main__":
    kind, path = sys.argv[1:]
    del sys.path[0]  # the folder of this file
    gc.disable()
    zygote = Zygote({"host": host, "server": server}[kind], path)
    gc.freeze()
    gc.enable()
    zygote.run()

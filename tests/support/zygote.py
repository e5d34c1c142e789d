"""A process that has imported what many processes of the tests import first, and forks each of them.

A worker takes 3 seconds of CPU to import torch, and a server more than 1 second. Invariant: a fork has the variables,
the folder and the descriptors of its request, and the modules of a fresh process after its imports, a worker those
that it imports ahead of runs as well. Where the variables differ from those of the zygote in a way that may decide what
is imported, nothing is forked, and the client starts a process.

zygote.py host|server|program SOCKET [OWNER]: forks for each connection, until its standard input is closed, or until
the process OWNER has ended. A request that names a socket gets another zygote: a fork that forks for connections there.
"""

import sys

STARTED_WITH = frozenset(sys.modules)

import atexit  # noqa: E402 - what Python loads at its start is read first
import contextlib  # noqa: E402
import gc  # noqa: E402
import importlib  # noqa: E402
import importlib.abc  # noqa: E402
import importlib.machinery  # noqa: E402
import importlib.util  # noqa: E402
import itertools  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import runpy  # noqa: E402
import selectors  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import threading  # noqa: E402
import types  # noqa: E402
from collections.abc import Callable, Mapping, Sequence  # noqa: E402
from typing import Any  # noqa: E402

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))  # noqa: PTH118, PTH120 - as in launch.py
LAUNCH = os.path.join(TOP, "compiler", "fuselight", "worker", "launch.py")  # noqa: PTH118
UNLIKE = b"unlike"
"""The answer to a request whose variables differ."""
_LARGEST = 1 << 20
_DESCRIPTORS = 64
_READ_LATER = frozenset({"PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "XDG_STATE_HOME"})
"""Variables that decide nothing of what is imported, and differ from test to test or from process to process."""
_OBEYED = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED"})
"""Variables that Python reads at its start, and that a fork obeys."""
_READ_AT_IMPORT = ("CUDA", "KMP_", "LD_", "MKL_", "OMP_", "PYTHON", "PYTORCH_", "TORCH", "TRITON_")
"""What variables begin with that may decide how torch is imported."""
_STARTS_HOST = frozenset({"FUSELIGHT_NO_FORK", "FUSELIGHT_RUN"})
"""Our own variables that decide how a worker starts."""
_IMPORTED_BY_RUNS = (
    "torch._inductor.compile_fx",
    "fuselight.capture.inductor",
    "fuselight.worker.memory.estimate_run",
    "fuselight.worker.repro.graph_run",
    "fuselight.worker.results.accuracy_run",
    "fuselight.worker.timed.benchmark",
    "fuselight.worker.verify.verification",
)
"""What a host imports ahead once a run has imported it: 2 seconds of CPU in the run, in the trial, and in the host."""
_CACHES = frozenset({"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"})
"""Of these, those that are read at each compile."""


SHARED = "ZYGOTES_OF_TESTS"
"""The variable with the folder of the zygotes that the processes of one run of pytest-xdist share, by their kinds."""
Serve = Callable[[Sequence[str]], int]
"""What a fork does, given its arguments, once it has everything else of its request; returns its exit status."""
Select = Callable[[Mapping[str, str]], dict[str, str]]
"""The variables that a fork and its zygote have to have in common."""


def host() -> Serve:
    """Import what a worker's host does, as `launch.py` does; returns what serves as a host, in a fork.

    A fork for `launch.py` of another copy of the product, as of an installed extension, imports that copy's modules.
    """
    _launcher(LAUNCH).enter_as_guest()
    from fuselight.worker.host import host, warm  # noqa: PLC0415 - of this kind alone
    from fuselight.worker.processes.process import end_with_owner  # noqa: PLC0415 - the same

    sys.argv[:] = [LAUNCH]
    warm.warm_up(forks=True)
    for name in _IMPORTED_BY_RUNS:
        importlib.import_module(name)
    importlib.import_module("fuselight.adapters.virtual_gpu.first_graph").warm_up()
    gc.freeze()

    def serve(arguments: Sequence[str]) -> int:
        place = arguments[-1]
        _import_sitecustomize()
        if os.path.realpath(place) == LAUNCH:
            end_with_owner()
            return host.main(STARTED_WITH)
        for name in [name for name in sys.modules if name.partition(".")[0] == "fuselight"]:
            del sys.modules[name]
        sys.argv[:] = [place]
        launch = _launcher(place)
        launch.STARTED_WITH = STARTED_WITH
        return int(launch.main())

    return serve


def _launcher(place: str) -> Any:
    """The module that `launch.py` at this place is."""
    spec = importlib.util.spec_from_file_location("launch", place)
    assert spec is not None
    assert spec.loader is not None
    launch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launch)
    return launch


def server() -> Serve:
    """Import what a language server does; returns what serves as a server, in a fork."""
    from fuselight_server.editor import app  # noqa: PLC0415 - of this kind alone

    sys.argv[:] = [app.__file__]

    def serve(_: Sequence[str]) -> int:
        app.main()
        return 0

    return serve


def program() -> Serve:
    """Import torch with its compilers; returns what runs a program as `python ARGUMENTS` does, in a fork."""
    import torch._dynamo  # noqa: PLC0415 - of this kind alone
    import torch._inductor.compile_fx  # noqa: PLC0415 - the same

    torch._dynamo.list_backends()  # imports what a first compile does

    def serve(arguments: Sequence[str]) -> int:
        sys.meta_path.insert(0, _Executed("torch", "torch._dynamo"))
        try:
            _import_sitecustomize()
            run_program(list(arguments))
        finally:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        return 0

    return serve


class _Executed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules that this process has executed already: for what waits for an import, they are new."""

    def __init__(self, *names: str) -> None:
        self._modules = {name: sys.modules.pop(name) for name in names}
        for name in names:
            parent, _, child = name.rpartition(".")
            if parent:
                delattr(self._modules[parent], child)  # torch imports what it lacks when it is asked for it
        self._specs = {name: module.__spec__ for name, module in self._modules.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """As importlib asks for it."""
        del path, target
        known = self._specs.get(fullname)
        if known is None:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=known.origin, is_package=True)
        spec.submodule_search_locations = known.submodule_search_locations
        spec.has_location = known.has_location
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module as it was."""
        return self._modules[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is left to execute."""
        module.__spec__ = self._specs[module.__name__]


def _import_sitecustomize() -> None:
    """As Python does at its start, if a folder that a variable adds to the path has one."""
    if any(os.path.exists(os.path.join(folder, "sitecustomize.py")) for folder in _folders(os.environ)):  # noqa: PTH110, PTH118 - as in launch.py
        sys.modules.pop("sitecustomize", None)
        importlib.import_module("sitecustomize")


def obey_variables(before: Mapping[str, str]) -> None:
    """Do what Python does at its start for its variables, which were `before` in the zygote."""
    was = _folders(before)
    sys.path[: len(was)] = _folders(os.environ)
    sys.path += [folder for folder in was if folder not in sys.path]  # as an editable installation has them
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]


def _folders(variables: Mapping[str, str]) -> list[str]:
    named = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    return [os.path.abspath(folder) for folder in named]  # noqa: PTH100 - as Python does, links kept


OPTIONS = {"-X": 2, "-u": 1}
"""Options of Python that a program may get, with the number of words of each; of `-X`, a zygote is `utf8`."""


def run_program(arguments: list[str]) -> None:
    """Run `-m MODULE`, `-c TEXT` or a file, with the arguments after it, as the main module."""
    sys.orig_argv[:] = [sys.executable, *arguments]
    while arguments[0] in OPTIONS:
        if arguments[0] == "-u":
            sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
        del arguments[: OPTIONS[arguments[0]]]
    kind = arguments[0]
    if kind == "-m":
        sys.argv[:] = arguments[1:]
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as Python does
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]
        return
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if kind == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        code = compile(arguments[1], "<string>", "exec")
    else:
        sys.argv[:] = arguments
        sys.path.insert(0, os.path.dirname(os.path.realpath(kind)))  # noqa: PTH120 - as Python does
        main.__file__ = kind
        with open(kind, "rb") as file:  # noqa: PTH123 - Path is imported by what the program imports
            code = compile(file.read(), kind, "exec")
    exec(code, main.__dict__)  # noqa: S102 - the purpose


class Zygote:
    """The loop: a connection makes one request and lives as long as its fork."""

    def __init__(self, serve: Serve, comparable: Select, variables: Mapping[str, str], path: str) -> None:
        self._serve, self._comparable = serve, comparable
        self._variables = comparable(variables)
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

    def run(self, end: int = 0) -> None:
        """Fork as requested until the descriptor `end` can be read: standard input, which is then closed."""
        self._selector.register(end, selectors.EVENT_READ, None)
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
        try:
            data, descriptors, _, _ = socket.recv_fds(connection, _LARGEST, _DESCRIPTORS)
        except OSError:
            data = b""
        if not data:  # killed between its connection and its request
            connection.close()
            return
        request = json.loads(data)
        pid = 0
        if self._comparable(request["variables"]) == self._variables:
            pid = os.fork()
            if pid == 0:
                self._become(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(
            OSError
        ):  # a client killed since its request: its fork is, too, by what follows
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
            _move(descriptors, request.get("numbers", (0, 1, 2)))
            os.chdir(request["folder"])
            before = dict(os.environ)
            os.environ.clear()
            os.environ.update(request["variables"])
            obey_variables(before)
            sys.executable = request.get("executable", sys.executable)
            if "zygote" in request:
                Zygote(self._serve, self._comparable, request["variables"], request["zygote"]).run()
                status = 0
            else:
                status = self._serve(request.get("arguments", ()))
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
            if isinstance(leaving.code, str):
                sys.stderr.write(f"{leaving.code}\n")
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


def _move(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Give descriptors the numbers that they have in the client, 0 among them, and close all others."""
    above = max(*descriptors, *numbers) + 1
    kept = [os.dup2(descriptor, above + index) for index, descriptor in enumerate(descriptors)]
    for descriptor, number in zip(kept, numbers, strict=True):
        os.dup2(descriptor, number)
    limits = sorted({*numbers, os.sysconf("SC_OPEN_MAX")})
    for before, number in itertools.pairwise(limits):
        if before + 1 < number:  # else Python closes everything above
            os.closerange(before + 1, number)


def _comparable(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in _READ_LATER | _OBEYED}


def _read_at_import(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(_READ_AT_IMPORT) and name not in _OBEYED | _CACHES
    }


def _read_by_host(variables: Mapping[str, str]) -> dict[str, str]:
    ours = {name: value for name, value in variables.items() if name in _STARTS_HOST}
    return ours | _read_at_import(variables)


_SELECTIONS = {host: _read_by_host, server: _comparable, program: _read_at_import}
"""The variables that have to be equal, by what the zygote has imported."""


if __name__ == "__main__":
    name, path, *owner = sys.argv[1:]
    del sys.path[0]  # the folder of this file
    gc.disable()
    kind = {"host": host, "server": server, "program": program}[name]
    variables = dict(os.environ)  # a host changes some
    zygote = Zygote(kind(), _SELECTIONS[kind], variables, path)
    gc.freeze()
    gc.enable()
    zygote.run(*(os.pidfd_open(int(pid)) for pid in owner))

"""Preloads installed packages in the host, so that later runs start faster.

The host imports what runs imported, and lists the functions of files as Dynamo did in them.

Invariant: the host imports only modules that a throw-away child imported first without breaking a fork rule. A package
that breaks a rule is never preloaded. The host imports in idle time, and before a run of a type whose runs imported the
same: that run would do so itself, and so would each after it, where one follows the other without a pause.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Iterable
from dataclasses import dataclass

from fuselight import PACKAGE
from fuselight.shared.foreign_files import read_regular
from fuselight.shared.protocol import RunRequest
from fuselight.worker.processes import fork_rules, process
from fuselight.worker.processes.children import HostFolder, read_file

_LIMIT = 120.0
"""Seconds that a throw-away child may take."""
_IDLE = 30.0
"""Seconds that the host's loop may sleep when there is nothing to do."""
_SOON = 0.05
_STEP = 0.1
"""Seconds of importing after which the host checks for messages."""
_WARMED = {
    "torch._inductor.compile_fx": "fuselight.adapters.virtual_gpu.first_graph",
    "triton.compiler.code_generator": "fuselight.adapters.triton_api.names",
}
"""Modules, each with the one of ours whose `warm_up` does once what each run that imports it would do again."""
_MAX = 20_000
"""Maximum names, and files, that the host accepts: far more than torch and its dependencies have. The runs import the
rest."""


@dataclass(frozen=True)
class _Trial:
    pid: int
    names: tuple[str, ...]
    directory: str
    started: float


class Preload:
    """Names that are wanted, being tried in a child, or ready to be imported."""

    def __init__(self, folder: HostFolder) -> None:
        self._folder = folder
        self._wanted: list[str] = []
        self._good: list[str] = []
        self._imported, self._importing = 0, 0.0
        """Of these, how many have been imported by now, and the seconds that it took."""
        self._files: dict[str, bool] = {}
        """Installed files whose functions are to be listed, and whether they have been."""
        self._wanted_by: set[type[RunRequest]] = set()
        """Types of the runs that imported what is not imported here yet."""
        self._bad: dict[str, str] = {}
        self._news: list[str] = []
        self._tested: set[str] = set()
        """Every name that a trial has reached: it is not tried again, whatever the result."""
        self._trial: _Trial | None = None
        folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        self._places = tuple(os.path.realpath(folder) + os.sep for folder in (*folders, PACKAGE))

    def want(self, path: str, kind: type[RunRequest]) -> None:
        """Add what a run of type `kind` wrote at `path`: modules that it imported, files that Dynamo listed."""
        try:
            ahead = json.loads(read_regular(path))
            names, files = list(ahead["modules"]), list(ahead["files"])  # user code was in that process
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return
        for file_name in files:
            if len(self._files) >= _MAX:
                break
            if isinstance(file_name, str) and os.path.realpath(file_name).startswith(self._places):
                self._files.setdefault(file_name, False)
        known = {*self._wanted, *self._tested, *(self._trial.names if self._trial else ())}
        new = [
            name
            for name in names
            if isinstance(name, str)
            and name not in sys.modules
            and name not in known
            and name.partition(".")[0] not in self._bad
        ]
        if new:
            self._wanted_by.add(kind)
        new.sort(key=_is_ours)  # last: ours import the others, which would be one long step
        self._wanted += new[: max(0, _MAX - len(known))]

    def patience(self) -> float:
        """Return how long the loop may sleep, in seconds."""
        if self._imported:  # on the way
            return 0.0
        return _SOON if self._news or self._good or self._unlisted() else (1.0 if self._trial else _IDLE)

    def pids(self) -> tuple[int, ...]:
        """Name the process of the trial, if one is on."""
        return (self._trial.pid,) if self._trial else ()

    def try_wanted(self, close: Iterable[int]) -> list[str]:
        """Try what is wanted in a child, which closes the descriptors `close`. Returns lines for the log."""
        if self._trial is not None and time.monotonic() - self._trial.started > _LIMIT:
            process.kill_group(self._trial.pid)
        if self._trial is not None or not self._wanted:
            return []
        names, self._wanted = self._wanted, []
        self._trial = self._try(names, close)
        return [f"trying {len(names)} modules in a child before importing them here"]

    def before(self, kind: type[RunRequest], baseline: int) -> list[str]:
        """Import what a run of type `kind` would import again. Returns lines for the log."""
        lines: list[str] = []
        while self._good and kind in self._wanted_by:
            lines += self._import_good(baseline)
        return lines

    def go_on(self, baseline: int) -> list[str]:
        """Do the next small step while no run is active. Returns lines for the log."""
        if self._news:
            news, self._news = self._news, []
            return news
        if self._good:
            return self._import_good(baseline)
        unlisted = self._unlisted()
        if unlisted is not None:
            self._files[unlisted] = True
            from fuselight.adapters.torch_api.dynamo import frame_text_cache  # noqa: PLC0415 - loads torch

            frame_text_cache.name_functions(unlisted)
        return []

    def _unlisted(self) -> str | None:
        return next((path for path, done in self._files.items() if not done), None)

    def reap(self) -> None:
        """Collect the result of a trial that has ended."""
        if self._trial is None:
            return
        try:
            if process.collect(self._trial.pid) is None:
                return
        except ChildProcessError:  # collected by what it imports: there is nothing left to wait for
            pass
        self._read_verdicts(self._trial)
        shutil.rmtree(self._trial.directory, ignore_errors=True)
        self._trial = None

    def _read_verdicts(self, trial: _Trial) -> None:
        """Read the verdicts; names that the trial did not reach stay wanted."""
        tried, before = set(), set(self._bad)
        file = read_file(os.path.join(trial.directory, "trial.txt")) or b""
        for line in file.decode().splitlines():
            verdict, _, rest = line.partition(" ")
            package, _, what = rest.partition(" ")
            tried.add(package)
            if verdict == "try":
                self._bad[package] = "importing it ends the process or does not return"
            elif verdict == "bad":
                self._bad[package] = what
            else:
                self._bad.pop(package, None)
                self._good += what.split()
        for name in trial.names:
            (self._tested.add if name.partition(".")[0] in tried else self._wanted.append)(name)
        for package in self._bad.keys() - before:
            self._news.append(f"{package} stays out of the host: {self._bad[package]}")
        if not tried:
            self._wanted.clear()  # the trial itself did not work: the runs import for themselves

    def _try(self, names: list[str], close: Iterable[int]) -> _Trial:
        directory = self._folder.new_folder("trial-")
        host = os.getpid()
        pid = fork_rules.fork()
        if pid == 0:
            try:
                os.setpgid(0, 0)
                process.die_with_parent(host)
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGTERM):
                    signal.signal(number, signal.SIG_DFL)
                for descriptor in close:
                    os.close(descriptor)
                _trial(names, os.path.join(directory, "trial.txt"), self._places)
            finally:
                os._exit(0)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return _Trial(pid, tuple(names), directory, time.monotonic())

    def _import_good(self, baseline: int) -> list[str]:
        """Import for a short time, during which requests wait. Returns log lines when everything is imported."""
        start = time.monotonic()
        while self._good and time.monotonic() - start < _STEP:
            self._imported += _imported(self._good.pop(0), self._places)
        self._importing += time.monotonic() - start
        if self._good:
            return []
        if self._trial is None and not self._wanted:
            self._wanted_by.clear()
        gc.freeze()  # as after the warm-up
        lines = [f"imported {self._imported} modules ahead of the next run, in {self._importing:.1f} s"]
        self._imported, self._importing = 0, 0.0
        lines += [f"fork rule broken after that import: {rule}" for rule in fork_rules.violations(baseline)]
        return lines


def _trial(names: list[str], path: str, places: tuple[str, ...]) -> None:
    """Import package by package, writing `try` and then a verdict for each; what breaks a rule ends the trial."""
    baseline = fork_rules.baseline()  # of this process: threads that the host has are not here
    packages: dict[str, list[str]] = {}
    for name in names:
        packages.setdefault(name.partition(".")[0], []).append(name)
    with open(path, "w", encoding="utf-8", buffering=1) as file:
        for package, modules in packages.items():
            file.write(f"try {package}\n")
            good = [name for name in modules if _imported(name, places)]
            broken = fork_rules.violations(baseline)
            if broken:
                file.write(f"bad {package} {', '.join(broken)}\n")
                return
            file.write(f"good {package} {' '.join(good)}\n")


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "fuselight"


def _imported(name: str, places: tuple[str, ...]) -> bool:
    """Import one module, if it is an installed one. Returns whether that went well."""
    try:
        spec = importlib.util.find_spec(name)
        origin = spec.origin if spec is not None else None
        if origin is None or not os.path.realpath(origin).startswith(places):
            return False
        importlib.import_module(name)
        if name in _WARMED:
            importlib.import_module(_WARMED[name]).warm_up()
    except BaseException:  # noqa: BLE001 - any import may raise anything; a run that needs it will say so
        return False
    return True

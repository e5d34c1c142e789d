"""Whether a run would give the report again that is kept: all that it read and was given is as it was.

Invariant: in doubt a run is not repeated from what is kept. What is kept comes from the workspace: it is compared,
never run, and what it names is only read in bounded, regular files.
"""

from __future__ import annotations

import json
import os
import platform
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuselight.shared.codec import encode, read_words
from fuselight.shared.foreign_files import STORE, read_regular
from fuselight.shared.protocol import RunRequest
from fuselight.shared.report import Reads, Report, data_key
from fuselight_server.base.settings import Interpreter

_NAMES = read_words(__file__)
_IGNORED_VARIABLES = _NAMES["ignored_variables"]
"""Variables that differ between terminals and tell programs nothing about their work. All others count."""
_REPEATABLE = frozenset({"inputs", "fullgraph"})
"""Failures that depend on the text alone. A run that failed in another way is made again."""
_MAX = 4096
"""Files and folders of one run that are compared."""
_MAX_BYTES = 64 * 1024 * 1024
"""Bytes of files that are compared by content; further ones are compared by size and time."""
_LARGEST = 16 * 1024 * 1024
_MODULE_ENDS = (".py", ".so", ".pyd", ".pyc", ".zip")
_WRITTEN = frozenset({STORE, "__pycache__"})
"""Folders that a run makes."""
_MISSING = "missing"


@dataclass(frozen=True)
class RunRecord:
    """What a run was given and what it read."""

    identity: str
    files: dict[str, str] = field(default_factory=dict)
    """Path to the key of its content, or to its size and time."""
    folders: dict[str, str] = field(default_factory=dict)
    """Path to the key of the names in it."""
    import_folders: dict[str, str] = field(default_factory=dict)
    """Path to the key of the modules in it."""
    asked: dict[str, str] = field(default_factory=dict)
    """Path whose existence or state was asked for to what was asked of it."""
    variables: dict[str, str] = field(default_factory=dict)
    """Name of each variable of the terminal that the program names to the key of its value."""
    packages: dict[str, str] = field(default_factory=dict)
    """Path of each folder of installed packages to its time of change."""

    def is_current(self) -> bool:
        """Whether everything is as it was read."""
        read = (self.files, self.folders, self.import_folders, self.packages, self.asked)
        if sum(map(len, read)) > _MAX:
            return False
        budget = _Budget()
        return (
            all(_stamp(path) == key for path, key in self.packages.items())
            and all(_variable_key(name) == key for name, key in self.variables.items())
            and all(_asked_again(path, key) == key for path, key in self.asked.items())
            and all(_names_key(path, modules=True) == key for path, key in self.import_folders.items())
            and all(_names_key(path, modules=False) == key for path, key in self.folders.items())
            and all(budget.key_of(path) == key for path, key in self.files.items())
        )


def record_of(identity: str, report: Report, packages: Iterable[str]) -> RunRecord | None:
    """What a run read, None if its report may not be the answer to another run."""
    reads = report.reads
    if reads is None or reads.others or not report.files:
        return None
    if any(failure.kind not in _REPEATABLE for failure in report.failures) or _changed_meanwhile(reads):
        return None
    budget = _Budget()
    record = RunRecord(
        identity,
        files={path: budget.key_of(path) for path in reads.files},
        folders={path: _names_key(path, modules=False) for path in reads.folders},
        import_folders={path: _names_key(path, modules=True) for path in reads.import_folders},
        asked={path: _asked_text(*state) for path, state in reads.asked.items()},
        variables={name: _variable_key(name) for name in _named_variables(report.files)},
        packages={path: _stamp(path) for path in packages},
    )
    read = (reads.files, reads.folders, reads.import_folders, reads.asked)
    return record if sum(len(paths) for paths in read) < _MAX else None


def identity_of(
    request: RunRequest, interpreter: Interpreter, variables: Mapping[str, str], folder: str
) -> str:
    """The key of what a run is given: its request, interpreter, variables, working folder and machine.

    No value of a variable is kept, only the key of them all.
    """
    asked = encode(request)
    for name in ("id", "generation", "preload", "records_reads"):  # of the process that asks
        asked.pop(name, None)
    given = {
        "request": asked,
        "interpreter": [
            interpreter.executable,
            *interpreter.args,
            *_interpreter_files(interpreter.executable),
        ],
        "variables": sorted(
            (name, value) for name, value in variables.items() if name not in _IGNORED_VARIABLES
        ),
        "folder": folder,
        "machine": [platform.node(), platform.machine(), platform.release(), os.cpu_count(), *_gpus()],
    }
    return data_key(json.dumps(given, sort_keys=True).encode("utf-8", "surrogatepass"))


class _Budget:
    """Compares files by content until `_MAX_BYTES` are read."""

    def __init__(self) -> None:
        self._left = _MAX_BYTES

    def key_of(self, path: str) -> str:
        try:
            status = Path(path).stat()
            if not stat.S_ISREG(status.st_mode):
                return "not a file"
            if status.st_size > min(self._left, _LARGEST):
                return f"{status.st_size} {status.st_mtime_ns}"
            self._left -= status.st_size
            return data_key(read_regular(path, _LARGEST))
        except FileNotFoundError:
            return _MISSING
        except (OSError, ValueError) as error:
            return f"unreadable: {type(error).__name__}"


def _changed_meanwhile(reads: Reads) -> bool:
    """Whether a file or folder was changed after the run had read it, by the run itself or by another program."""
    for path, state in reads.files.items():
        try:
            status = Path(path).stat()
        except OSError:
            now = (-1, 0)
        else:
            now = (status.st_size, status.st_mtime_ns)
        if now != tuple(state):
            return True
    asked = {path: _asked_text(*state) for path, state in reads.asked.items()}
    if any(_asked_again(path, text) != text for path, text in asked.items()):
        return True
    return any(_stamp(path).partition(" ")[2] != str(time) for path, time in reads.folders.items())


def _asked_text(kind: int, size: int, time: int) -> str:
    """What was asked of a path as one text: its type, with its size and time if these were asked for."""
    if not kind:
        return _MISSING
    return str(kind) if size < 0 else f"{kind} {size} {time}"


def _asked_again(path: str, before: str) -> str:
    """The same of the path as it is now."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return _MISSING
    kind = stat.S_IFMT(status.st_mode)
    return _asked_text(kind, status.st_size, status.st_mtime_ns) if " " in before else str(kind)


def _named_variables(files: Iterable[str]) -> list[str]:
    """The variables of `_IGNORED_VARIABLES` that the text of a file names: what the program reads of those counts."""
    named: set[str] = set()
    for path in files:
        try:
            text = read_regular(path, _LARGEST).decode("utf-8", "replace")
        except (OSError, ValueError):
            continue
        named |= {name for name in _IGNORED_VARIABLES if f'"{name}"' in text or f"'{name}'" in text}
    return sorted(named)


def _variable_key(name: str) -> str:
    value = os.environ.get(name)
    return _MISSING if value is None else data_key(value.encode("utf-8", "surrogateescape"))


def _stamp(path: str) -> str:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return _MISSING
    return f"{status.st_size} {status.st_mtime_ns}"


def _names_key(path: str, *, modules: bool) -> str:
    """The key of the names in a folder; of modules and folders alone, where imports looked for modules."""
    try:
        with os.scandir(path) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name not in _WRITTEN and (not modules or _may_be_module(entry))
            )
    except (OSError, ValueError):
        return _MISSING
    return data_key("\0".join(names).encode("utf-8", "surrogatepass"))


def _may_be_module(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    if name.startswith("."):
        return False
    return name.endswith(_MODULE_ENDS) or entry.is_dir()


def _interpreter_files(executable: str) -> list[str]:
    """The program itself, and the environment that it belongs to."""
    path = Path(executable)
    settings = [folder / "pyvenv.cfg" for folder in (path.parent, path.parent.parent)]
    return [os.path.realpath(path), _stamp(str(path)), *(_stamp(str(setting)) for setting in settings)]


def _gpus() -> list[str]:
    """What changes with the GPUs and their driver."""
    devices = sorted(str(path) for path in Path("/dev").glob("nvidia[0-9]*"))
    try:
        driver = read_regular("/proc/driver/nvidia/version", 4096).decode("utf-8", "replace")
    except OSError:
        driver = ""
    return [*devices, driver]

"""What a sweep goes over: a folder, a Python file, a list of targets in TOML, JSON lines or Python, a built-in suite.

Invariant: nothing is imported or run: a list in Python is read as a literal. What is wrong raises a SuiteError that
names the file, the entry and the next step. A model that nobody ships is an entry that says so, never left out.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import os
import reprlib
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuselight.shared.foreign_data import NestingError, parse_json, parse_python
from fuselight.shared.foreign_files import read_regular
from fuselight.shared.suites import SUITES, suite_rows, write_rows
from fuselight_server.base.files import leaves

_KEYS = ("file", "target", "name", "group", "absent")
_LIST = "TARGETS"
_TOO_DEEP = " is nested too deeply to be read: write each entry as an object of strings"
_LONGEST_LIST = 16 * 1024 * 1024
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env"})


class SuiteError(ValueError):
    """A suite cannot be read; the message says why, and what to do."""


@dataclass(frozen=True)
class SuiteTarget:
    """One model of a suite."""

    path: str
    """Absolute path of its file; empty if it is absent."""
    target: str = ""
    """Qualified name of the class or function; empty: what the file compiles, and what has a directive."""
    name: str = ""
    """How rows name it, unique in the suite; empty: made of file and target."""
    group: str = ""
    """The part of the suite that it belongs to."""
    absent: str = ""
    """Why there is no such model here; empty if there is one."""
    variant: str = ""
    """Which of several forms of the model it is: `tiny`, `real train`."""
    note: str = ""
    """What a reader of its row must know."""
    packages: tuple[str, ...] = ()
    """Packages that its file needs besides torch, as pip names them, if they are known."""
    root: str = ""
    """The folder of its project; empty: the one that its file lies in."""


@dataclass(frozen=True)
class Suite:
    """The models of a sweep."""

    name: str
    targets: tuple[SuiteTarget, ...]
    folder: str
    """The folder that names of files are relative to."""


def read_suite(named: str) -> Suite:
    """Read the suite that the user named. Raises SuiteError."""
    path = Path(os.path.abspath(named))  # noqa: PTH100 - resolve() would rename what the user named
    if path.is_dir():
        suite_targets = tuple(SuiteTarget(str(file)) for file in _python_files(path))
        if not suite_targets:
            raise SuiteError(f"{named} has no Python file: name a folder with models, or a list of targets")
        return Suite(path.name, suite_targets, str(path))
    if not path.exists():
        raise SuiteError(
            f"there is no suite `{named}`: name a folder, a .py file, a list of targets (.toml, .jsonl, .py), or "
            f"{', '.join(SUITES)}"
        )
    readers = {".toml": _toml, ".jsonl": _json_lines, ".py": _python}
    reader = readers.get(path.suffix)
    if reader is None:
        raise SuiteError(f"{named} is no suite: a list of targets ends with .toml, .jsonl or .py")
    folder = path.parent
    targets = tuple(_target(entry, folder, where) for where, entry in reader(path, named))
    if not targets:
        raise SuiteError(f"{named} lists no target: add one, as {{file = 'model.py', target = 'Net'}}")
    return Suite(path.stem, _named(targets, named), str(folder))


def is_built_in(named: str) -> bool:
    """Whether it names a built-in suite, and no file or folder."""
    return named in SUITES and not Path(named).exists()


def built_in_suite(name: str, folder: Path, *, size: str, training: bool) -> Suite:
    """Write the files of a built-in suite to `folder`, and return the suite. Raises SuiteError."""
    rows = suite_rows(name, size=size, training=training)
    try:
        paths = write_rows(rows, str(folder))
    except OSError as error:
        raise SuiteError(
            f"the models of {name} cannot be written to {folder}: {error.strerror or error}. Choose a folder with --out"
        ) from None
    variant = f"{size} train" if training else size
    targets = tuple(
        SuiteTarget(
            os.path.abspath(paths[row.file]) if not row.absent else "",  # noqa: PTH100 - as in read_suite
            row.target,
            row.name,
            row.group,
            absent=row.absent,
            variant=variant,
            note=row.note,
            packages=row.packages,
            root=str(folder.absolute()),
        )
        for row in rows
    )
    return Suite(name, targets, str(folder))


def _python_files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED
            and not name.startswith(".")
            and not (Path(parent) / name / "pyvenv.cfg").exists()
        )
        paths = (Path(parent) / name for name in sorted(files) if name.endswith(".py"))
        yield from (file for file in paths if not leaves(file, folder))


def _text(path: Path, named: str) -> str:
    try:
        return read_regular(path, _LONGEST_LIST).decode("utf-8-sig")
    except OSError as error:
        raise SuiteError(f"{named} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SuiteError(f"{named} is not UTF-8: save it as UTF-8") from None


def _toml(path: Path, named: str) -> list[tuple[str, Any]]:
    try:
        parser: Any = importlib.import_module("tomllib")
    except ImportError:
        raise SuiteError(f"{named}: TOML needs Python 3.11 or newer: write the list as JSON lines") from None
    try:
        data = parser.loads(_text(path, named))
    except ValueError as error:
        raise SuiteError(f"{named} is not TOML: {error}") from None
    except RecursionError:
        raise SuiteError(f"{named}{_TOO_DEEP}") from None
    entries = data.get("targets")
    if not isinstance(entries, list):
        raise SuiteError(f"{named} has no targets: begin each with [[targets]]")
    return [(f"{named}, entry {number}", entry) for number, entry in enumerate(entries, 1)]


def _json_lines(path: Path, named: str) -> list[tuple[str, Any]]:
    lines = []
    for number, line in enumerate(_text(path, named).splitlines(), 1):
        if line.strip():
            try:
                lines.append((f"{named}:{number}", parse_json(line)))
            except NestingError:
                raise SuiteError(f"{named}:{number}{_TOO_DEEP}") from None
            except ValueError as error:
                raise SuiteError(f"{named}:{number} is not JSON: {error}") from None
    return lines


def _python(path: Path, named: str) -> list[tuple[str, Any]]:
    """Entries of the list TARGETS; of a file without one, the file itself."""
    text = _text(path, named)
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError) as error:
        line = getattr(error, "lineno", None)
        raise SuiteError(f"{named}{f':{line}' if line else ''} is not Python: {error}") from None
    for node in tree.body:
        value = _assigned(node)
        if value is None:
            continue
        try:
            entries = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise SuiteError(
                f"{named}:{node.lineno}: {_LIST} must be a literal, because a sweep reads it without running the "
                "file: write the entries out, or as JSON lines"
            ) from None
        if not isinstance(entries, (list, tuple)):
            raise SuiteError(f"{named}:{node.lineno}: {_LIST} must be a list")
        return [(f"{named}, {_LIST}[{number}]", entry) for number, entry in enumerate(entries)]
    return [(named, {"file": path.name})]


def _assigned(node: ast.stmt) -> ast.expr | None:
    """The value of an assignment to TARGETS, None for any other statement."""
    if isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return node.value if _LIST in names else None
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == _LIST:
        return node.value
    return None


def _target(entry: Any, folder: Path, where: str) -> SuiteTarget:
    if isinstance(entry, str):
        file, _, target = entry.partition(":")
        entry = {"file": file, "target": target}
    if not isinstance(entry, dict):
        raise SuiteError(f"{where} should be `file.py:Target` or an object, not {reprlib.repr(entry):.60}")
    for key, value in entry.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(_KEYS)}"
            raise SuiteError(f"{where}: `{key}` is unknown; {hint}")
        if not isinstance(value, str):
            raise SuiteError(f"{where}: `{key}` should be a string, not {reprlib.repr(value):.60}")
    absent = entry.get("absent", "")
    if not entry.get("file") and not absent:
        raise SuiteError(f"{where} has no `file`: name one, or say in `absent` why there is none")
    if absent and not entry.get("name"):
        raise SuiteError(f"{where} is absent and has no `name`: name the model that is missing")
    path = os.path.normpath(folder / entry["file"]) if entry.get("file") else ""
    return SuiteTarget(path, entry.get("target", ""), entry.get("name", ""), entry.get("group", ""), absent)


def _named(targets: tuple[SuiteTarget, ...], named: str) -> tuple[SuiteTarget, ...]:
    """The same targets. Raises SuiteError where two have one name."""
    seen: set[tuple[str, str]] = set()
    for target in targets:
        key = (target.group, target.name) if target.name else (target.path, target.target)
        if key in seen:
            what = target.name or f"{Path(target.path).name}:{target.target}"
            raise SuiteError(f"{named} lists `{what}` twice: remove one, or give each a `name` of its own")
        seen.add(key)
    return targets


def with_name(target: SuiteTarget, actual_name: str, folder: str) -> SuiteTarget:
    """The entry for target `actual_name` of its file, with the name that rows show: `models/net.py:Net`."""
    try:
        shown = Path(os.path.relpath(target.path, folder)).as_posix()
    except ValueError:  # another drive
        shown = target.path
    name = target.name if target.name and target.target else f"{target.name or shown}:{actual_name}"
    return replace(target, target=actual_name, name=name)

"""Answers that take LibCST, kept beside a project's captures: which fixes a finding has, how a target is called.

Invariant: an answer is given again only if this user's Fuselight signed it and nothing that it depends on has changed:
the question, the rules that answer it, the sources of the workspace by name, size and time, and each file that was read
for it by content. What cannot be read or written costs the computation, never the command.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import importlib.util
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fuselight_server
from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import project_root, read_regular, signature, write_whole
from fuselight.shared.report import data_key
from fuselight_server.base.files import walk_sources
from fuselight_server.base.store import Store, check_not_a_link, is_own

_FILE = "answers.json"
_MAX = 1024
"""Answers that are kept of a project, the newest."""
_MAX_BYTES = 4 * 1024 * 1024
_LONGEST = 2_000
"""Characters of an answer that is kept."""
_MAX_FILES = 5_000
"""Sources of a workspace beyond which no answer is kept, as comparing them would take longer."""
_MAX_FOLDERS = 2_000
_RULES = ("explain/findings", "fixes", "source")
"""Folders of the code that answers."""


@dataclass(frozen=True)
class KeptAnswer:
    """One answer."""

    text: str
    files: dict[str, str] = field(default_factory=dict)
    """Path of each file that was read for it to the key of its content."""

    def is_current(self) -> bool:
        """Whether each file is as it was read."""
        return all(_file_key(path) == key for path, key in self.files.items())


@dataclass(frozen=True)
class _Kept:
    """What the file of a project holds."""

    answers: dict[str, KeptAnswer] = field(default_factory=dict)
    """By the key of the question, the oldest first."""
    signed: str = ""


class KeptAnswers:
    """The answers of the projects of one command."""

    def __init__(self) -> None:
        self._projects: dict[Path, _Project] = {}

    def recall(self, path: str, *question: str) -> str | None:
        """The answer to a question about a file; None if it has to be computed."""
        return self._project(path).recall(question)

    def remember(self, path: str, text: str, files: Iterable[str], *question: str) -> None:
        """Keep an answer; `files` are those that were read for it."""
        self._project(path).remember(question, KeptAnswer(text, {file: _file_key(file) for file in files}))

    def save(self) -> None:
        """Write what is new, where captures are kept, too."""
        for project in self._projects.values():
            with contextlib.suppress(OSError):
                project.save()

    def _project(self, path: str) -> _Project:
        root = project_root(Path(path))
        return self._projects.setdefault(root, _Project(root))


class _Project:
    """The answers of one project."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._store = Store.at(root)
        self._new: dict[str, KeptAnswer] = {}

    def recall(self, question: tuple[str, ...]) -> str | None:
        known = self._known.get(self._key(question) or "")
        return known.text if known is not None and known.is_current() else None

    def remember(self, question: tuple[str, ...], answer: KeptAnswer) -> None:
        key = self._key(question)
        if key is not None and len(answer.text) <= _LONGEST:
            self._new[key] = answer

    def save(self) -> None:
        if not self._new or not (self._store.folder / "captures").is_dir():
            return
        check_not_a_link(self._store.folder)
        merged = {**_read(self._store), **self._new}  # another check may have written meanwhile
        newest = dict(list(merged.items())[-_MAX:])
        signed = signature(_signed_part(newest), create=True) or ""
        data = json.dumps(encode(_Kept(newest, signed)), separators=(",", ":")).encode(
            "utf-8", "surrogatepass"
        )
        if len(data) <= _MAX_BYTES:
            write_whole(self._store.folder / _FILE, data)

    @functools.cached_property
    def _known(self) -> dict[str, KeptAnswer]:
        return _read(self._store)

    @functools.cached_property
    def _sources(self) -> str | None:
        return _sources_key(self._root)

    def _key(self, question: tuple[str, ...]) -> str | None:
        if self._sources is None:
            return None
        return _key_of(_rules_key(), self._sources, *question)


def clear_answers(store: Store) -> None:
    """Remove the answers of a store."""
    if is_own(store.folder):
        (store.folder / _FILE).unlink(missing_ok=True)


def _read(store: Store) -> dict[str, KeptAnswer]:
    """The answers of a store; none if this user's Fuselight has not signed them."""
    try:
        check_not_a_link(store.folder)
        data = read_regular(store.folder / _FILE, _MAX_BYTES, follow_link=False)
        kept: _Kept = decode(_Kept, parse_json(data))
        expected = signature(_signed_part(kept.answers))
    except (OSError, ValueError, DecodeError, RecursionError):
        return {}
    is_ours = expected is not None and hmac.compare_digest(kept.signed.encode(), expected.encode())
    return kept.answers if is_ours else {}


def _signed_part(answers: dict[str, KeptAnswer]) -> bytes:
    return json.dumps(["answers", encode(answers)], sort_keys=True, separators=(",", ":")).encode("ascii")


def _file_key(path: str) -> str:
    try:
        return data_key(read_regular(path))
    except (OSError, ValueError) as error:
        return f"unreadable: {type(error).__name__}"


def _sources_key(root: Path) -> str | None:
    """The key of the names, sizes and times of a workspace's sources; None for too many."""
    states: list[Any] = []
    for number, (parent, names) in enumerate(walk_sources(root)):
        for name in names:
            if name.endswith((".py", ".pyi", ".ipynb")):
                with contextlib.suppress(OSError):
                    status = (parent / name).stat()
                    states.append((str(parent / name), status.st_size, status.st_mtime_ns))
        if number >= _MAX_FOLDERS or len(states) > _MAX_FILES:
            return None
    return _key_of(json.dumps(states))


def rule_folders() -> list[Path]:
    """Return the folders of the code that answers."""
    package = Path(fuselight_server.__file__).resolve().parent
    return [package / name for name in _RULES]


@functools.cache
def _rules_key() -> str:
    """The key of the code and tables that answer: ours, and the LibCST that it uses."""
    inside = (path for folder in rule_folders() for path in folder.rglob("*"))
    files = sorted(path for path in inside if path.suffix in {".py", ".json"})
    spec = importlib.util.find_spec("libcst")
    files += [Path(spec.origin)] if spec is not None and spec.origin else []
    return _key_of(*(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files))


def _key_of(*parts: str) -> str:
    return data_key(json.dumps(parts).encode("ascii"))

"""The answers to questions before code runs, kept for editors that keep none, in the user's own state folder.

Invariant: no file of a workspace can give an answer, and no other user can read or write one. A damaged file counts as
empty: the user is asked again. An answer that cannot be written holds until the server ends.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fuselight.shared.folder_lock import locked_folder
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import (
    check_private_folder,
    make_private_folder,
    read_regular,
    write_whole,
)
from fuselight_server.base.files import within

FILE = "consent.json"
ANSWERS = frozenset({"run", "command", "never"})
"""Code may run on each save, when the user asks for a run, or not at all."""
_SCHEMA = 1
_MAX_BYTES = 2**20
_MAX = 2000
"""Answers that are kept, the newest."""
FIRST_CALL = "#first-call"
"""After the path of a program, in the subject of an answer about its part up to the first call."""


def first_call_of(program: str) -> str:
    """What stands for a program up to its first call: of a path or a URI."""
    return f"{program}{FIRST_CALL}"


@dataclasses.dataclass(frozen=True)
class ConsentAnswer:
    """An answer: of a folder, of a program, or of a program up to its first call."""

    subject: str
    answer: str
    when: float = 0.0
    """Seconds since the epoch."""

    @property
    def path(self) -> str:
        """The folder or the file that the answer is about."""
        return self.subject.removesuffix(FIRST_CALL)


def state_folder(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Where this system keeps what a program remembers for its user, and Fuselight's folder in it."""
    if platform == "win32":
        base = environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif platform == "darwin":
        base = environment.get("XDG_STATE_HOME") or Path.home() / "Library" / "Application Support"
    else:
        base = environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base, "fuselight")


class ConsentStore:
    """The file of answers. It is read at each question, as another server may have written it."""

    def __init__(self, folder: Path | None = None) -> None:
        """Use the file in `folder`; None: in the user's state folder."""
        self.path = (folder or state_folder()) / FILE

    def answers(self) -> tuple[ConsentAnswer, ...]:
        """All answers, by subject."""
        return tuple(sorted(self._read().values(), key=lambda kept: kept.subject))

    def entry(self, subject: str) -> ConsentAnswer | None:
        """The answer about a subject, with its time; None where the user has not been asked."""
        return self._read().get(subject)

    def keep_answer(self, subject: str, answer: str) -> None:
        """Keep an answer in place of the one before. Raises OSError."""
        if answer in ANSWERS:
            with self._locked():
                self._write({**self._read(), subject: ConsentAnswer(subject, answer, time.time())}.values())

    def forget_answers(self, path: str) -> tuple[ConsentAnswer, ...]:
        """Forget the answers about a folder or a program, and about what lies in it; returns them. Raises OSError."""
        with self._locked():
            answers = self._read()
            forgotten = tuple(kept for kept in self.answers() if within(kept.path, path))
            if forgotten:
                self._write(kept for kept in answers.values() if kept not in forgotten)
        return forgotten

    def forget_all(self) -> tuple[ConsentAnswer, ...]:
        """Forget every answer; returns them. Raises OSError."""
        forgotten = self.answers()
        self.path.unlink(missing_ok=True)
        return forgotten

    def _locked(self) -> AbstractContextManager[None]:
        """No other server changes the file meanwhile. Raises OSError if its folder cannot be made."""
        folder = self.path.parent
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private_folder(folder)
        return locked_folder(str(folder))

    def _read(self) -> dict[str, ConsentAnswer]:
        try:
            check_private_folder(self.path.parent)
            data = parse_json(read_regular(self.path, _MAX_BYTES, follow_link=False, is_own=True))
        except (OSError, ValueError, RecursionError):
            return {}
        entries = data.get("answers") if isinstance(data, dict) and data.get("schema") == _SCHEMA else None
        return {
            subject: ConsentAnswer(subject, entry["answer"], float(entry["when"]))
            for subject, entry in (entries.items() if isinstance(entries, dict) else ())
            if _is_answer(entry)
        }

    def _write(self, answers: Iterable[ConsentAnswer]) -> None:
        newest = sorted(answers, key=lambda kept: -kept.when)[:_MAX]
        entries = {kept.subject: {"answer": kept.answer, "when": kept.when} for kept in newest}
        text = json.dumps({"schema": _SCHEMA, "answers": entries}, indent=1)
        write_whole(self.path, text.encode())


def _is_answer(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("answer") in ANSWERS
        and isinstance(entry.get("when"), (int, float))
        and abs(entry["when"]) <= sys.float_info.max
    )

"""Changes of texts as a unified diff that `git apply`, `patch -p1` and `base/unified_diff.py` read.

Invariant: a diff changes the bytes of a file as the change does: its encoding, its byte order mark, its line ends, and
whether its last line has one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_WITH_MARK = "utf-8-sig"
_QUOTED = re.compile(r'[\x00-\x1f\x7f"\\]')
_ESCAPES = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}


@dataclass(frozen=True)
class TextChange:
    """A file, or a cell of a notebook, before and after a change."""

    path: str
    """Absolute."""
    old: str
    new: str
    encoding: str = "utf-8"
    is_cell: bool = False
    """Whether the path is that of a cell, which only Fuselight knows."""

    def diff(self, name: str) -> str:
        """The unified diff, for a file of that name."""
        return "".join(unified_lines(name, self.old, self.new))

    def encoded_diff(self, name: str) -> bytes:
        """The unified diff in the encoding of the file."""
        mark, encoding = ("\ufeff", "utf-8") if self.encoding == _WITH_MARK else ("", self.encoding)
        lines = list(unified_lines(name, mark + self.old, mark + self.new))
        heads, rest = lines[:2], lines[2:]
        return os.fsencode("".join(heads)) + "".join(rest).encode(encoding)


def unified_lines(name: str, old: str, new: str) -> Iterator[str]:
    """The lines of the unified diff of a text, with their ends."""
    before, after = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (old, new))
    heads = (_head(f"a/{name}"), _head(f"b/{name}"))
    for number, line in enumerate(difflib.unified_diff(before, after, *heads)):
        if number < len(heads):
            yield line.rstrip("\n") + ("\t\n" if " " in name else "\n")
        else:
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def diff_folder(paths: Iterable[str]) -> str:
    """The deepest folder that contains the files and the working folder: a diff's paths cannot leave their folder."""
    return os.path.commonpath([Path.cwd(), *(Path(path).parent for path in paths)])


def name_in(folder: str, path: str) -> str:
    """The path in a diff for those who apply it in a folder."""
    return Path(os.path.relpath(path, folder)).as_posix()


def _head(name: str) -> str:
    """A name as git writes it, which GNU patch reads, too."""
    if not _QUOTED.search(name):
        return name
    return '"' + _QUOTED.sub(lambda match: "\\" + _ESCAPES.get(match[0], f"{ord(match[0]):03o}"), name) + '"'

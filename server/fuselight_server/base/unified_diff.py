"""One unified diff, applied to texts in memory; text before its first file is ignored, so it may be that of a commit.

Invariant: a diff is applied as a whole or not at all, but for the modes of files. A hunk counts by its lines, as those
who write diffs by hand miscount: it fits where its context and removed lines stand, and a hunk that fits several places
is refused unless its line number says which.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight.shared.foreign_data import parse_literal

if TYPE_CHECKING:
    from collections.abc import Callable

_HUNK = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@.*| .*)?$")
_IGNORED = ("diff ", "index ", "new file mode", "old mode", "new mode", "similarity ", "Index: ", "=====")
_REFUSED = ("rename ", "copy ", "deleted file", "Binary files", "GIT binary")
_COMMIT = re.compile(r"^(?:From|commit) [0-9a-f]{7,64}\b", re.MULTILINE)
"""The first line of a commit, in a mail of `git format-patch` or in `git log -p`."""
_SIGNATURE = re.compile(r"\n-- ?\n\d[\w.]*(?: .*)?\s*\Z")
"""What `git format-patch` writes after the last hunk: a mark, and git's version."""
_NO_END = "\\ No newline at end of file"
_ABSENT = "/dev/null"
_BYTE_ORDER_MARK = "\ufeff"
"""What the first line of a file may start with, and a diff of its bytes has, too."""
_SHOWN = 60
"""Characters of a line that a message shows."""


class DiffError(Exception):
    """A diff that cannot be applied; the message says which part and why."""


class MissingFileError(DiffError):
    """A diff of a file that cannot be read."""


@dataclass
class DiffHunk:
    """A part of a diff: lines without their ends."""

    line: int | None
    """1-based line of its old text as its head has it."""
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    blank: int = 0
    """Empty lines at its end without a mark: lines of its context, or what stands between two parts of a diff."""
    ends_without_newline: bool = False
    """Whether its new text ends the file without a line end."""
    adds_last_newline: bool = False
    """Whether the old text alone has no newline at its end."""


@dataclass
class FileDiff:
    """The hunks of one file."""

    path: str
    is_new: bool
    hunks: list[DiffHunk] = field(default_factory=list)
    is_empty: bool = False
    """Whether it is created without text, and so without a hunk."""


def apply_diff(diff: str, read: Callable[[str], str | None]) -> dict[str, str]:
    """The new text of each file that a diff changes, by the path in the diff. Raises DiffError.

    `read` gives the text of a file, None if there is no such file; it is also asked for paths without `a/` and `b/`.
    """
    texts: dict[str, str] = {}
    for file in parse_diff(diff):
        path = file.path = _known_path(file, read)
        old = texts.get(path, read(path))
        if old is None and not file.is_new:
            raise MissingFileError(f"the diff changes `{path}`, which cannot be read")
        if old and file.is_new:
            raise DiffError(f"the diff creates `{path}`, which exists")
        texts[path] = _applied(file, old or "")
    return texts


def _known_path(file: FileDiff, read: Callable[[str], str | None]) -> str:
    bare = re.sub(r"^[ab]/", "", file.path)
    return file.path if read(file.path) is not None and bare != file.path else bare


def parse_diff(diff: str) -> list[FileDiff]:
    """The files of a diff, in the order of the diff. Raises DiffError."""
    if not diff.strip():
        raise DiffError("the diff is empty")
    if len(_COMMIT.findall(diff)) > 1:
        raise DiffError(
            "the diff has several commits: give one diff of them all, as `git diff BASE` writes it"
        )
    lines = re.split(r"\r\n|\n", _SIGNATURE.sub("", diff).rstrip("\r\n"))
    files: list[FileDiff] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if _starts_file(lines, number):
            files.append(_file(line, lines[number + 1]))
            number += 2
        elif line.startswith("@@"):
            if not files:
                raise DiffError(
                    f"line {number + 1}: the diff has a hunk before any `--- PATH` and `+++ PATH`"
                )
            hunk, number = _hunk(lines, number)
            files[-1].hunks.append(hunk)
        else:
            _check_head(lines, number, is_text=not files)
            files += _empty_file(lines, number)
            number += 1
    changed = [file for file in files if file.hunks or file.is_empty]
    if not changed:
        raise DiffError("the diff has no hunk: it needs `--- PATH`, `+++ PATH` and `@@ ... @@` lines")
    return changed


def _empty_file(lines: list[str], number: int) -> list[FileDiff]:
    """The file that git creates without text, such as an `__init__.py`: it has a head and no hunk."""
    head = lines[number - 1] if number else ""
    if not (lines[number].startswith("new file mode") and head.startswith("diff --git ")):
        return []
    rest = itertools.dropwhile(lambda line: not line or line.startswith("index "), lines[number + 1 :])
    if not next(rest, "diff ").startswith("diff "):
        return []
    both = head.removeprefix("diff --git ")  # the same path twice, which may have blanks
    return [FileDiff(_unquoted(both[len(both) // 2 + 1 :]), is_new=True, is_empty=True)]


def _check_head(lines: list[str], number: int, *, is_text: bool) -> None:
    """Refuse a line outside of hunks that says more than this module does; before the first file it may be prose."""
    line = lines[number]
    is_of_git = any(above.startswith("diff --git ") for above in lines[max(number - 4, 0) : number])
    if line.startswith(_REFUSED) and (is_of_git or not is_text or number == 0):
        raise DiffError(f"`{line[:_SHOWN]}`: only diffs that change or create text files are supported")
    if line.strip() and not line.startswith(_IGNORED) and not is_text:
        raise DiffError(f"line {number + 1} of the diff is in no hunk: `{line[:_SHOWN]}`")


def _starts_file(lines: list[str], number: int) -> bool:
    following = lines[number + 1] if number + 1 < len(lines) else ""
    return lines[number].startswith("--- ") and following.startswith("+++ ")


def _ends_hunk(lines: list[str], number: int) -> bool:
    """Whether a line cannot be one of the hunk before it.

    A removed line `-- x` before an added line `++ y` looks as the head of a file, but a hunk follows that.
    """
    after = lines[number + 2] if number + 2 < len(lines) else "@@"
    is_head = lines[number].startswith(("@@", "diff ", "Index: "))
    return is_head or (_starts_file(lines, number) and after.startswith("@@"))


def _file(old: str, new: str) -> FileDiff:
    before, after = (_unquoted(line[4:].split("\t")[0].strip()) for line in (old, new))
    if after == _ABSENT:
        raise DiffError(f"the diff deletes `{before}`: only changes and new files are supported")
    return FileDiff(after, is_new=before == _ABSENT)


def _unquoted(path: str) -> str:
    r"""A path as git writes it where it is not ASCII: `"a/caf\303\251.py"`."""
    if len(path) < 2 or path[0] != '"' or path[-1] != '"':  # noqa: PLR2004 - two quotes
        return path
    with contextlib.suppress(ValueError):
        literal = parse_literal(f"b{path}")
        return str(literal, "utf-8") if isinstance(literal, bytes) else path
    return path


def _hunk(lines: list[str], number: int) -> tuple[DiffHunk, int]:
    """The hunk whose head is line `number`, and the number of the line after it. Raises DiffError."""
    head = _HUNK.match(lines[number])
    if head is None:
        raise DiffError(f"line {number + 1} of the diff is no head of a hunk: `{lines[number][:_SHOWN]}`")
    hunk = DiffHunk(
        int(head[1]) + (head[2] == "0") if head[1] else None
    )  # what only inserts names the line before
    end = _counted_end(lines, number + 1, int(head[2] or 1), int(head[3] or 1)) if head[1] else None
    if end is None:
        end = next((at for at in range(number + 1, len(lines)) if _ends_hunk(lines, at)), len(lines))
    for at in range(number + 1, end):
        _take(hunk, lines, at)
    return hunk, end


def _counted_end(lines: list[str], number: int, old: int, new: int) -> int | None:
    """The line after a hunk whose head counts its lines; None if it miscounts, as what people write often does."""
    while (old > 0 or new > 0) and number < len(lines) and lines[number][:1] in {"", " ", "+", "-", "\\"}:
        old -= lines[number][:1] in {"", " ", "-"}
        new -= lines[number][:1] in {"", " ", "+"}
        number += 1
    while number < len(lines) and lines[number].startswith(_NO_END[:10]):
        number += 1
    following = next((at for at in range(number, len(lines)) if lines[at].strip()), None)
    return number if old == new == 0 and (following is None or _ends_hunk(lines, following)) else None


def _take(hunk: DiffHunk, lines: list[str], number: int) -> None:
    line = lines[number]
    mark, text = line[:1], line[1:].removeprefix(_BYTE_ORDER_MARK)
    hunk.blank = hunk.blank + 1 if not line else 0
    if line.startswith(_NO_END[:10]):
        hunk.ends_without_newline |= lines[number - 1][:1] in {"+", " "}
        hunk.adds_last_newline |= lines[number - 1][:1] == "-"
    elif mark == "+":
        hunk.new.append(text)
    elif mark == "-":
        hunk.old.append(text)
    elif mark in {" ", ""}:  # an editor may have removed the blank of an empty line
        hunk.old.append(text)
        hunk.new.append(text)
    else:
        raise DiffError(f"line {number + 1} of the diff starts with none of ` `, `+`, `-`: `{line[:_SHOWN]}`")


def _applied(file: FileDiff, old: str) -> str:
    """The new text of a file. Raises DiffError."""
    ends = re.findall(r"\r\n|\n", old)
    end = max(set(ends), key=ends.count, default="\n")
    lines = re.findall(r"[^\n]*\n|[^\n]+", old)
    bare = [line.rstrip("\r\n").removeprefix(_BYTE_ORDER_MARK) for line in lines]
    result: list[str] = []
    at = 0
    for number, hunk in enumerate(file.hunks, 1):
        start = _place(hunk, bare, at, f"hunk {number} of `{file.path}`")
        at, first = start + len(hunk.old), at
        result += [*lines[first:start], *_new_lines(hunk, lines[start:at], end)]
    result += lines[at:]
    text = "".join(line if line.endswith("\n") else line + end for line in result[:-1]) + "".join(result[-1:])
    last = file.hunks[-1] if file.hunks else DiffHunk(None)
    if at == len(lines) and last.ends_without_newline and last.new:
        return text.rstrip("\r\n")
    if at == len(lines) and last.adds_last_newline and text and not text.endswith("\n"):
        return text + end
    return text


def _new_lines(hunk: DiffHunk, replaced: list[str], end: str) -> list[str]:
    """The lines that replace those of a hunk; lines of its context keep their ends."""
    kept: dict[str, list[str]] = {}
    for text, line in zip(hunk.old, replaced, strict=True):
        kept.setdefault(text, []).append(line)
    return [kept[text].pop(0) if kept.get(text) else text + end for text in hunk.new]


def _place(hunk: DiffHunk, lines: list[str], start: int, name: str) -> int:
    """The 0-based line where a hunk starts, at or after `start`. Raises DiffError."""
    wanted = None if hunk.line is None else hunk.line - 1
    if not hunk.old:
        if wanted is None and lines:
            raise DiffError(f"{name} only adds lines: it needs lines of context, or its line number")
        return min(max(wanted or 0, start), len(lines))
    places = _places(hunk, lines, start)
    while not places and hunk.blank:
        hunk.blank -= 1
        hunk.old.pop()
        hunk.new.pop()
        places = _places(hunk, lines, start)
    if wanted is not None and wanted in places:
        return wanted
    if len(places) == 1:
        return places[0]
    if places:
        numbers = ", ".join(str(place + 1) for place in places[:4])
        raise DiffError(f"{name} fits {len(places)} places (lines {numbers}): give it more context")
    raise DiffError(f"{name} does not fit: {_mismatch(hunk, lines, wanted)}")


def _places(hunk: DiffHunk, lines: list[str], start: int) -> list[int]:
    """The 0-based lines where the old text of a hunk stands, from `start` on. It may have lost its last line."""
    length = len(hunk.old)
    if not length:
        return [start]
    last = len(lines) - length
    return [place for place in range(start, last + 1) if lines[place : place + length] == hunk.old]


def _mismatch(hunk: DiffHunk, lines: list[str], wanted: int | None) -> str:
    """The first line of the hunk that the file does not have where the rest of the hunk fits best."""
    starts = range(len(lines)) if wanted is None else [wanted]
    best, place = max(((_fitting(hunk, lines, start), -start) for start in starts), default=(0, 0))
    line = hunk.old[min(best, len(hunk.old) - 1)]
    number = -place + best
    here = f"line {number + 1} is `{lines[number][:_SHOWN]}`" if number < len(lines) else "the file has ended"
    return f"the diff has `{line[:_SHOWN]}`, but {here}"


def _fitting(hunk: DiffHunk, lines: list[str], start: int) -> int:
    """How many lines of a hunk fit from a line on."""
    pairs = zip(hunk.old, lines[start:], strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

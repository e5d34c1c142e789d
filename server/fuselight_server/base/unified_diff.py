"""One unified diff, applied to texts in memory; text before its first file is ignored, so it may be that of a commit.

Invariant: a diff is applied as a whole or not at all, but for the modes of files. A hunk counts by its lines, as those
who write diffs by hand miscount: it fits where its context and removed lines stand, and a hunk that fits several places
is refused unless its line number says which.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from os.path import commonprefix

from fuselight.shared.foreign_data import parse_literal

_HUNK = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@.*| .*)?$")
_IGNORED = ("diff ", "index ", "new file mode", "old mode", "new mode", "similarity ", "Index: ", "=====")
_REFUSED = ("rename ", "copy ", "deleted file", "Binary files", "GIT binary")
_COMMIT = re.compile(r"^(?:From|commit) [0-9a-f]{7,64}\b", re.MULTILINE)
"""The first line of a commit, in a mail of `git format-patch` or in `git log -p`."""
_SIGNATURE = re.compile(r"\n-- ?\n\d[\w.]*(?: .*)?\s*\Z")
"""What `git format-patch` writes after the last hunk: a mark, and git's version."""
_NO_END = "\\ No newl"
_BYTE_ORDER_MARK = "\ufeff"
"""What the first line of a file may start with, and a diff of its bytes has, too."""
_SHOWN = 60
"""Characters of a line that a message shows."""


class DiffError(Exception):
    """A diff that cannot be applied; the message says which part and why."""


class MissingFileError(DiffError):
    """A diff of a file that cannot be read."""


@dataclass(frozen=True)
class DiffHunk:
    """A part of a diff."""

    line: int | None
    """1-based line of its old text as its head has it."""
    marked: tuple[str, ...] = ()
    """Its lines without their ends. One without a mark at its end may also stand between two parts of a diff."""

    def text(self, mark: str) -> list[str]:
        """The lines of its old text, by the mark `-`, or of its new one, by `+`."""
        lines = (
            line for line in self.marked if line[:1] in {mark, " ", ""}
        )  # "": an editor removed the blank
        return [line[1:].removeprefix(_BYTE_ORDER_MARK) for line in lines]

    def lacks_newline(self, marks: set[str]) -> bool:
        """Whether a line with one of these marks ends the file without a line end."""
        pairs = itertools.pairwise(self.marked)
        return any(line.startswith(_NO_END) and before[:1] in marks for before, line in pairs)


@dataclass(frozen=True)
class FileDiff:
    """The hunks of one file."""

    path: str
    is_new: bool
    hunks: list[DiffHunk] = field(default_factory=list)


def apply_diff(diff: str, read: Callable[[str], str | None]) -> dict[str, str]:
    """The new text of each file that a diff changes, by the path in the diff. Raises DiffError.

    `read` gives the text of a file, None if there is no such file; it is also asked for paths without `a/` and `b/`.
    """
    texts: dict[str, str] = {}
    for file in parse_diff(diff):
        bare = re.sub(r"^[ab]/", "", file.path)
        path = bare if read(file.path) is None else file.path
        old = texts.get(path, read(path))
        if old is None and not file.is_new:
            raise MissingFileError(f"the diff changes `{path}`, which cannot be read")
        if old and file.is_new:
            raise DiffError(f"the diff creates `{path}`, which exists")
        texts[path] = _applied(file.hunks, old or "", path)
    return texts


def parse_diff(diff: str) -> list[FileDiff]:
    """The files of a diff, in the order of the diff. Raises DiffError."""
    if not diff.strip():
        raise DiffError("the diff is empty")
    if len(_COMMIT.findall(diff)) > 1:
        raise DiffError("the diff has several commits: give one diff of all, as `git diff BASE` writes it")
    lines = re.split(r"\r\n|\n", _SIGNATURE.sub("", diff).rstrip("\r\n"))
    files: list[FileDiff] = []
    number = 0
    while number < len(lines):
        if _starts_file(lines, number):
            files.append(_file(*lines[number : number + 2]))
            number += 2
        elif lines[number].startswith("@@"):
            if not files:
                raise DiffError(f"line {number + 1}: the diff has a hunk before `--- PATH` and `+++ PATH`")
            number = _hunk(lines, number, files[-1].hunks)
        else:
            _check_head(lines, number, is_text=not files)
            files += _empty_file(lines, number)
            number += 1
    changed = [file for file in files if file.hunks]
    if not changed:
        raise DiffError("the diff has no hunk: it needs `--- PATH`, `+++ PATH` and `@@ ... @@` lines")
    return changed


def _empty_file(lines: list[str], number: int) -> list[FileDiff]:
    """The file that git creates without text, such as an `__init__.py`: it has a head and no hunk."""
    head = lines[number - 1] if number else ""
    is_new = lines[number].startswith("new file mode") and head.startswith("diff --git ")
    rest = (line for line in lines[number + 1 :] if line and not line.startswith("index "))
    if not is_new or not next(rest, "diff ").startswith("diff "):
        return []
    twice = head.removeprefix("diff --git ")  # the same path, which may have blanks
    return [FileDiff(_unquoted(twice[len(twice) // 2 + 1 :]), is_new=True, hunks=[DiffHunk(None)])]


def _check_head(lines: list[str], number: int, *, is_text: bool) -> None:
    """Refuse a line outside of hunks that says more than this module does; before the first file it may be prose."""
    line = lines[number]
    is_of_git = any(above.startswith("diff --git ") for above in lines[max(number - 4, 0) : number])
    if line.startswith(_REFUSED) and (is_of_git or not is_text or number == 0):
        raise DiffError(f"`{line[:_SHOWN]}`: only diffs that change or create text files are supported")
    if line.strip() and not line.startswith(_IGNORED) and not is_text:
        raise DiffError(f"line {number + 1} of the diff is in no hunk: `{line[:_SHOWN]}`")


def _starts_file(lines: list[str], number: int) -> bool:
    return lines[number].startswith("--- ") and "".join(lines[number + 1 : number + 2]).startswith("+++ ")


def _ends_hunk(lines: list[str], number: int) -> bool:
    """Whether a line cannot be one of the hunk before it.

    A removed line `-- x` before an added line `++ y` looks as the head of a file, but a hunk follows that.
    """
    after = lines[number + 2] if number + 2 < len(lines) else "@@"
    is_head = lines[number].startswith(("@@", "diff ", "Index: "))
    return is_head or (_starts_file(lines, number) and after.startswith("@@"))


def _file(old: str, new: str) -> FileDiff:
    before, after = (_unquoted(line[4:].split("\t")[0].strip()) for line in (old, new))
    if after == "/dev/null":
        raise DiffError(f"the diff deletes `{before}`: only changes and new files are supported")
    return FileDiff(after, is_new=before == "/dev/null")


def _unquoted(path: str) -> str:
    r"""A path as git writes it where it is not ASCII: `"a/caf\303\251.py"`."""
    with contextlib.suppress(ValueError):
        literal = parse_literal(f"b{path}") if path[:1] == path[-1:] == '"' else None
        return str(literal, "utf-8") if isinstance(literal, bytes) else path
    return path


def _hunk(lines: list[str], number: int, hunks: list[DiffHunk]) -> int:
    """Add the hunk whose head is line `number`; returns the number of the line after it. Raises DiffError."""
    head = _HUNK.match(lines[number])
    if head is None:
        raise DiffError(f"line {number + 1} of the diff is no head of a hunk: `{lines[number][:_SHOWN]}`")
    end = _counted_end(lines, number + 1, int(head[2] or 1), int(head[3] or 1)) if head[1] else None
    if end is None:
        end = next((at for at in range(number + 1, len(lines)) if _ends_hunk(lines, at)), len(lines))
    for at, text in enumerate(lines[number + 1 : end], number + 2):
        if text[:1] not in {"", " ", "+", "-"} and not text.startswith(_NO_END):
            raise DiffError(f"line {at} of the diff starts with none of ` `, `+`, `-`: `{text[:_SHOWN]}`")
    line = int(head[1]) + (head[2] == "0") if head[1] else None  # what only inserts names the line before
    hunks.append(DiffHunk(line, tuple(lines[number + 1 : end])))
    return end


def _counted_end(lines: list[str], number: int, old: int, new: int) -> int | None:
    """The line after a hunk whose head counts its lines; None if it miscounts, as what people write often does."""
    for line in lines[number:]:
        if not line.startswith(_NO_END) and (old <= 0 >= new or line[:1] not in {"", " ", "+", "-"}):
            break
        old -= line[:1] in {"", " ", "-"}
        new -= line[:1] in {"", " ", "+"}
        number += 1
    following = next((at for at in range(number, len(lines)) if lines[at].strip()), None)
    return number if old == new == 0 and (following is None or _ends_hunk(lines, following)) else None


def _applied(hunks: list[DiffHunk], old: str, path: str) -> str:
    """The new text of a file. Raises DiffError."""
    ends = re.findall(r"\r\n|\n", old)
    end = max(set(ends), key=ends.count, default="\n")
    lines = re.findall(r"[^\n]*\n|[^\n]+", old)
    bare = [line.rstrip("\r\n").removeprefix(_BYTE_ORDER_MARK) for line in lines]
    result: list[str] = []
    at, hunk = 0, DiffHunk(None)
    for number, parsed in enumerate(hunks, 1):
        hunk, start = _place(parsed, bare, at, f"hunk {number} of `{path}`")
        at, first = start + len(hunk.text("-")), at
        result += [*lines[first:start], *_new_lines(hunk, lines[start:at], end)]
    result += lines[at:]
    text = "".join(line if line.endswith("\n") else line + end for line in result[:-1]) + "".join(result[-1:])
    if at == len(lines) and hunk.lacks_newline({"+", " "}) and hunk.text("+"):
        return text.rstrip("\r\n")
    if at == len(lines) and hunk.lacks_newline({"-"}) and text and not text.endswith("\n"):
        return text + end
    return text


def _new_lines(hunk: DiffHunk, replaced: list[str], end: str) -> list[str]:
    """The lines that replace those of a hunk; lines of its context keep their ends."""
    kept: dict[str, list[str]] = {}
    for text, line in zip(hunk.text("-"), replaced, strict=True):
        kept.setdefault(text, []).append(line)
    return [kept[text].pop(0) if kept.get(text) else text + end for text in hunk.text("+")]


def _place(hunk: DiffHunk, lines: list[str], start: int, name: str) -> tuple[DiffHunk, int]:
    """The hunk as it fits, and the 0-based line where it starts, at or after `start`. Raises DiffError."""
    old = hunk.text("-")
    wanted = None if hunk.line is None else hunk.line - 1
    if not old:
        if wanted is None and lines:
            raise DiffError(f"{name} only adds lines: it needs lines of context, or its line number")
        return hunk, min(max(wanted or 0, start), len(lines))
    places = [at for at in range(start, len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    if wanted in places or len(places) == 1:
        return hunk, wanted if wanted is not None and wanted in places else places[0]
    if places:
        first = ", ".join(str(at + 1) for at in places[:4])
        raise DiffError(f"{name} fits {len(places)} places (lines {first}): give it more context")
    if not hunk.marked[-1]:
        return _place(DiffHunk(hunk.line, hunk.marked[:-1]), lines, start, name)
    starts = range(len(lines)) if wanted is None else [wanted]
    most = ((len(commonprefix([old, lines[at:]])), -at) for at in starts)  # noqa: RUF071 - of lists
    fitting, at = max(most, default=(0, 0))
    number = fitting - at
    here = f"line {number + 1} is `{lines[number][:_SHOWN]}`" if number < len(lines) else "the file has ended"
    raise DiffError(
        f"{name} does not fit: the diff has `{old[min(fitting, len(old) - 1)][:_SHOWN]}`, but {here}"
    )

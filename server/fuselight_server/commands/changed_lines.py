"""Which lines of the user's files a change has, as git knows it: those of a pull request.

A finding belongs to the change if one of its places, or a line that explains it, is among the changed lines.
Invariant: files that git does not track yet are changed as a whole; files outside of the repository are not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fuselight.shared.foreign_data import parse_literal
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.finding import Finding, Span
from fuselight_server.base.git import ask_git
from fuselight_server.commands.notebook_lines import lines_in_file

_HUNK = re.compile(rb"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_NEW_FILE = b"+++ "
_ALL = range(1, 1 << 31)
_DIFF = (
    "diff",
    "--unified=0",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-prefix",
    "--no-renames",
    "--ignore-submodules=all",  # git would start another git in each, with the settings of that one
    "--inter-hunk-context=0",
)


@dataclass(frozen=True)
class ChangedLines:
    """Resolved path → its changed lines, 1-based."""

    reference: str
    lines: dict[str, list[range]] = field(default_factory=dict)

    def has(self, finding: Finding) -> bool:
        """Whether a place of the finding, or a line that explains it, is changed."""
        return any(self._touches(span) for span in _places(finding))

    def _touches(self, span: Span) -> bool:
        ranges = self.lines.get(os.path.realpath(span.path), ())
        first, last = lines_in_file(span) if ranges else (span.line, span.last_line)
        return any(first < lines.stop and lines.start <= last for lines in ranges)


def _places(finding: Finding) -> Iterator[Span]:
    yield finding.span
    yield from (related.span for related in finding.related)
    for place in finding.also_at:
        yield from _places(place)


def changed_since(reference: str, paths: Iterable[Path]) -> ChangedLines:
    """Return the lines that differ from where this branch left `reference`, in the repositories of the paths.

    Changes that are not committed count. Raises CommandError where git is missing or does not know `reference`.
    """
    folders = {str(path if path.is_dir() else path.absolute().parent) for path in paths}
    roots = sorted({_root(folder) for folder in folders})
    changed = ChangedLines(reference)
    for root in roots:
        base = _base(root, reference)
        changed.lines.update(_tracked(root, base))
        changed.lines.update(_untracked(root))
    return changed


def _root(folder: str) -> str:
    try:
        return os.fsdecode(ask_git(folder, "rev-parse", "--show-toplevel").removesuffix(b"\n"))
    except FileNotFoundError:
        raise CommandError("--changed-since needs git, which is not installed.") from None
    except OSError as error:
        raise CommandError(f"--changed-since needs a git repository: {error}.") from None


def _base(root: str, reference: str) -> str:
    if reference.startswith("-"):
        raise CommandError(f"`{reference}` is not a name of a commit or branch.")
    try:
        ask_git(root, "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
    except OSError:
        raise CommandError(
            f"git knows no commit `{reference}` in {root}. Fetch it: a shallow clone does not have it "
            "(`fetch-depth: 0` of actions/checkout)."
        ) from None
    try:
        return ask_git(root, "merge-base", reference, "HEAD").decode().strip()
    except OSError:
        raise CommandError(
            f"git finds no common commit of `{reference}` and HEAD in {root}. Fetch the whole history "
            "(`fetch-depth: 0` of actions/checkout)."
        ) from None


def _tracked(root: str, base: str) -> dict[str, list[range]]:
    try:
        patch = ask_git(root, *_DIFF, base, "--")
    except OSError as error:
        raise CommandError(f"git cannot compare {root} with `{base[:12]}`: {error}.") from None
    return {os.path.realpath(Path(root, name)): lines for name, lines in read_patch(patch)}


def _untracked(root: str) -> dict[str, list[range]]:
    names = ask_git(root, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0")
    return {os.path.realpath(Path(root, os.fsdecode(name))): [_ALL] for name in names if name}


def read_patch(patch: bytes) -> Iterator[tuple[str, list[range]]]:
    """Yield the name of each file of a patch that was made without context and prefixes, and its changed lines."""
    name: str | None = None
    ranges: list[range] = []
    skipped = 0
    for line in patch.split(b"\n"):
        if skipped:  # a changed line, which may look like a header
            skipped -= not line.startswith(b"\\")
        elif hunk := _HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            ranges.append(range(first, first + count))
            skipped = count + _removed(line)
        elif line.startswith(_NEW_FILE):
            if name is not None:
                yield name, ranges
            name, ranges = _file_name(line.removeprefix(_NEW_FILE)), []
    if name is not None:
        yield name, ranges


def _removed(hunk: bytes) -> int:
    start = hunk.split(b" ", 2)[1]
    return int(start.partition(b",")[2] or 1)


def _file_name(written: bytes) -> str | None:
    """Read a name as git writes it: quoted as in C where it has unusual characters."""
    name = written.removesuffix(b"\t")
    if name == b"/dev/null":
        return None
    if name.startswith(b'"'):
        octal = parse_literal("b" + name.decode("ascii", "backslashreplace"))
        return os.fsdecode(octal)
    return os.fsdecode(name)

"""Imports that a fix leaves without a use: removed with it.

Invariant: an import goes only if the old text used its name and the new text has the name nowhere else, comments,
strings and directives included, if no other file of the workspace takes the name from this one, and if no import but
that of a module of Python or NumPy is left out. Imports of a package's `__init__.py`, of a module with `__all__`, in a
block, of a module by a dotted name, and on a line with a comment stay. In a workspace that is too large to search, all
do.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from fuselight.shared.foreign_files import read_regular
from fuselight_server.base.files import walk_sources
from fuselight_server.fixes.syntax.file_chunks import chunks_of_text
from fuselight_server.fixes.syntax.tree import dotted
from fuselight_server.source.document import lines_of

_WORD = re.compile(r"[^\W\d]\w*")
_HEAD = re.compile(r"(?:from\s+\S+\s+)?import\s+")
_ATTRIBUTE = re.compile(r"\b(\w+)\.(?=(\w+))")
MAX_FILES = 5_000
_MAX_FOLDERS = 2_000
LONGEST_FILE = 4_000_000
"""Bytes; a source that somebody wrote is shorter."""
_NAME = re.compile(r"[/\\]")


def without_unused_imports(path: str, old: str, new: str, roots: Sequence[str] = ()) -> str:
    """The new text without the imports at top level that `old` used and `new` does not.

    `roots`: folders of the workspace, whose other files may take a name from this one.
    """
    before, after = Counter(_WORD.findall(old)), Counter(_WORD.findall(new))
    unused = {name for name, uses in before.items() if after[name] == 1 < uses}
    if not unused or "__all__" in before or _NAME.split(path)[-1] == "__init__.py":
        return new
    chunks = [chunk for chunk in chunks_of_text(path, new) if chunk.facts.error is None]
    imported = {
        imported.name for chunk in chunks for imported in chunk.facts.imports if imported.scope == ()
    } & unused
    gone = imported - names_taken_from(path, imported, roots)
    for chunk in reversed(chunks):
        names = {imported.name for imported in chunk.facts.imports if imported.scope == ()}
        if not names & gone:
            continue
        first = sum(map(len, lines_of(new)[: chunk.line - 1]))
        try:
            data, source = new.encode(), chunk.data.decode()
        except UnicodeError:
            return new
        shorter = _without(source, gone)
        if chunk.column == 0 and shorter is not None and data[first : first + len(chunk.data)] == chunk.data:
            new = (data[:first] + shorter.encode() + data[first + len(chunk.data) :]).decode()
    return new


def names_taken_from(path: str, names: Collection[str], roots: Sequence[str]) -> set[str]:
    """The names of a file that other files in `roots` may import or read, by their texts on the disk.

    All of them where there are too many files to search.
    """
    stem = _NAME.split(path)[-1].rpartition(".")[0]
    actual_names: set[str] = set()
    files = other_files(path, roots) if names and stem else iter(())
    for count, file in enumerate(files):
        if count >= MAX_FILES or file is None:
            return set(names)
        try:
            text = read_regular(file, LONGEST_FILE).decode("utf-8", "replace")
        except OSError:
            continue
        if stem in text:
            actual_names |= _taken(text, stem, set(names) - actual_names)
    return actual_names


def other_files(path: str, roots: Sequence[str]) -> Iterator[Path | None]:
    """The other sources and notebooks in the folders; None where there are too many folders."""
    folders = 0
    for root in roots:
        for parent, names in walk_sources(Path(root)):
            folders += 1
            if folders > _MAX_FOLDERS:
                yield None
                return
            files = (parent / name for name in names if name.endswith((".py", ".pyi", ".ipynb")))
            yield from (file for file in files if str(file) != path)


def _taken(text: str, stem: str, names: set[str]) -> set[str]:
    """Which names a text imports from a module with this last name, or reads as its attributes."""
    module = re.escape(stem)
    lists = re.findall(rf"\bfrom\s+[\w.]*\b{module}\s+import\s*(\([^)]*\)|[^\n;]*)", text)
    imported = {word for sequence in lists for word in _WORD.findall(sequence)}
    if any("*" in sequence for sequence in lists):
        return names
    owners = {stem, *re.findall(rf"\b{module}\s+as\s+(\w+)", text)}
    read = {match[2] for match in _ATTRIBUTE.finditer(text) if match[1] in owners}
    return names & (imported | read)


def _without(source: str, gone: set[str]) -> str | None:
    """A chunk without the imports of some names; None where none of them can go."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    except (cst.ParserSyntaxError, RecursionError):
        return None
    ranges = wrapper.resolve(PositionProvider)
    rows = source.splitlines(keepends=True)
    changed = False
    for line in reversed(wrapper.module.body):
        statement = (
            line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        )
        if not isinstance(line, cst.SimpleStatementLine) or line.trailing_whitespace.comment is not None:
            continue
        names = [*_names(statement)]
        kept = [text for name, text in names if name not in gone or not _may_go(statement, text)]
        if not kept and isinstance(statement, cst.ImportFrom) and not _comes_from_python(statement):
            continue
        there = ranges[line]
        if len(kept) == len(names) or there.start.line != there.end.line:
            continue
        changed = True
        row = there.start.line - 1
        if kept:
            head = _HEAD.match(rows[row])
            if head is None:
                return None
            end = rows[row][len(rows[row].rstrip("\r\n")) :]
            rows[row] = f"{head[0]}{', '.join(kept)}{end}"
        else:
            del rows[row]
    return "".join(rows) if changed else None


def _may_go(statement: cst.CSTNode | None, text: str) -> bool:
    """Whether the name of an import can go: `from a import b` stays an import of `a` as long as it has names."""
    return isinstance(statement, cst.ImportFrom) or _has_no_effect(text.split(maxsplit=1)[0])


def _comes_from_python(statement: cst.ImportFrom) -> bool:
    module = statement.module
    return not statement.relative and module is not None and _has_no_effect(dotted(module))


def _has_no_effect(module: str) -> bool:
    """Whether nothing but its name is needed of a module. The import of any other may register or set something."""
    return module.partition(".")[0] in {*sys.stdlib_module_names, "numpy"}


def _names(statement: cst.CSTNode | None) -> Iterator[tuple[str, str]]:
    """The names that an import binds, each with its text; none where one of them cannot go."""
    if not isinstance(statement, (cst.Import, cst.ImportFrom)) or isinstance(statement.names, cst.ImportStar):
        return
    if isinstance(statement, cst.ImportFrom):
        module = statement.module
        if statement.lpar or (isinstance(module, cst.Name) and module.value == "__future__"):
            return
    code = cst.Module([]).code_for_node
    for alias in statement.names:
        bound = alias.asname.name if alias.asname is not None else alias.name
        name = bound.value if isinstance(bound, cst.Name) else ""
        yield name, code(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT))

"""Imports that a fix leaves without a use: removed with it.

Invariant: an import goes only if the old text used its name and the new text has the name nowhere else, comments,
strings and directives included, and if no import but that of a module of Python or NumPy is left out. Imports of a
package's `__init__.py`, of a module with `__all__`, in a block, of a module by a dotted name, and on a line with a
comment stay.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from fuselight_server.fixes.purity import dotted
from fuselight_server.fixes.site import chunks_of_text
from fuselight_server.static.document import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORD = re.compile(r"[^\W\d]\w*")
_HEAD = re.compile(r"(?:from\s+\S+\s+)?import\s+")
_NAME = re.compile(r"[/\\]")


def without_unused_imports(path: str, old: str, new: str) -> str:
    """The new text without the imports at top level that `old` used and `new` does not."""
    before, after = Counter(_WORD.findall(old)), Counter(_WORD.findall(new))
    gone = {name for name, uses in before.items() if after[name] == 1 < uses}
    if not gone or "__all__" in before or _NAME.split(path)[-1] == "__init__.py":
        return new
    for chunk in reversed(chunks_of_text(path, new)):
        names = {one.name for one in chunk.facts.imports if one.scope == ()}
        if not names & gone or chunk.facts.error is not None:
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
        one = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        if not isinstance(line, cst.SimpleStatementLine) or line.trailing_whitespace.comment is not None:
            continue
        names = [*_names(one)]
        kept = [text for name, text in names if name not in gone or not _may_go(one, text)]
        if not kept and isinstance(one, cst.ImportFrom) and not _comes_from_python(one):
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

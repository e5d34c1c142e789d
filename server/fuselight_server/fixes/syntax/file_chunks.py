"""The top-level chunks of a file: what it imports, and new statements between them.

Invariant: all characters outside the inserted statements stay.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from fuselight_server.source.document import lines_of
from fuselight_server.source.facts import Chunk
from fuselight_server.source.file_reader import ReadingCache, chunks_of

_KEPT = 4
"""Files whose chunks are kept."""
UNCOMMON_ENDS = re.compile(r"\r(?!\n)|[\f\v\x1c-\x1e\x85\u2028\u2029]")
"""Line ends on which an editor, Python and LibCST do not agree."""
_IMPORT = re.compile(rb"^(?:import|from)\s", re.MULTILINE)


@functools.lru_cache(maxsize=_KEPT)  # a file has several findings, and each of their fixes is a new text
def chunks_of_text(path: str, text: str) -> tuple[Chunk, ...]:
    """The top-level chunks of a file."""
    return tuple(chunks_of(path, lines_of(text), ReadingCache()))


def insert_statements(path: str, text: str, statements: Sequence[str], *, after: str = "") -> str | None:
    """The text with statements on lines of their own after its last import at top level.

    With a name in `after`, they follow the first statement that binds it at top level. None without such a place, and
    where a statement of the file is half-typed.
    """
    lines, chunks = lines_of(text), chunks_of_text(path, text)
    if any(chunk.facts.error is not None for chunk in chunks) or UNCOMMON_ENDS.search(text):
        return None
    if after:
        binding = (chunk for chunk in chunks if _binds(chunk, after))
        last = next(binding, None)
    else:
        last = next((chunk for chunk in reversed(chunks) if _is_import(chunk)), None)
    if last is None:
        return None
    try:
        wrapper = MetadataWrapper(cst.parse_module(last.data.decode()), unsafe_skip_copy=True)
        ranges = wrapper.resolve(PositionProvider)
        data = b"".join(lines)
        text_again = data.decode("utf-8", "surrogatepass")
    except (cst.ParserSyntaxError, RecursionError, UnicodeError):
        return None
    if len(wrapper.module.body) != 1 or text_again != text:
        return None
    rows = last.data.splitlines(keepends=True)[: ranges[wrapper.module.body[0]].end.line]
    if not rows[-1].endswith(b"\n"):
        return None
    end = sum(map(len, lines[: last.line - 1])) + last.column + sum(map(len, rows))
    newline = b"\r\n" if rows[-1].endswith(b"\r\n") else b"\n"
    inserted = b"".join(statement.encode() + newline for statement in statements)
    return (data[:end] + inserted + data[end:]).decode("utf-8", "surrogatepass")


def imported_name(path: str, text: str, module: str) -> str | None:
    """The name that a module has at top level of a file; None where it is not imported there."""
    imports = (imported for chunk in chunks_of_text(path, text) for imported in chunk.facts.imports)
    return next(
        (imported.name for imported in imports if imported.full == module and imported.scope == ()), None
    )


def _is_import(chunk: Chunk) -> bool:
    """Whether the chunk is an import statement at top level."""
    return bool(chunk.facts.imports) and _IMPORT.search(chunk.data) is not None


def _binds(chunk: Chunk, name: str) -> bool:
    """Whether the chunk is a plain assignment to the name at top level."""
    pattern = rb"^%s\s*=[^=]" % re.escape(name.encode())
    return any(binding.target == name and binding.scope == () for binding in chunk.facts.bindings) and bool(
        re.search(pattern, chunk.data, re.MULTILINE)
    )

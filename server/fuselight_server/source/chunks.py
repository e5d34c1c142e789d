"""Cut a file into its top-level statements without parsing it, so that a keystroke re-parses one of them only.

Invariant: the cut is a function of the text alone. A cache only remembers answers, so reading after a thousand
edits equals reading the result at once. Half-typed code stays in its own chunk: an open bracket ends where the
next line at column 0 starts a definition, and whatever is open ends with the cell of a notebook.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fuselight.shared.notebooks.commands import MARKER

K = TypeVar("K")
V = TypeVar("V")

_CELL = MARKER.encode()
_START = re.compile(rb"^[^\s#)\]}]|^" + re.escape(_CELL) + rb"$", re.MULTILINE)
_TOKEN = re.compile(
    rb"""(?P<skip>\#[^\n]*
        | (?P<triple>\"{3}|'{3})(?:[^\\]|\\.)*?(?P=triple)
        | "{1}(?!"")(?:[^"\\\n]|\\.)*" | '{1}(?!'')(?:[^'\\\n]|\\.)*')
        | (?P<open>\"{3}|'{3}) | (?P<up>[(\[{]) | (?P<down>[)\]}])""",
    re.VERBOSE | re.DOTALL,
)
_CLOSER = {quote: re.compile(rb"(?:[^\\]|\\.)*?" + quote, re.DOTALL) for quote in (b'"""', b"'''")}
_GOES_ON = re.compile(rb"(?:else|elif|except|finally)\b")
_DEFINITION = re.compile(
    rb"(?:def|class|async[ \t]+def|import|from)[ \t]+[\w.]|@[A-Za-z_][^\n]*\n(?:[@# \t]|def\b|class\b|async\b)"
)


@dataclass(frozen=True)
class _State:
    """What is open at the end of a piece: brackets, a triple-quoted string, a backslash at the line's end."""

    depth: int = 0
    quote: bytes = b""
    continued: bool = False


_NEUTRAL = _State()


class Memory(Generic[K, V]):
    """Answers by what they came from. `turn` forgets those that nothing asked for since the last turn."""

    def __init__(self) -> None:
        self._known: dict[K, V] = {}
        self._used: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._known) + len(self._used)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The answer for `key`, made when it is asked for first."""
        kept = self._used.get(key)
        if kept is None:
            kept = self._known.get(key)
            self._used[key] = kept = make() if kept is None else kept
        return kept

    def turn(self) -> None:
        """Start a new round."""
        self._known, self._used = self._used, {}


States = Memory[tuple[bytes, _State], _State]
"""The state at a piece's end, by the piece and the state in which it is entered."""


def cut(data: bytes, cache: States) -> list[bytes]:
    """`data`, whose lines end in LF or CRLF, as top-level chunks; joined they are `data`."""
    cache.turn()
    starts = [match.start() for match in _START.finditer(data)]
    if not starts:
        return [data] if data else []
    if starts[0] > 0:  # comments above the first statement: a chunk of their own, it may be a decorator
        starts.insert(0, 0)
    pieces = [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]
    chunks, end = _join(pieces, cache, close_quotes=False)
    if end.quote:
        chunks, _ = _join(pieces, cache, close_quotes=True)
    return chunks


def _join(pieces: list[bytes], cache: States, *, close_quotes: bool) -> tuple[list[bytes], _State]:
    chunks: list[bytes] = []
    group: list[bytes] = []
    state = _NEUTRAL
    for piece in pieces:
        is_cell = piece.startswith(_CELL + b"\n")
        if is_cell or (state != _NEUTRAL and (close_quotes or not state.quote) and _DEFINITION.match(piece)):
            state = _NEUTRAL
        if is_cell and group:
            chunks.append(b"".join(group))
            group = []
        if state == _NEUTRAL and group and group[-1][:1] != b"@" and not _GOES_ON.match(piece):
            chunks.append(b"".join(group) if len(group) > 1 else group[0])
            group = []
        group.append(piece)
        state = cache.get((piece, state), functools.partial(_lex, piece, state))
    chunks.append(b"".join(group))
    return chunks, state


# For readers without a cache of their own: they read a file again at each edit.
@functools.lru_cache(maxsize=2048)
def _lex(piece: bytes, state: _State) -> _State:
    position, depth = 0, state.depth
    if state.quote:
        closed = _CLOSER[state.quote].match(piece)
        if closed is None:
            return state
        position = closed.end()
    comment = -1
    for token in _TOKEN.finditer(piece, position):
        kind = token.lastgroup
        if kind == "up":
            depth += 1
        elif kind == "down":
            depth = max(0, depth - 1)
        elif kind == "open":
            return _State(depth=depth, quote=token.group())
        elif token.group()[:1] == b"#":
            comment = token.end()
    stripped = piece.rstrip(b"\r\n")
    continued = stripped.endswith(b"\\") and comment != len(stripped) and piece != stripped
    return _State(depth=depth, continued=continued)

"""A document as the editor has it: lines of UTF-8 bytes that edits splice, and its Reading.

Invariant: after any edits, `text` is what the editor has and `reading()` equals `read_source(path, text)`, but for the
targets of statements that do not parse: those are what they were when they last did.
Lines end with LF, CRLF or a lone CR, as in the Language Server Protocol. Lines are 1-based, columns 0-based bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from fuselight.shared.protocol import DirectiveLine
from fuselight_server.base.finding import Span
from fuselight_server.source.file_reader import ReadingCache, read_lines
from fuselight_server.source.reading import Reading, StaticTarget
from fuselight_server.source.syntax import may_not_parse
from fuselight_server.source.targets import PROVIDER
from fuselight_server.source.text_changes import Change, Position, moved
from fuselight_server.source.text_diff import Place, replacements

_IMPORT = re.compile(rb"(?:import|from)\b")
_LONE_CR = re.compile(r"\r(?!\n)")
_UNMOVED = Change((1, 0), (1, 0), (1, 0), start_at_line_end=False, adds_line_first=False)
"""A change of the text that moves nothing: other line ends."""
_MAIN = "__main__"
"""The name of a file's own block, which is no target of its text."""
_WORDS_OF_TARGETS = frozenset({"compile", "fuselight", PROVIDER, _MAIN})
"""A text without any of them compiles nothing, is no program, and has no directive, no ignore and no example inputs."""


def _shifted(good: Reading, changes: Iterable[Change]) -> Reading:
    """Return `good` with its targets where they are after `changes`."""
    targets = good.targets
    for change in changes:
        targets = tuple(there for target in targets if (there := _after(target, change)) is not None)
    return dataclasses.replace(good, targets=targets)


def _with_kept(good: Reading, reading: Reading, lines: list[bytes]) -> Reading:
    """Return `reading`, of `lines`, with the targets of `good` in its statements that do not parse."""
    imports = any(_IMPORT.match(lines[span.line - 1]) for span in reading.broken)
    sure = {
        (target.name, target.kind): target
        for target in reading.targets
        if not _overlap(target.span, reading.broken)
    }
    old = [
        target
        for target in good.targets
        if (
            (now := sure.get((target.name, target.kind))) is None
            and (imports or _overlap(target.span, reading.broken))
        )
        # Without an import's names what stands elsewhere cannot tell what compiles it.
        or (imports and now is not None and now.name_span == target.name_span)
    ]
    places = {(target.name, target.kind) for target in old}
    spans = tuple(target.span for target in old)
    new = [
        target
        for target in reading.targets
        if (target.name, target.kind) not in places
        and ((target.name, target.kind) in sure or not _overlap(target.name_span, spans))
    ]
    targets = sorted((*old, *new), key=lambda target: target.name_span.start)
    return dataclasses.replace(reading, targets=tuple(targets))


def _overlap(span: Span, others: tuple[Span, ...]) -> bool:
    return any(other.line <= span.last_line and span.line <= other.last_line for other in others)


def _after(target: StaticTarget, change: Change) -> StaticTarget | None:
    if change.start[0] > target.span.last_line + 1:
        return target
    name_end = (target.name_span.last_line, target.name_span.end_column or 0)
    spans_lines = change.start[0] < change.end[0]
    if spans_lines and change.start <= target.name_span.start and name_end <= change.end:
        return None  # the name itself is replaced
    span, name = moved(target.span, change), moved(target.name_span, change)
    line = moved(Span(target.span.path, target.def_line), change)
    if span is None or name is None or line is None:
        return None
    return dataclasses.replace(
        target,
        span=span.span,
        name_span=name.span,
        def_line=line.span.line,
        directives=tuple(_directives(target, change)),
    )


def _directives(target: StaticTarget, change: Change) -> Iterator[DirectiveLine]:
    for directive in target.directives:
        there = moved(Span(target.span.path, directive.line), change)
        if there is not None:
            yield dataclasses.replace(directive, line=there.span.line)


LARGE = 400_000
"""Bytes from which `read` leaves the event loop: smaller files take less than 20 ms even when read for the first time
in a quarter of their length."""


class SourceDocument:
    """One open file. All methods are for the event loop's thread; none blocks on a large file but `reading`."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.version = 0
        """Grows with each change of the text."""
        self._lines = lines_of(text)
        self._size = sum(map(len, self._lines))
        self._text: str | None = text
        self._cache = ReadingCache()
        self._reading: Reading | None = None
        self._good: Reading | None = None
        """The last reading of a text that parses, as a whole; its targets have moved with `_changes`."""
        self._changes: list[Change] = []
        """Edits since `_good`, those that it has moved with left out."""
        self._background: asyncio.Task[Reading] | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        if self._text is None:
            self._text = b"".join(self._lines).decode("utf-8", "surrogatepass")
        return self._text

    @property
    def line_count(self) -> int:
        """The number of lines, with the empty line after a final line end."""
        return len(self._lines)

    @property
    def is_large(self) -> bool:
        """Whether `reading` may take long enough to be felt: use `read`."""
        return self._size >= LARGE

    @property
    def is_read(self) -> bool:
        """Whether `reading` answers without being felt."""
        return self._reading is not None or not self.is_large

    def line_bytes(self, line: int) -> bytes:
        """The 1-based `line` in UTF-8 without its line end; empty beyond the last line."""
        return self._lines[line - 1].rstrip(b"\r\n") if 1 <= line <= len(self._lines) else b""

    def edit(self, start: Position, end: Position, text: str) -> Change:
        """Put `text` in the place of what is between `start` and `end`; places outside the text are moved into it."""
        start = self.clamp(start)
        end = max(start, self.clamp(end))
        new = _encoded(text)
        first, last = start[0] - 1, end[0] - 1
        start_at_line_end = len(self.line_bytes(start[0])) == start[1]
        before, after = self._lines[first][: start[1]], self._lines[last][end[1] :]
        if first > 0 and self._lines[first - 1].endswith(b"\r"):  # a \n may now follow it
            first -= 1
            before = self._lines[first] + before
        replaced = sum(map(len, self._lines[first : last + 1]))
        lines = split_lines(before + new + after)
        if last + 1 < len(self._lines) and len(lines) > 1 and not lines[-1]:
            lines.pop()  # the next line is there already
        self._lines[first : last + 1] = lines
        self._size += len(before) + len(new) + len(after) - replaced
        self._changed()
        completes = new.startswith(b"\n") and before.endswith(b"\r")  # one line end with what stands before
        adds_line_first = new[:1] in {b"\n", b"\r"} and not completes
        joins = (before + new).endswith(b"\r") and after.startswith(b"\n")  # one line end, not two
        grown = split_lines((before + new)[:-1] if joins else before + new)
        new_end = (first + len(grown), len(grown[-1]))
        start = min(start, new_end)  # a line end that stood before it may be half of another one now
        change = Change(start, end, new_end, start_at_line_end, adds_line_first=adds_line_first)
        if self._good is not None:
            self._changes.append(change)
        return change

    def replace(self, start: Position, end: Position, text: str) -> list[Change]:
        """Put `text` in the place of what is between `start` and `end`, editing only what differs."""
        start = self.clamp(start)
        end = max(start, self.clamp(end))
        old = self._between(start, end) if text and start != end else ""
        if old == text and (text or start == end):
            return []
        if not old or not text or _LONE_CR.search(old) or _LONE_CR.search(text):
            return [self.edit(start, end, text)]
        changes = []
        has_new_line_ends = False
        for replacement in replacements(old, text):
            first, last = _from(start, replacement.start), _from(start, replacement.end)
            if replacement.is_line_end:
                self._lines[first[0] - 1] = self.line_bytes(first[0]) + _encoded(replacement.text)
                has_new_line_ends = True
            else:
                changes.append(self.edit(first, last, replacement.text))
        if has_new_line_ends:
            self._size = sum(map(len, self._lines))
            self._changed()
            changes.append(_UNMOVED)
        return changes

    def become(self, text: str) -> list[Change]:
        """Edit what differs from `text`; nothing where it is the text already."""
        return self.replace((1, 0), (self.line_count, len(self.line_bytes(self.line_count))), text)

    def _between(self, start: Position, end: Position) -> str:
        lines = self._lines[start[0] - 1 : end[0]]
        lines[-1] = lines[-1][: end[1]]
        lines[0] = lines[0][start[1] :]
        return b"".join(lines).decode("utf-8", "surrogatepass")

    def reading(self) -> Reading:
        """The Reading of the text as it is now."""
        if self._reading is None:
            if self._background is not None and not self._background.done():
                reading = read_lines(self.path, self._lines, ReadingCache())  # the thread has the cache
                return self._kept(reading)
            self._take(read_lines(self.path, self._lines, self._cache))
        assert self._reading is not None  # noqa: S101 - taken just now
        return self._reading

    def _take(self, reading: Reading) -> None:
        """Let `reading`, of the text as it is, be the answer."""
        if reading.syntax_error is None:
            self._good, self._reading = reading, reading
            self._changes.clear()
        else:
            self._reading = self._kept(reading)

    def _kept(self, reading: Reading) -> Reading:
        if self._good is None or reading.syntax_error is None:
            return reading
        self._good = _shifted(self._good, self._changes)
        self._changes.clear()
        return _with_kept(self._good, reading, self._lines)

    async def read(self) -> Reading:
        """As `reading`, in another thread when the file is large. An edit during the read starts another one."""
        while self._reading is None and self.is_large:
            if self._background is None:
                self._background = asyncio.create_task(self._read_behind())
            try:
                await asyncio.shield(self._background)
            finally:
                if self._background is not None and self._background.done():
                    self._background = None
        return self.reading()

    async def _read_behind(self) -> Reading:
        version = self.version
        with _without_collection():
            reading = await asyncio.to_thread(read_lines, self.path, list(self._lines), self._cache)
            if gc.get_count()[0] > _MANY:
                gc.freeze()
        if version == self.version:
            self._take(reading)
        return reading

    def _changed(self) -> None:
        self.version += 1
        self._text = None
        self._reading = None

    def clamp(self, at: Position) -> Position:
        """`at`, moved into the text if it lies outside or within a character."""
        line, column = at
        if line < 1:
            return 1, 0
        if line > len(self._lines):
            return len(self._lines), len(self.line_bytes(len(self._lines)))
        data = self.line_bytes(line)
        column = min(max(column, 0), len(data))
        while 0 < column < len(data) and data[column] & 0xC0 == 0x80:  # noqa: PLR2004 - inside a UTF-8 sequence
            column -= 1
        return line, column


def _from(origin: Position, place: Place) -> Position:
    """The position of a place in the text that starts at `origin`."""
    row, column = place
    return origin[0] + row, column + (0 if row else origin[1])


def read_source(path: str, text: str) -> Reading:
    """Read `text` at once, for the command line."""
    return read_lines(path, lines_of(text), ReadingCache())


def read_sources(
    texts: Mapping[str, str], names: Iterable[str] = (), stop: Callable[[], bool] = lambda: False
) -> dict[str, Reading]:
    """Read every text, by its path. One that cannot have a target is only searched for syntax errors.

    `names`: targets that the user named. `stop` is asked after each file whether the rest is still wanted.
    """
    wanted = tuple(names)
    words = {name.rpartition(".")[2] for name in wanted} | _WORDS_OF_TARGETS
    readings: dict[str, Reading] = {}
    skipped: list[str] = []
    for path, text in texts.items():
        if stop():
            return readings
        if any(word in text for word in words) or may_not_parse(_encoded(text)):
            readings[path] = read_source(path, text)
        else:
            readings[path] = Reading(path)
            skipped.append(path)
    known = {_MAIN, *(target.name for reading in readings.values() for target in reading.targets)}
    if not known.issuperset(wanted):  # a similar name may be in the others
        for path in skipped:
            if stop():
                break
            readings[path] = read_source(path, texts[path])
    return readings


def lines_of(text: str) -> list[bytes]:
    """The lines of `text` in UTF-8."""
    return split_lines(_encoded(text))


def split_lines(data: bytes) -> list[bytes]:
    """Split into lines with their line ends. There is at least one: a final line end is followed by an empty line."""
    lines = data.splitlines(keepends=True)  # of bytes: at \n, \r\n and \r only
    if not lines or lines[-1][-1:] in {b"\n", b"\r"}:
        lines.append(b"")
    return lines


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_MANY = 10_000
"""Young objects, whose walk takes some 10 ms."""
_pauses = 0


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """No cyclic garbage collection inside the block.

    Facts have no cycles, and each walk over those of 50,000 lines took 100 ms and more, in which the event loop stood
    still. For the same reason they are frozen out of later collections.
    """
    global _pauses  # noqa: PLW0603 - the collector is the process's
    _pauses += 1
    gc.disable()
    try:
        yield
    finally:
        _pauses -= 1
        if _pauses == 0:
            gc.enable()

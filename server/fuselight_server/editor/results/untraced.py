"""Lines that no trace reached, faded in the editor.

Invariant: a line is faded only where a run left its function by a `return` without reaching it, no other run reached
it, and no line of the function was edited since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fuselight_server.base.finding import Span
from fuselight_server.base.formatting import format_target
from fuselight_server.editor.results.captures import CapturedFile, captured_files
from fuselight_server.editor.results.snapshot import Document, ResultsView
from fuselight_server.explain.findings.common.text import inputs_line

LISTED = 200
"""Ranges of faded lines in a file."""
_DEF = re.compile(rb"\s*(?:async\s+)?def\b")
_CLOSING = (b")", b"]", b"}")


def untraced_lines(view: ResultsView, path: str) -> list[tuple[Span, str]]:
    """Return the lines to fade, with the words that say why, of an open file whose settings ask for it."""
    document = view.document(path)
    if document is None or not document.runnable or not view.settings_of(path).fade_untraced:
        return []
    files = captured_files(view.captures.values(), path)
    missed = {id(captured_file): set(captured_file.file.untraced()) for captured_file in files}
    reasons: dict[int, str] = {}
    for file in files:
        for gap in _ranges(missed[id(file)]):
            reached = [missed[id(other)] for other in files if any(map(other.file.knows, gap))]
            lines = [line for line in gap if all(line in other for other in reached)]
            if lines and _has_its_function(file, document, lines[0]):
                reasons.update((line, _words(file)) for line in lines if line not in reasons)
    return [
        (Span(path, lines[0], end_line=lines[-1]), reasons[lines[0]])
        for lines in list(_ranges(_with_gaps(reasons, document)))[:LISTED]
    ]


def _words(traced: CapturedFile) -> str:
    report = traced.result.report
    inputs = traced.result.text_now(inputs_line(report.inputs))
    before = " before your last edit" if traced.result.stale else ""
    return f"not traced{before} with these inputs: {inputs or format_target(report.target.name)}"


def _ranges(lines: Iterable[int]) -> Iterator[list[int]]:
    """Yield the runs of consecutive lines."""
    actual_lines: list[int] = []
    for line in sorted(lines):
        if actual_lines and line != actual_lines[-1] + 1:
            yield actual_lines
            actual_lines = []
        actual_lines.append(line)
    if actual_lines:
        yield actual_lines


def _with_gaps(reasons: dict[int, str], document: Document) -> dict[int, str]:
    """Add the lines without code of their own below a faded line: closing brackets, and gaps up to the next one."""
    whole = dict(reasons)
    for line, words in reasons.items():
        last, below = line, line + 1
        while below not in reasons and below <= document.source.line_count and _is_rest(document, below):
            last = below if _closes(document, below) else last
            below += 1
        last = below - 1 if below in reasons else last
        whole.update((index, words) for index in range(line + 1, last + 1))
    return whole


def _is_rest(document: Document, line: int) -> bool:
    text = document.source.line_bytes(line).lstrip()
    return not text or text.startswith((b"#", *_CLOSING))


def _closes(document: Document, line: int) -> bool:
    return document.source.line_bytes(line).lstrip().startswith(_CLOSING)


def _has_its_function(traced: CapturedFile, document: Document, line: int) -> bool:
    """Whether the function around a line is as it ran."""
    depth = _depth(document, line)
    for first in range(line - 1, 0, -1):
        here = _depth(document, first)
        if depth is None or here is None or here >= depth:
            continue
        depth = here
        if _DEF.match(document.source.line_bytes(first)):
            return traced.file.is_whole(first, max(line, _end(document, first, depth)))
    return False


def _end(document: Document, first: int, depth: int) -> int:
    """Return the last line of the function that starts on a line."""
    last = first
    for line in range(first + 1, document.source.line_count + 1):
        here = _depth(document, line)
        if here is not None and here <= depth:
            break
        last = line if here is not None else last
    return last


def _depth(document: Document, line: int) -> int | None:
    """Return the indentation of a line; None for one that is empty, a comment, or the end of a bracket."""
    data = document.source.line_bytes(line)
    text = data.lstrip()
    return None if not text or text.startswith((b"#", *_CLOSING)) else len(data) - len(text)

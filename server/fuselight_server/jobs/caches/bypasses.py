"""Why torch cannot cache a compile, in plain words, on the line that has the cause, with its cure.

torch's reason is a text; each entry of `bypasses.json` knows one form of it, and the first that matches counts.
Invariant: a reason of no known form is shown as torch wrote it, without a cure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fuselight.shared.codec import read_table
from fuselight.shared.report import Location
from fuselight_server.jobs.caches.model import CacheCause, CauseKind, Cure, CureRewrite
from fuselight_server.jobs.trace_log.graphs import GraphLine, lines_of

ReadLine = Callable[[str, int], str | None]

_WITH_AUTOCAST = re.compile(r"^\s*(?:async\s+)?(?:with\b|@).*\bautocast\b")
_DEF = re.compile(r"^\s*(?:async\s+)?def\b")
_MAX_LINES_ABOVE = 60


@dataclass(frozen=True, slots=True)
class _Reason:
    """One form of torch's reasons."""

    pattern: str
    text: str
    """With the groups of the pattern as fields."""
    cure: Cure | None = None
    node: str | None = None
    """Regular expression for the operator in the graph that has the cause, with the pattern's groups as fields."""


_REASONS = read_table(tuple[_Reason, ...], __file__)


def bypass_cause(
    reason: str | None, exception: str | None, graph: str | None, read_line: ReadLine | None = None
) -> CacheCause:
    """The cause of a bypass.

    `graph`: Dynamo's, as printed; `read_line`: a line of the source that ran, where it is available.
    """
    text = (reason or "").strip()
    lines = [] if graph is None else list(lines_of(graph))
    for known in _REASONS:
        match = re.search(known.pattern, text)
        if match is None:
            continue
        groups = {name: (value or "").strip() for name, value in match.groupdict().items()}
        where = _location(known, groups, lines, read_line)
        cure = known.cure
        if cure is not None and cure.rewrite is CureRewrite.FUNCTION_KEY:
            cure = replace(cure, subject=f"{groups['module']}.{groups['name']}")
        return CacheCause(CauseKind.BYPASS, known.text.format(**groups), where, cure=cure, torch_reason=text)
    shown = " ".join(text.split())[:300] or exception or "torch gives no reason"
    return CacheCause(CauseKind.BYPASS, f"torch does not cache it: {shown}", torch_reason=text or None)


def _location(
    known: _Reason, groups: dict[str, str], lines: Sequence[GraphLine], read_line: ReadLine | None
) -> Location | None:
    if known.node is None:
        return None
    escaped = {name: re.escape(value) for name, value in groups.items()}
    node = re.compile(known.node.format(**escaped))
    index = next((number for number, line in enumerate(lines) if node.fullmatch(line.operator)), None)
    if index is None:
        return None
    if known.cure is not None and known.cure.rewrite is CureRewrite.AUTOCAST_OUTSIDE:
        return _autocast_location(lines, index, read_line)
    return lines[index].location


def _autocast_location(lines: Sequence[GraphLine], index: int, read_line: ReadLine | None) -> Location | None:
    """The `with` statement or decorator; without the source the first line under it.

    torch prints no line above the operator that enters autocast, so that the line above it is of another operator.
    """
    inside = next((line for line in lines[index + 1 :] if "autocast" not in line.operator), None)
    where = None if inside is None else inside.location
    if where is None or read_line is None:
        return where
    return _statement_above(where, read_line) or where


def _statement_above(where: Location, read_line: ReadLine) -> Location | None:
    """The statement that enters autocast around a line, by indentation; else a decorator of its function."""
    text = read_line(where.path, where.line)
    indent, is_above_def = 0 if text is None else _indent(text), False
    for number in range(where.line - 1, max(0, where.line - _MAX_LINES_ABOVE), -1):
        above = read_line(where.path, number)
        if above is None:
            return None
        is_decorator = above.lstrip().startswith("@")
        if not above.strip() or (not is_above_def and _indent(above) >= indent):
            continue
        if is_above_def and not is_decorator:
            return None
        if _WITH_AUTOCAST.match(above):
            return replace(where, line=number)
        indent, is_above_def = _indent(above), is_above_def or _DEF.match(above) is not None
    return None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())

"""What the expression at the cursor was while the last run traced it, as Markdown.

Invariant: a value is shown with the run that it comes from, and one from before an edit says so. Of captures with the
same answer, one is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.report import FactKind
from fuselight_server.features.markdown import code_span, plain
from fuselight_server.finding import Span
from fuselight_server.findings.fact_words import FactWords, format_times, side_of, variants
from fuselight_server.findings.text import inputs_line
from fuselight_server.formatting import format_count
from fuselight_server.results.captures import captured_files, knowing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.report import Branch, Fact
    from fuselight_server.findings.fact_words import SeenValue
    from fuselight_server.results.captures import CapturedFile, CaptureResult
    from fuselight_server.session.state import Document

LISTED = 3
"""Captures with different values for the same expression that a hover lists."""
_LONGEST = 60
"""Characters of an expression's text."""
_KINDS = {FactKind.NUMBER: "number ", FactKind.CONSTANT: "constant ", FactKind.MODULE: "module "}


@dataclass(frozen=True)
class ValuesAt:
    """What is known at a position."""

    parts: list[str]
    """One for each different answer."""
    span: Span | None
    """Of the expression."""


def values_at(results: Iterable[CaptureResult], document: Document, line: int, column: int) -> ValuesAt:
    """Say what the smallest expression at a position was, for each capture that traced it."""
    found: dict[str, str] = {}
    place: Span | None = None
    for traced in knowing(captured_files(results, document.path), line):
        fact, branch = traced.file.fact_at(line, column), traced.file.branch_at(line, column)
        texts = [] if fact is None else [fact_text(traced, fact, document)]
        texts += [] if branch is None else [branch_text(branch, document)]
        said = "\n\n".join(text for text in texts if text)
        if said and said not in found and len(found) < LISTED:
            found[said] = source_line(traced)
            place = place or _span(document.path, fact or branch)
    return ValuesAt([f"{said}\n\n{source}" for said, source in found.items()], place)


def fact_text(traced: CapturedFile, fact: Fact, document: Document) -> str:
    """Say what an expression was: `y`: `f32[2, 8]` (cpu, 4 times)."""
    values = FactWords(traced.result.report.facts).values(fact)
    if not values:
        return ""
    name = code_span(expression_text(fact, document))
    if len(values) == 1 and not fact.omitted:
        return f"{name}: {_value(values[0])}"
    lines = [f"- {_value(one)}" for one in values]
    if fact.omitted:
        lines.append(f"- and {format_count(fact.omitted, 'more value')}")
    return "\n".join([f"{name}: {variants(fact, values)}", "", *lines])


def _value(one: SeenValue) -> str:
    details = [*one.details, *([one.times] if one.times else [])]
    end = f" ({plain(', '.join(details))})" if details else ""
    return f"{_KINDS.get(one.value.kind, '')}{code_span(one.value.text)}{end}"


def branch_text(branch: Branch, document: Document) -> str:
    """Say which side of a condition was traced; empty where both were."""
    side = side_of(branch)
    if not side:
        return ""
    name, times = code_span(expression_text(branch, document)), format_times(branch.true + branch.false)
    return f"The condition {name} was {side} ({times}): its other side was never traced."


def source_line(traced: CapturedFile) -> str:
    """Name the run of a value, and say if it is from before an edit."""
    report = traced.result.report
    source = (report.target.name or "__main__", inputs_line(report.inputs))
    words = f"*{report.tier.value}: {'; '.join(plain(part) for part in source if part)}*"
    return f"{words} *(from before your last edit)*" if traced.result.stale else words


def expression_text(one: Fact | Branch, document: Document) -> str:
    """Return the text of an expression, shortened, on one line."""
    first = document.source.line_bytes(one.line)
    end = one.end_column if one.end_line == one.line else len(first)
    text = first[one.column : end].decode("utf-8", "replace").strip()
    if one.end_line > one.line:
        text += " ..."
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _span(path: str, one: Fact | Branch | None) -> Span | None:
    return None if one is None else Span(path, one.line, one.column, one.end_line, one.end_column)

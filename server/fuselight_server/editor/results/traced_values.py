"""What the expression at the cursor was while the last run traced it, as Markdown.

Invariant: a value is shown with the run that it comes from, and one from before an edit says so. Of captures with the
same answer, one is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Fact, FactKind
from fuselight_server.base.finding import Span
from fuselight_server.base.formatting import format_count, format_target
from fuselight_server.base.markdown import code_span, plain
from fuselight_server.editor.results.captures import CapturedFile, CaptureResult, captured_files, knowing
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.explain.findings.common.fact_words import FactWords, SeenValue, variants
from fuselight_server.explain.findings.common.text import inputs_line
from fuselight_server.explain.findings.conditions import OneSided, one_sided

LISTED = 3
"""Captures with different values for the same expression that a hover lists."""
_LONGEST = 60
"""Characters of an expression's text."""
_SYMBOL = re.compile(r"\b[su]\d+\b(?!\[)")
"""A size or a number of torch's that varies, as `s27`; `u8[4]` is a dtype."""
_MAX_SYMBOLS = 3
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
    actual_texts: dict[str, str] = {}
    place: Span | None = None
    for traced in knowing(captured_files(results, document.path), line):
        fact, condition = traced.file.fact_at(line, column), _condition_at(traced, document, line, column)
        texts = [] if fact is None else [fact_text(traced, fact, document)]
        texts += [] if condition is None else [_condition_text(condition, document)]
        text = "\n\n".join(text for text in texts if text)
        if text and text not in actual_texts and len(actual_texts) < LISTED:
            actual_texts[text] = source_line(traced)
            if place is None and fact is not None:
                place = _span(fact, document)
            elif place is None and condition is not None:
                place = condition.span
    return ValuesAt([f"{name}\n\n{source}" for name, source in actual_texts.items()], place)


def fact_text(traced: CapturedFile, fact: Fact, document: Document) -> str:
    """Say what an expression was: `y`: `f32[2, 8]` (cpu, 4 times)."""
    values = FactWords(traced.result.report.facts).values(fact)
    if not values:
        return ""
    name = code_span(_text(_span(fact, document), document))
    if len(values) == 1 and not fact.omitted:
        return f"{name}: {_value(values[0])}{_symbols(values)}"
    lines = [f"- {_value(value)}" for value in values]
    if fact.omitted:
        lines.append(f"- and {format_count(fact.omitted, 'more value')}")
    return "\n".join([f"{name}: {variants(fact, values)}", "", *lines]) + _symbols(values)


def _value(value: SeenValue) -> str:
    details = [*value.details, *([value.times] if value.times else [])]
    end = f" ({plain(', '.join(details))})" if details else ""
    return f"{_KINDS.get(value.value.kind, '')}{code_span(value.value.text)}{end}"


def _symbols(values: Sequence[SeenValue]) -> str:
    """Explain torch's names of sizes and numbers that vary, as a paragraph: `s27` is no word of the user's code."""
    kinds = (FactKind.TENSOR, FactKind.CONTAINER, FactKind.NUMBER)
    texts = " ".join(value.value.text for value in values if value.value.kind in kinds)
    names = sorted(set(_SYMBOL.findall(texts)))
    messages = [
        f"{code_span(name)} is dynamic: the compiled code takes more than one value"
        if name.startswith("s")
        else f"{code_span(name)} is known only when the compiled code runs"
        for name in names[:_MAX_SYMBOLS]
    ]
    return f"\n\n{'; '.join(messages)}." if messages else ""


def _condition_at(traced: CapturedFile, document: Document, line: int, column: int) -> OneSided | None:
    """Return the smallest condition at a position, if one of its sides was never traced."""
    known = (
        one_sided(branch, document.path, lambda _, number: document.line(number))
        for branch in traced.file.branches_on(line)
    )
    conditions = [
        condition for condition in known if condition is not None and condition.span.covers(line, column)
    ]
    return min(
        conditions,
        key=lambda condition: (condition.span.end_line or 0, condition.span.end_column or 0),
        default=None,
    )


def _condition_text(condition: OneSided, document: Document) -> str:
    name = code_span(_text(condition.span, document))
    return f"The condition {name} was {condition.words}: its other side was never traced."


def source_line(traced: CapturedFile) -> str:
    """Name the run of a value, and say if it is from before an edit."""
    report = traced.result.report
    source = (format_target(report.target.name), traced.result.text_now(inputs_line(report.inputs)))
    words = f"*{report.tier.value}: {'; '.join(plain(part) for part in source if part)}*"
    return f"{words} *(from before your last edit)*" if traced.result.stale else words


def _text(span: Span, document: Document) -> str:
    """Return the text of an expression, shortened, on one line."""
    first = document.source.line_bytes(span.line)
    end = span.end_column if span.end_line == span.line else len(first)
    text = first[span.column : end].decode("utf-8", "replace").strip()
    text += " ..." if span.end_line != span.line else ""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _span(fact: Fact, document: Document) -> Span:
    return Span(document.path, fact.line, fact.column, fact.end_line, fact.end_column)

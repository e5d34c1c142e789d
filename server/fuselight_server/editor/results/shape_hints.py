"""The shapes of the last run in the text, after the names that assignments bind and after calls.

Invariant: a line that was edited has no hint. A hint never says more than what was traced.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.foreign_data import try_parse_expression
from fuselight.shared.report import Fact, FactKind, TracedValue
from fuselight_server.editor.results.captures import CapturedFile
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.results.traced_values import fact_text, source_line
from fuselight_server.explain.findings.common.fact_words import FactWords, holds_tensor

_LONGEST = 48
"""Characters of a hint; its tooltip has the rest."""
_CONTAINER = re.compile(r"(\w+) of \d+: (.*)")
_FROM_A_SHAPE = re.compile(r"\.(?:shape|size)\b")
_ANNOTATED = re.compile(rb"\s*:(?!=)")
_AFTER = re.compile(rb"\s*(?:#|$)")


@dataclass(frozen=True)
class ShapeHint:
    """A hint, and where it stands."""

    line: int
    column: int
    """In UTF-8 bytes."""
    label: str
    tooltip: str
    """In Markdown."""


class ShapeHints:
    """Makes the hints of one document."""

    def __init__(self, document: Document, *, with_calls: bool) -> None:
        """`with_calls`: whether calls have hints, too."""
        self._document = document
        self._with_calls = with_calls
        self._words: dict[int, FactWords] = {}

    def of_line(self, files: list[CapturedFile], line: int) -> Iterator[ShapeHint]:
        """Yield the hints of the expressions that start on a line."""
        facts_by_place: dict[tuple[int, int, int, bool], list[tuple[CapturedFile, Fact]]] = {}
        for traced in files:
            for fact in traced.file.starting_on(line):
                place = (fact.column, fact.end_line, fact.end_column, fact.assigned)
                facts_by_place.setdefault(place, []).append((traced, fact))
        assigned = set()
        for seen in facts_by_place.values():
            if seen[0][1].assigned:
                text = self._label(seen)
                if text and self._is_shown(seen):
                    assigned.add(text)
                    yield self._hint(seen, text)
        if not self._with_calls:
            return
        for seen in facts_by_place.values():
            fact = seen[0][1]
            if fact.assigned or not self._is_call(fact) or not any(map(holds_tensor, self._values(seen))):
                continue
            text = self._label(seen)
            if text and not (text in assigned and _AFTER.match(self._after(fact))):
                yield self._hint(seen, text)

    def _values(self, seen: list[tuple[CapturedFile, Fact]]) -> list[TracedValue]:
        """Return the values of an expression in every capture, each once."""
        traced_values: dict[str, TracedValue] = {}
        for traced, fact in seen:
            words = self._words.setdefault(id(traced), FactWords(traced.result.report.facts))
            for value in words.values(fact):
                traced_values.setdefault(value.value.text, value.value)
        return list(traced_values.values())

    def _label(self, seen: list[tuple[CapturedFile, Fact]]) -> str:
        """Return `f32[2, 8]`, or `f32[2, 8] +2` where the expression had other values, too."""
        values = self._values(seen)
        if not values:
            return ""
        text = _short(values[0])
        more = len(values) - 1 + max(fact.omitted for _, fact in seen)
        end = f" +{more}" if more else ""
        return (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…") + end

    def _is_shown(self, seen: list[tuple[CapturedFile, Fact]]) -> bool:
        """Whether a name is worth a hint: a tensor, something with tensors, a size, or a number that a graph computes.

        A number that was constant in some compile is the data of one run.
        """
        values, fact = self._values(seen), seen[0][1]
        if any(map(holds_tensor, values)):
            return True
        is_number = [value.kind is FactKind.NUMBER for value in values]
        is_size = [value.text.startswith("Size of") or value.text.isdecimal() for value in values]
        if not all(map(operator.or_, is_number, is_size)):
            return False
        return any(is_number) or bool(_FROM_A_SHAPE.search(self._after(fact).decode("utf-8", "replace")))

    def _after(self, fact: Fact) -> bytes:
        """Return what follows an expression on its last line."""
        return self._document.source.line_bytes(fact.end_line)[fact.end_column :]

    def _is_call(self, fact: Fact) -> bool:
        lines = [self._document.source.line_bytes(line) for line in range(fact.line, fact.end_line + 1)]
        lines[-1] = lines[-1][: fact.end_column]
        lines[0] = lines[0][fact.column :]
        if not lines[-1].endswith(b")"):
            return False
        return isinstance(try_parse_expression(b"(" + b"\n".join(lines) + b")"), ast.Call)

    def _hint(self, seen: list[tuple[CapturedFile, Fact]], text: str) -> ShapeHint:
        _, fact = seen[0]
        label = text if not fact.assigned or _ANNOTATED.match(self._after(fact)) else f": {text}"
        lines = [
            f"{fact_text(traced, fact, self._document)}\n\n{source_line(traced)}" for traced, fact in seen
        ]
        return ShapeHint(fact.end_line, fact.end_column, label, "\n\n---\n\n".join(dict.fromkeys(lines)))


def _short(value: TracedValue) -> str:
    """Return `tuple(f32[2, 8], f32[8, 2])` for a container, and the text of any other value."""
    match = _CONTAINER.fullmatch(value.text) if value.kind is FactKind.CONTAINER else None
    return value.text if match is None else f"{match[1]}({match[2]})"

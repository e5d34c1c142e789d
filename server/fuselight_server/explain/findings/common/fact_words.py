"""Facts of traced expressions in words: `bf16[4, 12, 512, 64]` on cuda:0, 12 times.

Invariant: everything said was recorded. What was not counted is `at least`, and a missing property is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fuselight.shared.report import Fact, FactKind, TracedFacts, TracedValue
from fuselight_server.base.formatting import format_count

_FLOATING = re.compile(r"(?:f|bf|c)\d")
"""The dtypes that can require a gradient."""
_STRIDES = {"strided": "not contiguous"}


@dataclass(frozen=True)
class SeenValue:
    """One value of an expression."""

    value: TracedValue
    details: tuple[str, ...]
    """Device, strides if not contiguous, gradient if unusual."""
    count: int

    @property
    def times(self) -> str:
        """`12 times`; empty for once."""
        return format_times(self.count) if self.count > 1 else ""


class FactWords:
    """The words for the facts of one report."""

    def __init__(self, facts: TracedFacts) -> None:
        """Find out which tensors of the report are unusual."""
        self._facts = facts
        self._requires_grad = _usual_gradient(facts)

    def values(self, fact: Fact) -> list[SeenValue]:
        """Return the values of an expression, the most frequent one first."""
        table = self._facts.values
        return [
            SeenValue(table[index], self._details(table[index]), count)
            for index, count in fact.values
            if 0 <= index < len(table)
        ]

    def _details(self, value: TracedValue) -> tuple[str, ...]:
        if value.kind is not FactKind.TENSOR:
            return ()
        details = [value.device] if value.device else []
        if value.strides not in {None, "contiguous"}:
            details.append(_STRIDES.get(value.strides or "", value.strides or ""))
        is_unusual = self._requires_grad is not None and value.requires_grad is (not self._requires_grad)
        if is_unusual and _FLOATING.match(value.text):
            details.append("requires grad" if value.requires_grad else "no gradient")
        return tuple(details)


def _usual_gradient(facts: TracedFacts) -> bool | None:
    """Whether most floating tensors require a gradient; None where as many do as do not."""
    grads = [
        value.requires_grad
        for value in facts.values
        if value.kind is FactKind.TENSOR and value.requires_grad is not None and _FLOATING.match(value.text)
    ]
    required = sum(grads)
    return None if 2 * required == len(grads) else 2 * required > len(grads)


def format_times(count: int) -> str:
    """`once`, `12 times`."""
    return "once" if count == 1 else format_count(count, "time")


def variants(fact: Fact, values: list[SeenValue]) -> str:
    """`12 times, 2 shapes`, `at least 14 times, 13 values`: how often it was seen, and in how many variants."""
    total = sum(value.count for value in values)
    number = len(values) + fact.omitted
    are_tensors = all(value.value.kind is FactKind.TENSOR for value in values)
    shapes = {value.value.text for value in values}
    noun = "shape" if are_tensors and not fact.omitted and len(shapes) == number else "value"
    return f"{'at least ' if fact.omitted else ''}{format_times(total)}, {format_count(number, noun)}"


def holds_tensor(value: TracedValue) -> bool:
    """Whether a value is a tensor, or a container with one among its first items."""
    return value.kind is FactKind.TENSOR or (value.kind is FactKind.CONTAINER and "[" in value.text)

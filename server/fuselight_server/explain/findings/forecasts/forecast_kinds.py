"""The table of kinds of change: how each is grouped, named, priced and remedied. A new kind is one entry here.

Its question is asked in `capture/dynamo/forecast.py`, and its change is made in `capture/calls/changed_calls.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuselight.shared.report import ChangeKind, Forecast
from fuselight_server.base.formatting import format_list
from fuselight_server.explain.findings.advice.expectations import ONE_WITH_GRADIENTS
from fuselight_server.explain.findings.forecasts.forecast_remedies import (
    Advice,
    always,
    attribute_remedies,
    before_the_call,
    dtype_remedies,
    number_remedies,
    size_remedies,
)

_NAMED = 3
"""Names that one entry spells out."""
_LONGEST_VALUE = 30


class ChangeScope(enum.Enum):
    """Which changes of code are one change of the call."""

    MODE = "mode"
    """The surroundings of the call: all functions have the same. They compile nearly every function again."""
    DIMENSION = "dimension"
    """Sizes in one dimension of tensors of a function."""
    TENSORS = "tensors"
    """All tensors of a function that have the same."""
    VARIABLE = "variable"
    """One variable."""


@dataclass(frozen=True)
class NamedChange:
    """A change and the user's names for it."""

    change: Forecast
    noun: str
    """`the batch`, `n`: what changes."""
    subject: tuple[str, ...]
    is_alone: bool
    """Whether no other change has the same reason."""

    @property
    def values(self) -> str:
        """`6 → 5`."""
        return f"{_cut(self.change.was)} → {_cut(self.change.now)}"


@dataclass(frozen=True)
class ForecastKind:
    """What differs between the kinds of change."""

    scope: ChangeScope
    phrase: Callable[[NamedChange], tuple[str, str]]
    """What changes, and the names and values."""
    remedies: Callable[[Advice], tuple[str, ...]]
    """What to do, the best first."""
    noun: str = "{}"
    """What changes, with the names in place of the braces."""
    is_of_data: bool = False
    """Whether a lens names it: it depends on the code whether such a change compiles again."""
    is_python_value: bool = False
    """Whether it is an argument that is no tensor."""
    crosses_breaks: bool = False
    """Whether it is the same before and after a graph break."""
    differs_by_values: bool = False
    """Whether changes between other values have another reason."""
    has_tensor_guard: bool = False
    """Whether the guard on a tensor names the property that changes."""
    state: str = ""
    """What the guard is about, if it has no expression: `grad mode`."""
    has_second_value: bool = False
    """Whether a further value can be made from the first two, to try whether each value compiles."""
    smallest: int | None = None
    """The smallest such value."""
    each: str = "value"
    """What such a change has another of."""


def names_text(subject: Sequence[str]) -> str:
    """`x`, `x and y`, `x, y and 3 more`."""
    more = len(subject) - _NAMED
    return format_list(subject if more <= 0 else [*subject[: _NAMED - 1], f"{more + 1} more"])


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}\N{HORIZONTAL ELLIPSIS}"


def _size(named: NamedChange, verbs: tuple[str, str] = ("changes", "change")) -> tuple[str, str]:
    """`verbs`: those of one size and of several."""
    names = names_text(named.subject)
    has_names = named.noun == names
    verb = verbs[has_names and len(named.subject) > 1]
    return f"{named.noun} {verb}", named.values if has_names else f"{names}: {named.values}"


def _size_one(named: NamedChange) -> tuple[str, str]:
    return _size(named, ("is 1", "are 1"))


def _dtype(named: NamedChange) -> tuple[str, str]:
    return f"the dtype of {named.noun} changes", named.values


def _strides(named: NamedChange) -> tuple[str, str]:
    return f"the memory layout of {named.noun} changes", named.values


def _requires_grad(named: NamedChange) -> tuple[str, str]:
    verb = "require" if len(named.subject) > 1 else "requires"
    return f"{named.noun} {verb} {'a gradient' if named.change.now == 'True' else 'no gradient'}", ""


def _training(named: NamedChange) -> tuple[str, str]:
    return f"{named.change.was} to {named.change.now}", ""


def _grad_mode(named: NamedChange) -> tuple[str, str]:
    return f"grad mode is turned {named.change.now}", ""


def _autocast(named: NamedChange) -> tuple[str, str]:
    return f"autocast is turned {named.change.now}", ""


def _value(named: NamedChange) -> tuple[str, str]:
    verb = "change" if len(named.subject) > 1 else "changes"
    return f"{named.noun} {verb}", named.values if named.is_alone else ""


def _length(named: NamedChange) -> tuple[str, str]:
    return f"{named.noun} changes", named.values if named.is_alone else ""


KINDS: dict[ChangeKind, ForecastKind] = {
    ChangeKind.SIZE: ForecastKind(
        ChangeScope.DIMENSION,
        _size,
        size_remedies,
        is_of_data=True,
        has_second_value=True,
        smallest=2,  # torch compiles sizes of 0 and 1 separately
        each="size",
    ),
    ChangeKind.NUMBER: ForecastKind(
        ChangeScope.VARIABLE,
        _value,
        number_remedies,
        is_of_data=True,
        is_python_value=True,
        has_second_value=True,
    ),
    ChangeKind.SIZE_ONE: ForecastKind(ChangeScope.DIMENSION, _size_one, size_remedies),
    ChangeKind.STRIDES: ForecastKind(
        ChangeScope.VARIABLE,
        _strides,
        before_the_call("Pass one memory layout: `{0}.contiguous()` before the call"),
        differs_by_values=True,
        each="layout",
    ),
    ChangeKind.REQUIRES_GRAD: ForecastKind(
        ChangeScope.TENSORS,
        _requires_grad,
        always(ONE_WITH_GRADIENTS),
        has_tensor_guard=True,
    ),
    ChangeKind.TRAINING: ForecastKind(
        ChangeScope.MODE,
        _training,
        always("Expect one compile each for train() and eval(); switch between epochs, not in each step"),
        crosses_breaks=True,
    ),
    ChangeKind.GRAD_MODE: ForecastKind(
        ChangeScope.MODE,
        _grad_mode,
        always("Call it under torch.no_grad() always or never, where you can: each mode needs a compile"),
        crosses_breaks=True,
        state="grad mode",
    ),
    ChangeKind.AUTOCAST: ForecastKind(
        ChangeScope.MODE,
        _autocast,
        always("Make all calls inside the same torch.autocast, or all outside: each state needs a compile"),
        crosses_breaks=True,
        state="autocast",
    ),
    ChangeKind.VALUE: ForecastKind(
        ChangeScope.VARIABLE,
        _value,
        always(
            "Choose between two functions outside the compiled code, or accept one compile for each value"
        ),
        is_python_value=True,
    ),
    ChangeKind.LENGTH: ForecastKind(
        ChangeScope.VARIABLE,
        _length,
        before_the_call("Stack the items into one tensor, or pad to a fixed length: `torch.stack({0})`"),
        noun="the length of {}",
        is_of_data=True,
        is_python_value=True,
        each="length",
    ),
    ChangeKind.ATTRIBUTE: ForecastKind(
        ChangeScope.VARIABLE,
        _value,
        attribute_remedies,
        is_of_data=True,
        crosses_breaks=True,
        has_second_value=True,
    ),
    ChangeKind.DTYPE: ForecastKind(
        ChangeScope.TENSORS,
        _dtype,
        dtype_remedies,
        differs_by_values=True,
        has_tensor_guard=True,
        each="dtype",
    ),
}
"""The kinds in the order in which changes are listed."""
RANKS = {kind: number for number, kind in enumerate(KINDS)}

"""Which changes of its inputs, attributes or modes would compile a function again, asked of the guards of its compiles.

Invariant: nothing is predicted: each entry is the answer of the guards that a real call would be checked against.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from fuselight.shared.report.place import LineNumber, Location, Stack


class ChangeKind(str, enum.Enum):
    """What changes between the recorded call and the next one."""

    SIZE = "size"
    """A size of one or more tensors, to another number greater than 1."""
    SIZE_ONE = "size_one"
    """A size that becomes 1."""
    DTYPE = "dtype"
    STRIDES = "strides"
    REQUIRES_GRAD = "requires_grad"
    TRAINING = "training"
    GRAD_MODE = "grad_mode"
    AUTOCAST = "autocast"
    NUMBER = "number"
    """An int or float argument."""
    VALUE = "value"
    """A bool, a string or None."""
    LENGTH = "length"
    """One more item in a list or a tuple."""
    ATTRIBUTE = "attribute"
    """An attribute or a global variable that holds a number, a bool or a string."""


@dataclass(frozen=True)
class CallChange:
    """One change of a call, which can be made."""

    kind: ChangeKind
    subject: tuple[str, ...]
    """As in Forecast: `x.size(0)`."""
    now: str

    @property
    def text(self) -> str:
        """`x.size(0) = 5`."""
        return f"{', '.join(self.subject) or self.kind.value} = {self.now}"


@dataclass(frozen=True)
class TriedValue:
    """A call with another value, made after the recorded calls and those with the values before it."""

    value: str
    compiles: int
    """Functions, and parts of functions, that it compiled."""
    raised: str = ""
    """The class of the exception that ended it."""


@dataclass(frozen=True)
class Forecast:
    """One change, and whether the function is compiled again for it."""

    kind: ChangeKind
    subject: tuple[str, ...]
    """What changes, in source terms: `x.size(0)` and `mask.size(0)`; empty for a mode."""
    was: str
    now: str
    recompiles: bool
    is_likely: bool = True
    """Whether programs often make such a change: a smaller last batch, another sequence length, evaluation."""
    repeats: bool = False
    """Whether each further value compiles once more, up to the limit; else one more compile serves them all."""
    source: str = ""
    """The guarded expression in source terms, if it recompiles; empty for global state."""
    guard: str = ""
    """The guard that fails, as torch prints it."""
    condition: str = ""
    """The same with the names of the function that a wrapper calls; empty if no wrapper passes the arguments on."""
    born: Stack = ()
    """The line that created this guard, outermost frame first."""
    is_loop_count: bool = False
    """Whether it decides how often a loop of the function runs, as a number in `range(n)` or a size in
    `range(x.size(1))`.
    """
    tried: tuple[TriedValue, ...] = ()
    """What calls with this value and further ones did, in their order; empty if they were not made."""


@dataclass(frozen=True)
class FrameForecast:
    """The forecasts of one compiled function."""

    function: str
    location: Location
    """Its `def` line."""
    compiles: int
    """Compiled versions that it has now."""
    limit: int
    """The recompile limit: after so many versions it runs in eager mode."""
    changes: tuple[Forecast, ...] = ()
    """The likely ones first."""
    resumes_at: LineNumber | None = None
    """For the part of a function after a graph break: the line of the break. Its changes are of its own variables."""

"""What a small program that shows a fault of torch.compile is made of: captured graphs without their values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from fuselight.shared.report.place import Location

MARK = "torch.compile is wrong: "
"""How the last words of a program begin that shows a fault."""


@dataclass(frozen=True)
class TensorTraits:
    """What is known of a tensor besides its values. The numbers are rounded to two digits."""

    dtype: str
    """As `float32`."""
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    device: str = "cpu"
    """Type of the device."""
    requires_grad: bool = False
    low: float = 0.0
    """The least of the finite elements."""
    high: float = 1.0
    nan: bool = False
    """Whether an element is NaN."""
    infinite: bool = False
    negative_infinite: bool = False
    is_counting: bool = False
    """Whether it holds 0, 1, 2 and so on."""
    values: str = ""
    """All elements as Python text, if they were asked for."""


@dataclass(frozen=True)
class RecordedNode:
    """One line of a captured graph as Python."""

    name: str
    """What it assigns, as `v_12_`: each such word in `code` is the name of another node or input."""
    code: str
    """An expression, or a statement that assigns nothing."""
    uses: tuple[str, ...] = ()
    is_statement: bool = False
    foreign: str = ""
    """What it calls that is not of torch: a custom operator or a function of the program; empty if there is none."""
    location: Location | None = None
    """The user's line."""


@dataclass(frozen=True)
class RecordedGraph:
    """A captured graph that Python can run with torch alone."""

    inputs: tuple[str, ...] = ()
    nodes: tuple[RecordedNode, ...] = ()
    outputs: tuple[str, ...] = ()
    """Names of the tensors among what it returns."""
    traits: dict[str, TensorTraits] = field(default_factory=dict)
    """Of inputs and of the tensors that nodes return, by name."""
    grad: bool = False
    """Whether gradients were recorded."""
    unprintable: str = ""
    """Why there are no nodes; empty if there are."""
    error: str = ""
    """What compiling it raised: type and first line; empty if it compiled."""


class ScriptState(str, enum.Enum):
    """What a program shows."""

    FAULT = "fault"
    """It ended with exit status 1 and the words that say so."""
    RIGHT = "right"
    ROUNDING = "rounding"
    """Eager mode moves as far if its operators round the other way."""
    ERROR = "error"
    """It raised something else, or did not end."""


@dataclass(frozen=True)
class ScriptOutcome:
    """One run of a program."""

    state: ScriptState
    text: str = ""
    """The last words of the program, or the exception."""
    differing: tuple[int, ...] = ()
    """Which of the compared tensors differ, if the run could look at them."""
    printed: str = ""
    """What it printed, of a run in a process of its own."""


@dataclass(frozen=True)
class Reproduction:
    """Parts of a small program, or one run of it."""

    graphs: tuple[RecordedGraph, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    """What the program gives to torch.compile besides the backend, as Python text; `options.NAME` for each option."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of torch that the program changes and that can be written down: name to Python text."""
    replaced: tuple[str, ...] = ()
    """Settings of torch that hold a function of the program, which no other program has."""
    outcome: ScriptOutcome | None = None
    """Of a run of a program."""

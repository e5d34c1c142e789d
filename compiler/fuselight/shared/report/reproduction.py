"""What a small program that shows a fault of torch.compile is made of: captured graphs without their values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from fuselight.shared.report.place import Location

MARK = "torch.compile is wrong: "
"""How the last words of a program begin that shows a fault."""
TIMEOUT = "Timeout ("
"""How the words of `faulthandler` begin that ends a program which takes too long."""

UNLESS_EAGER = 'if sys.argv[1:] != ["eager"]:'
"""The line of a program of source below which it compiles; without it, it runs in eager mode."""


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


@dataclass(frozen=True)
class CodeSearch:
    """Which frame of Dynamo is recorded: the first whose compile fails, if nothing else is given."""

    broken_at: Location | None = None
    """The line of a graph break."""
    reason: str = ""
    """The first line of its reason."""
    hang_seconds: float = 0.0
    """A compile that takes longer is recorded as one that does not end; 0 for no limit."""


@dataclass(frozen=True)
class RecordedCode:
    """A call that Dynamo traces, as Python that imports torch and the standard library alone."""

    definitions: str = ""
    """Imports, classes, functions, and the values of the call."""
    function: str = ""
    """The name of what is compiled."""
    arguments: str = ""
    """Of its call, as Python text."""
    error: str = ""
    """What the compile raised, or the graph break: type and first line; empty if it did not end."""
    missing: tuple[str, ...] = ()
    """Kinds of values that cannot be written down and are None here."""
    unprintable: str = ""
    """Why there is no text; empty if there is."""


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
    place: str = ""
    """The function of torch that raised what the program shows, if the run could look at it."""
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
    """Parts of torch's compiler that the program replaces by functions of its own, which no other program has."""
    codes: tuple[RecordedCode, ...] = ()
    """The call whose trace fails, breaks or does not end, is last; before it are the calls in it that lead there, the
    innermost first."""
    outcome: ScriptOutcome | None = None
    """Of a run of a program."""

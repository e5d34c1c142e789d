"""The comparison of a changed text with the text before the change, by running both.

Invariant: a comparison that was not made is not listed, and `Verification.refused` says why there are none.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from fuselight.shared.report.place import LineNumber

ONE_SIDE = "the other side was not compared"
"""How a note ends that says that a branch, now a torch.where, took the same side in all calls."""
SCALAR = "without dimensions"
"""How the name of a case ends whose inputs have no dimensions."""
OTHER_ORDER = "prints the same lines in another order"
"""The text of such a difference."""


class Aspect(str, enum.Enum):
    """A part of what a call does."""

    OUTPUT = "output"
    """Values that the call returns."""
    GRADIENT = "gradient"
    STATE = "state"
    """Inputs, parameters, buffers, attributes of modules and globals of the file that the call changes."""
    RANDOM = "random"
    """The state of the random number generators after the call."""
    PRINTED = "printed"
    """Text on the standard streams."""
    STRUCTURE = "structure"
    """Which values there are, with their dtypes and shapes."""
    MEMORY = "memory"
    """Which inputs, parameters and buffers an output shares its memory with."""
    STRIDES = "strides"
    """How the elements of an output lie in memory."""
    EXCEPTION = "exception"
    UNUSED_GRADIENT = "unused gradient"
    """Whether what a call does not use has no gradient or zeros."""
    TIME = "time"
    """Whether the call ends, or takes far longer."""
    KIND = "kind"
    """Whether an attribute is a number or a tensor."""


class CaseFamily(str, enum.Enum):
    """What a further call of a verification varies."""

    RECORDED = "recorded"
    """Nothing but the values: the calls that the inputs give."""
    SIZE = "size"
    GRADIENTS = "gradients"
    SECOND = "second gradients"
    """Gradients of gradients, which no code that AOTAutograd compiles has."""
    FROZEN = "frozen"
    """Parameters that require no gradient."""
    HOOKS = "hooks"
    """Parameters whose gradients a hook changes."""
    MODE = "mode"
    """Training or evaluation."""
    REPEATED = "repeated"
    """Calls that follow each other on one object."""
    VALUES = "values"
    """Ordinary values: zeros, negative numbers, masks."""
    OPTION = "option"
    """Numbers and flags among the arguments, and parameters that have a default."""
    CONSTRUCTOR = "constructor"
    """Other arguments of the constructors that the changed code depends on."""
    ATTRIBUTE = "attribute"
    """Other values of attributes and globals that no constructor takes, and of defaults of functions."""
    EMPTY = "empty"
    DTYPE = "dtype"
    NONFINITE = "nonfinite"
    LAYOUT = "layout"
    RANK = "rank"
    """Another number of dimensions."""
    EXTREME = "extreme"
    """Values near the limits of a dtype."""


@dataclass(frozen=True)
class Difference:
    """The first difference of one aspect."""

    aspect: Aspect
    text: str
    """In words: `output: element [0, 3] was 0.5, is 0.7`."""
    rounding: bool = False
    """Whether rounding explains it: by the tolerance of the dtype, or by how far compiling moves the old text."""


@dataclass(frozen=True)
class CallComparison:
    """One call of the new text, compared with the same call of the old text."""

    call: int
    """Index in `Inputs.calls`."""
    values: str
    """`recorded inputs`, `other values 1`, `NaN`, `infinity`, ..."""
    compiled: bool
    """Whether the new text ran compiled."""
    differences: tuple[Difference, ...] = ()
    family: CaseFamily = CaseFamily.RECORDED


@dataclass(frozen=True)
class LinesRun:
    """What ran of a changed file."""

    path: str
    lines: tuple[LineNumber, ...]
    """1-based, sorted."""


@dataclass(frozen=True)
class Verification:
    """All comparisons of one changed text."""

    comparisons: tuple[CallComparison, ...] = ()
    refused: str = ""
    """Why nothing can be compared: random results, state that stays between calls, no inputs; empty if it can."""
    notes: tuple[str, ...] = ()
    """What was not compared, and why."""
    not_accepted: tuple[str, ...] = ()
    """Further calls that raise an exception before the change and raise it after it, too."""
    not_reached: tuple[str, ...] = ()
    """Further calls that did not end in time."""
    reached: int = 0
    """How many further calls are done, in their order; the next round starts with the one after them."""
    left: tuple[str, ...] = ()
    """Those after them; empty after the last round."""
    lines_run: tuple[LinesRun, ...] = ()
    """Of each changed file, the lines that ran in eager mode to build the text and to call it; empty: not known."""
    old_lines_run: tuple[LinesRun, ...] = ()
    """The same of the text before the change."""

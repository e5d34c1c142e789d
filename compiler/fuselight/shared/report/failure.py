"""A failure that ended a run, or a part of it, its culprit, and the text of the exception.

Invariant: the text of an exception is bounded and never raises, whatever user code does in `__str__`; no character of
it acts on a terminal or an editor.
"""

from __future__ import annotations

import enum
import traceback
from dataclasses import dataclass
from typing import Any

from fuselight.shared.report.place import LineNumber, Location, Stack
from fuselight.shared.report.visible import visible

LONGEST = 20_000
"""Maximum characters kept of an exception's text, and of a traceback."""
_MAX_NOTES = 10
"""Notes kept of an exception (`add_note`)."""
_NOTE = 500
"""Characters kept of each."""
_str, _getitem = str, str.__getitem__  # bound before user code can replace them


class Culprit(str, enum.Enum):
    """The side that failed: determines the message and the next step that the user gets."""

    USER = "user"
    COMPILER = "compiler"
    FUSELIGHT = "fuselight"
    ENVIRONMENT = "environment"


@dataclass(frozen=True)
class EagerHandler:
    """The `except`, `finally` or `with` that ends in eager mode an exception that left compiled code."""

    location: Location
    """Its line, and the function that it is in."""
    text: str
    """As `except IndexError`."""
    exception: str
    """Type name of what eager mode raises."""
    is_compiled: bool
    """Whether the handler is in compiled code; if not, it does not catch what compiled code raises."""
    catches_outside: bool
    """Whether the same handler around the call of the compiled function would catch what compiled code raises."""
    is_tried: bool
    """Whether eager mode was tried: the captured graph ran in it and raised, or the call was made without a compile."""


@dataclass(frozen=True)
class TensorHolder:
    """A name of the user's code that keeps tensors in memory."""

    name: str
    """As the code writes it: `kept`, `self.last`."""
    kind: str
    """`variable` for one tensor; `list`, `dict`, ... for a container; of a module `parameters`, with its buffers, and
    `gradients`; `optimizer` for its state."""
    bytes: int
    """Of its tensors, and of what their backward needs."""
    tensors: int
    scope: str = ""
    """The function whose variable it is, or the class whose attribute; empty for a name of a module."""
    location: Location | None = None
    """The line that fills the container or binds the name, if there is one such line."""
    graph: int = 0
    """Bytes of `bytes` that only the backward of its tensors needs."""


@dataclass(frozen=True)
class Failure:
    """The failure that ended the run, or one call of it."""

    culprit: Culprit
    kind: str
    """Stable word: `exception`, `import`, `fullgraph`, `backend`, `exit`, `signal`, `timeout`, `memory`,
    `inputs`, `internal`,
    `no_torch`, `old_torch`, `platform`, `descriptors`, `damaged_answer`, `machine`."""
    message: str
    """One line."""
    next_step: str = ""
    exception: str | None = None
    """Type name, as `ValueError`."""
    stack: Stack = ()
    """User and third-party frames, outermost first."""
    traceback: str = ""
    gb_id: str | None = None
    explanation: str = ""
    """What torch says of the graph break that is the cause."""
    hints: tuple[str, ...] = ()
    """Those of torch."""
    context: str = ""
    """Torch's, for developers."""
    call: int | None = None
    phase: str | None = None
    directive_line: LineNumber | None = None
    """For `inputs`: the directive's line; its columns are in `stack[-1]`."""
    is_caught: bool = False
    """Whether the program went on after it: the logs of a job have such errors, a run reports none."""
    handler: EagerHandler | None = None
    """Where eager mode goes on after the exception, and compiled code does not."""
    holders: tuple[TensorHolder, ...] = ()
    """For `memory`: the names that held most bytes of tensors then, where the process could still tell; each tensor
    once."""


_NO_MEMORY_WORDS = ("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory")
"""In the message of torch's RuntimeError: its allocator of the CPU has no type of its own."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether there was no memory for what the code asked for, of the CPU or of a GPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(words in safe_text(error) for words in _NO_MEMORY_WORDS)


def safe_text(value: Any, limit: int = LONGEST) -> str:
    """Return the start of `str(value)`, or a message if that raises."""
    try:
        text = _str(value)
        return visible(_getitem(text, slice(0, limit)))[:limit]  # a plain str, of a subclass too
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        return f"<{type(value).__name__}.__str__ raised {type(error).__name__}>"


def first_line(error: BaseException, limit: int = 1000) -> str:
    """Return the first nonblank line of an exception's text."""
    return next(iter(safe_text(error).strip().splitlines()), "").strip()[:limit]


def root_line(error: BaseException, limit: int = 1000) -> str:
    """Return the type and the first line of an exception; of torch's wrapper around another one, of that one."""
    root = getattr(error, "inner_exception", None) or error
    return f"{type(root).__name__}: {first_line(root)}"[:limit]


def traceback_text(error: BaseException) -> str:
    """Return the traceback with its causes; of a long text, the end of the traceback and the start of the text."""
    exception = traceback.TracebackException(type(error), error, error.__traceback__)
    seen: set[int] = set()
    chain: list[Any] = [exception]
    while chain:
        value = chain.pop()
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        text = getattr(value, "_str", None)
        if isinstance(text, str) and len(text) > LONGEST // 2:
            value._str = f"{text[: LONGEST // 2]}..."  # noqa: SLF001 - before it formats all of it
        notes = getattr(value, "__notes__", None)
        if isinstance(notes, (list, tuple)):
            value.__notes__ = [
                f"{note[:_NOTE]}..." if len(note) > _NOTE else note
                for note in notes[:_MAX_NOTES]
                if isinstance(note, str)
            ]
        chain += [value.__cause__, value.__context__, *(getattr(value, "exceptions", None) or ())]
    return visible("".join(exception.format())[-LONGEST:])[-LONGEST:]

"""TorchDynamo's work on the target: frames, graphs, breaks, guards, recompilations, and frames that run in eager mode.

Invariant: attempts are listed as Dynamo made them; none are merged.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from fuselight.shared.report.place import LineNumber, Location, Stack


@dataclass(frozen=True)
class Graph:
    """One FX graph that Dynamo captured."""

    operators: int
    """call_function, call_method and call_module nodes."""
    text_key: str | None = None
    """Readable source of the graph module, in `Report.texts`."""
    lines: tuple[tuple[Location, ...], ...] = ()
    """Per operator, in order, its user stack (outermost first); empty where torch kept none."""
    targets: tuple[str, ...] = ()
    """Per operator, in order, the name of what it calls, as `torch.nn.functional.linear`."""
    numbers: tuple[int, ...] = ()
    """Indices of the operators whose result is a number or sizes, and no tensor."""
    inputs: tuple[str, ...] = ()
    """Per placeholder: `name: f32[4, s0]`."""


@dataclass(frozen=True)
class Guard:
    """One guard of a compiled frame."""

    kind: str
    """Dynamo's name: TENSOR_MATCH, CONSTANT_MATCH, SHAPE_ENV, ..."""
    source: str
    """The checked expression in source terms: `self.scale`, `x`; empty for global state."""
    code: tuple[str, ...]
    """The expressions, as Dynamo prints them."""
    born: Stack = ()
    """The read that created the guard, outermost frame first; empty if there is none."""
    is_numpy_number: bool = False
    """Whether the value is a number of NumPy, which compiled code has as a tensor without dimensions."""


@dataclass(frozen=True)
class GuardPlace:
    """A place whose reads created guards: `stack` holds the frames under `Report.roots`, else the outermost one."""

    stack: Stack
    count: int


@dataclass(frozen=True)
class Symbol:
    """A symbolic size or int of a compile, and its outcome."""

    name: str
    """`s0`."""
    source: str
    """`L['x'].size()[0]` in source terms: `x.size(0)`."""
    hint: str | None = None
    range: str | None = None
    specialized_to: str | None = None
    """The value to which it was fixed, or None if it stayed symbolic."""
    marked: bool = False
    """Whether the user marked it as dynamic (`mark_dynamic`, `dynamic=True`)."""
    reason: str | None = None
    stack: Stack = ()
    """The line that specialized it."""
    is_default: bool = False
    """Whether it is of a parameter's default, or of an attribute of one, in a function that the code calls."""


class Outcome(str, enum.Enum):
    """How one attempt to compile a frame ended."""

    COMPILED = "compiled"
    EMPTY = "empty"
    """Nothing to compile: no tensor operators."""
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class Mode:
    """A mode or a setting of torch that was not at its default when a function was compiled."""

    name: str
    """`grad mode`, `autocast`, ..., or a setting's full name: `torch._inductor.config.max_autotune`."""
    value: str
    default: str
    stack: Stack = ()
    """Where it got this value, outermost frame first: the line, or the `def` line of a function that a decorator gives
    the mode. Empty if that is not known."""


@dataclass(frozen=True)
class Compile:
    """One compile of one frame: at most one graph and its guards."""

    id: str
    """Dynamo's compile id without the attempt: `1/0`; `[k/1/0]` keeps its brackets."""
    frame: int
    """Index in `Report.frames`."""
    outcome: Outcome
    call: int | None = None
    """The call of `Inputs.calls` during which it happened."""
    graph: Graph | None = None
    guards: tuple[Guard, ...] = ()
    """Guards that a user can act on come first; bounded for a big model: `guard_count` is the total."""
    guard_count: int | None = None
    guard_places: tuple[GuardPlace, ...] = ()
    """Sources of the guards, those with the most guards first; counts all guards, also those that `guards` omits."""
    guard_us: float | None = None
    """Measured latency of one full guard check, microseconds."""
    symbols: tuple[Symbol, ...] = ()
    seconds: float | None = None
    restarts: tuple[str, ...] = ()
    caller: Stack = ()
    """Python stack above the compiled frame, user frames only, outermost first. In a thread that runs none of the
    user's code, the line that gave the function to torch.compile."""
    makes_dynamic: bool | None = None
    """Whether torch makes a size dynamic that changed between calls; dynamic=False and a setting forbid it."""
    modes: tuple[Mode, ...] = ()
    """Those that are not at their default; recorded of a rank of a world alone."""
    own_limit: int | None = None
    """The versions of the function that `recompile_limit` of its torch.compile allows; None: the setting of torch."""


@dataclass(frozen=True)
class Frame:
    """One code object that Dynamo processed. Resume functions have the name of the function that they resume."""

    function: str
    """Qualified name of the user's function."""
    location: Location
    """Its `def` line."""
    resumes_at: LineNumber | None = None
    """The line where a resume function continues, None for the function itself."""
    parameters: tuple[str, ...] = ()
    """Names of the user's function's parameters, `*args` and `**kwargs` among them without their stars."""
    wrapper: Location | None = None
    """The `def` line of the code object itself, if that is a library's wrapper and the frame is shown as the function
    that it wraps."""
    wraps: Location | None = None
    """The `def` line of the function that a decorator of the user's passes its arguments to: `parameters` are those of
    that function."""
    carried: int | None = None
    """How many values on Python's stack a resume function takes over: the last one is what the break computed."""


@dataclass(frozen=True)
class Break:
    """One graph break, as Dynamo raised it. One entry per frame, attempt and compile; none are merged."""

    compile_id: str
    ids: tuple[str | None, ...]
    """GB ids: the cause first, then the errors while handling it. None for a type without an id."""
    types: tuple[str, ...]
    """`gb_type` of each of `ids`."""
    stack: Stack
    """Traced frames, outermost first; the last is the line that broke."""
    above: Stack = ()
    """Python frames above the traced ones, user and third-party frames only, outermost first."""
    reason: str = ""
    """The message of the cause; the first line is the summary."""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    """Developer context, as Dynamo gives it."""
    frame_function: str | None = None
    frame_line: LineNumber | None = None
    """First line of the root frame's code object."""
    call: int | None = None
    frame_skipped: bool = False
    """Whether the whole frame runs in eager mode because of this break."""
    operators: int | None = None
    """Operators traced into the frame's graph before it broke; they run in eager mode if the frame was skipped."""
    rest_from: LineNumber | None = None
    """The line of the frame from which on it runs in eager mode, because torch cannot resume it after this break."""
    in_thread: bool = False
    """Whether another thread than the main one compiled."""


def add_break(breaks: list[Break], new: Break) -> None:
    """Append a break; one that keeps torch from resuming after the last one, in the same place, belongs to that."""
    last = breaks[-1] if breaks else None
    is_same = last is not None and (last.compile_id, last.stack) == (new.compile_id, new.stack)
    if last is None or not is_same or new.ids[:1] == last.ids[:1]:
        breaks.append(new)
    else:
        breaks[-1] = replace(
            last,
            ids=(*last.ids, *new.ids),
            types=(*last.types, *new.types),
            frame_skipped=last.frame_skipped or new.frame_skipped,
            rest_from=last.rest_from if new.rest_from is None else new.rest_from,
        )


class GuardCause(str, enum.Enum):
    """What differed between the call and the cache entry."""

    DIMENSION = "dimension"
    RANK = "rank"
    DTYPE = "dtype"
    DEVICE = "device"
    REQUIRES_GRAD = "requires_grad"
    STRIDE = "stride"
    DISPATCH = "dispatch"
    NUMBER = "number"
    VALUE = "value"
    NONE = "none"
    TYPE = "type"
    CLASS = "class"
    """A class of the same name that was created again, as one that is defined in a function."""
    LENGTH = "length"
    KEYS = "keys"
    OBJECT = "object"
    TRAINING = "training"
    GLOBAL_STATE = "global_state"
    ALIASING = "aliasing"
    RELATION = "relation"
    MISSING = "missing"
    ARGUMENTS = "arguments"
    """The `*args` or `**kwargs` of a library's wrapper around the function."""
    WRAPPED = "wrapped"
    """A wrapper, as that of a decorator, was compiled for another function than the one that it was called for."""
    BACKEND = "backend"
    DELETED = "deleted"
    OTHER = "other"


class StaticSizes(str, enum.Enum):
    """Why torch keeps the sizes of a tensor static."""

    STATE = "state"
    """It is a Parameter or a module's buffer."""
    MARKED = "marked"
    """The program called mark_static."""


@dataclass(frozen=True)
class SizeChange:
    """A size of a tensor that differs between the call and the cache entry."""

    name: str
    """The tensor, in source terms."""
    dimension: int
    was: int
    now: int


@dataclass(frozen=True)
class GuardFailure:
    """One guard of a cache entry that the new call did not pass."""

    kind: str
    source: str
    """In source terms; empty for global state and aliasing."""
    code: str
    """The failing expression as Dynamo prints it."""
    difference: str
    """`x.size(0) was 4, now 7`; if the values are unknown, the checked condition."""
    was: str | None = None
    now: str | None = None
    """Both are those of the first difference."""
    born: Stack = ()
    cause: GuardCause = GuardCause.OTHER
    """Of the first difference."""
    sizes: tuple[SizeChange, ...] = ()
    """All sizes that differ, if both values are known."""
    count: int = 1
    """Differences: one guard checks the dtype, device, sizes and strides of a tensor."""
    static: StaticSizes | None = None
    """Why torch makes no size of the tensor dynamic; None if it can."""
    defined: Location | None = None
    """The `class` line of a class that was created again."""
    dropped: Stack = ()
    """Where the guarded object was freed, outermost frame first; empty unless the compiled code was dropped."""
    expression: str = ""
    """The guarded value in torch's terms, as `L['self'].limit`; empty where `source` is."""
    is_new_state: bool = False
    """Whether an optimizer had no such state when it was compiled, and its first step has created it since."""


@dataclass(frozen=True)
class Mismatch:
    """One cache entry against the new call."""

    compile_id: str
    failures: tuple[GuardFailure, ...]
    other_object: bool = False
    """Whether `self`, or the compiled module, is another object than the one that the entry was compiled for."""


@dataclass(frozen=True)
class Recompile:
    """A frame compiled again. `entries` are all cache entries, the nearest (smallest difference) first."""

    function: str
    location: Location
    """The frame's `def` line."""
    entries: tuple[Mismatch, ...]
    compile_id: str | None = None
    """The compile that followed, None if the limit stopped it."""
    caller: Stack = ()
    """Python stack above the frame, user frames only: its last entry passed the new value."""
    call: int | None = None
    reasons: tuple[str, ...] = ()
    """torch's original strings."""


class NotCompiledKind(str, enum.Enum):
    """Why a frame runs in eager mode."""

    SKIPPED = "skipped"
    GENERATOR = "generator"
    DISABLED = "disabled"
    RECOMPILE_LIMIT = "recompile_limit"
    ACCUMULATED_LIMIT = "accumulated_recompile_limit"
    COMPILER_ERROR = "compiler_error"
    """`suppress_errors`: the compiler failed and torch continued in eager mode."""
    NO_TENSORS = "no_tensors"


@dataclass(frozen=True)
class NotCompiled:
    """A frame that runs entirely in eager mode."""

    kind: NotCompiledKind
    function: str
    location: Location
    reason: str
    stack: Stack = ()
    """Where this was decided, if not at the `def` line."""
    gb_id: str | None = None
    caller: Stack = ()
    call: int | None = None
    wrapper: Location | None = None
    """As `Frame.wrapper`."""
    rest_from: LineNumber | None = None
    """The line from which on the frame runs in eager mode; None: all of it."""
    in_thread: bool = False
    """As `Break.in_thread`."""


class UnseenKind(str, enum.Enum):
    """What compiled code does not follow."""

    HOOK = "hook"
    """A hook that a module got after the compile."""
    GLOBAL_HOOK = "global_hook"
    """A hook of all modules."""
    METHOD = "method"
    """A method that was replaced in its class."""
    VARIABLE = "variable"
    """An environment variable that the trace read, and on which torch has no guard."""
    KEY = "key"
    """An object with which a dict or a set is looked up, and on which torch has no guard."""
    IDENTITY = "identity"
    """A comparison of two objects by `is`: torch has no guard that they are different."""
    LOST_ADDITION = "lost_addition"
    """A line adds to a set or a dict in eager mode, and not in compiled code."""
    LOST_REMOVAL = "lost_removal"
    """A line removes from a set or a dict in eager mode, and not in compiled code."""
    LOST_ORDER = "lost_order"
    """A line changes the order of a dict in eager mode, and not in compiled code."""
    LOST_DRAW = "lost_draw"
    """A line draws the next number of a `random.Random` in eager mode, and the same one in each compiled call."""


@dataclass(frozen=True)
class UnseenChange:
    """A change that compiled code does not follow, because torch has no guard on it, or that it does not make."""

    kind: UnseenKind
    what: str
    """The class of the module, the method as `Net.forward`, the variable, the object of a lookup as `self.mode`, a
    comparison as `a is b`, the container as `self.seen`, or the generator as `self.rng`; empty for a hook of all
    modules."""
    function: str
    """The compiled function."""
    location: Location
    """Its `def` line."""
    stack: Stack = ()
    """Where the hook was registered, the variable was read or the container is changed, outermost frame first, or the
    `def` line of the new method."""
    registration: str = ""
    """`register_forward_hook`; empty for all else."""
    is_removed: bool = False
    """Whether the program removes the hook again, as code does that registers it for some of its calls."""

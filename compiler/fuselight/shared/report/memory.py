"""The memory that a call, or a training step, of the target needs: estimated on fake tensors."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from fuselight.shared.report.place import Location


class MemoryUse(str, enum.Enum):
    """What a tensor is to the step."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    """Of a module, as the running mean of a norm."""
    INPUT = "input"
    OUTPUT = "output"
    """What the call returns, and the loss."""
    SAVED = "saved"
    """Made by the forward and alive when the backward begins: the backward needs it, or the program holds it."""
    GRADIENT = "gradient"
    """Of a parameter."""
    OPTIMIZER = "optimizer"
    """State of the optimizer."""
    TEMPORARY = "temporary"
    INSIDE = "inside"
    """Memory that an operator allocates and frees itself, by a table of measured operators."""
    LIBRARY = "library"
    """The workspace that cuBLAS keeps, by a table of measured devices."""
    HELD = "held"
    """Nothing of the step needs it any more, or it was made by an earlier step, and a name of the program keeps it."""
    OTHER = "other"
    """Measured: what was allocated before the step beside all of these, as workspaces of libraries."""


class StepPhase(str, enum.Enum):
    """A part of a training step; a call for inference is all forward."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


@dataclass(frozen=True)
class HeldMemory:
    """The tensors of one kind that one line made."""

    use: MemoryUse
    bytes: int
    tensors: int
    """How many storages."""
    location: Location | None
    """The user's line that made them: of the forward, also for what its backward makes. None for what was before."""
    holder: str = ""
    """For `held`: the name that keeps them, as the code writes it: `self.last`."""


@dataclass(frozen=True)
class HolderGrowth:
    """A name that holds more bytes after each call of the target, or after each step of a program."""

    name: str
    """As the code writes it: `losses`."""
    kind: str
    """Type name of the container: `list`."""
    scope: str
    """The function whose variable it is, or the class whose attribute; empty for a name of a module."""
    bytes: int
    """More than after the call before, with what the backward of its tensors needs."""
    location: Location | None
    """The line that fills it, if there is one such line."""


@dataclass(frozen=True)
class ModuleMemory:
    """The tensors of one kind that one module of the target owns or made."""

    module: str
    """Its qualified name, as `blocks.0.mlp`; empty for the target itself, and for what no module made."""
    use: MemoryUse
    bytes: int
    tensors: int


@dataclass(frozen=True)
class MemoryCurve:
    """How much of one kind is allocated during the step."""

    use: MemoryUse
    bytes: tuple[int, ...]
    """At each point of the timeline."""


@dataclass(frozen=True)
class MemoryTimeline:
    """What is allocated from the begin of the step to its end: of each of its parts, the moment with most bytes."""

    phases: tuple[StepPhase, ...]
    """Of each point."""
    curves: tuple[MemoryCurve, ...]
    """One for each kind, without what libraries keep; in the order of `MemoryUse`."""
    peak: int
    """The index of the point with most bytes."""


@dataclass(frozen=True)
class MemoryPeak:
    """The moment of a step at which most memory is allocated."""

    bytes: int
    before: int
    """Bytes that are allocated before the step: parameters, buffers, state of the optimizer, inputs."""
    phase: StepPhase
    operator: str
    """As `aten.mm.default`; empty if nothing is allocated in the step."""
    location: Location | None
    """The line whose operator it is."""
    held: tuple[HeldMemory, ...] = ()
    """All that is allocated then, most bytes first: the sum is `bytes`."""
    saved: tuple[HeldMemory, ...] = ()
    """What lines of the forward keep for the backward, most bytes first; empty for inference."""
    modules: tuple[ModuleMemory, ...] = ()
    """`held` by module in place of by line, most bytes first: the sum is the same."""
    timeline: MemoryTimeline | None = None
    extrapolated: str = ""
    """What was estimated in place of the whole target, as "2, 3 and 4 of the 24 blocks of `layers`"; then `modules` has
    all blocks as one, `layers.*`, and there is no timeline. Empty: the whole."""


@dataclass(frozen=True)
class MeasuredMemory:
    """The same moment of a step that ran on a present device, by its allocator."""

    bytes: int
    """Of tensors, at the peak."""
    before: int
    """Bytes that were allocated before the step."""
    held: tuple[HeldMemory, ...] = ()
    """All that is allocated at the peak, most bytes first: the sum is `bytes`. Each use as in an estimate."""
    reserved: int | None = None
    """Bytes that the allocator had of the driver, at most; None on a CPU, whose allocator keeps none."""
    between_tensors: int | None = None
    """Fragmentation: bytes at the end of the step in segments with tensors that are not allocated; None on a CPU."""


class MemoryChange(str, enum.Enum):
    """What compiling does with the values of a line."""

    FUSED = "fused"
    """No buffer is allocated for them: each is computed within the kernel that reads it."""
    RECOMPUTED = "recomputed"
    """They are computed again in the backward, in place of being saved."""
    REUSED = "reused"
    """They are written into the memory of a value that is not needed any more."""
    DONATED = "donated"
    """The backward writes into the memory of a value that was saved for it."""
    PASSED = "passed"
    """They leave one graph for code after it, at a graph break or between parts that are compiled separately."""
    PADDED = "padded"
    """Their rows are longer than the values in them, so that they are aligned."""


@dataclass(frozen=True)
class ChangedMemory:
    """A line whose memory compiling changes."""

    location: Location
    change: MemoryChange


OF_GRAPH = "graph of "
"""How the holder begins of what a name keeps only by autograd's graph of its tensors."""


class SavingKind(str, enum.Enum):
    """What is changed."""

    BUDGET = "budget"
    """The setting `torch._functorch.config.activation_memory_budget`, of compiled code."""
    CHECKPOINT = "checkpoint"
    """`torch.utils.checkpoint` around the calls of modules of a class."""
    SELECTIVE = "selective"
    """The same with a selective policy: results of multiplications and of attention are kept, others computed again."""
    SETTING = "setting"
    """Another setting of torch, of compiled code."""


@dataclass(frozen=True)
class MemorySaving:
    """A change that would need less memory in training, tried on fake tensors."""

    kind: SavingKind
    name: str
    """The budget, as `0.6`; the class of the modules and their names, as `Block (blocks.0, blocks.1)`; a setting with
    its value, as `torch._functorch.config.donated_buffer = True`."""
    eager: int | None = None
    """Bytes at the peak in eager mode; None where that was not tried, as for a setting of the compiler."""
    compiled: int | None = None
    """Bytes at the peak of compiled code; None where that was not tried or cannot be."""
    saved: int = 0
    """Bytes that the forward keeps for the backward: compiled code for a budget, eager mode for modules."""
    recomputed: int = 0
    """Operators that are computed a second time in a step."""
    multiplications: int = 0
    """Of these, multiplications of matrices and attention."""
    us: float = 0.0
    """The estimated microseconds of what is computed again: for a budget of the multiplications alone, as others are
    mostly fused."""
    location: Location | None = None
    """The line that calls the first of the modules."""
    calls: tuple[Location, ...] = ()
    """The calls of the modules that lines of the user's code make themselves, each once; with columns where Python has
    them."""
    why_not: str = ""
    """Why a peak is missing."""


class EditKind(str, enum.Enum):
    """What a change of the source does."""

    CHECKPOINT = "checkpoint"
    """A module is called by `torch.utils.checkpoint`."""
    NARROW = "narrow"
    """A conversion to a wider dtype is left out."""
    CHUNKED_LOSS = "chunked_loss"
    """The logits of a part of the tokens exist at a time."""
    IN_PLACE = "in_place"
    """An activation writes into its argument."""
    UNREAD_OUTPUT = "unread_output"
    """No name keeps an output that nothing reads."""
    GRAPH_BREAK = "graph_break"
    """A graph break is removed, which kept values of one graph for the next."""
    NO_CHECKPOINT = "no_checkpoint"
    """A call is made without `torch.utils.checkpoint`: it needs no more, and computes nothing again."""


class EditResults(str, enum.Enum):
    """How the results with a change relate to those without it."""

    SAME = "same"
    CHANGE = "change"
    UNKNOWN = "unknown"
    """They could not be compared."""


@dataclass(frozen=True)
class TriedEdit:
    """A change of the source that needs less: the step was estimated with the new text."""

    kind: EditKind
    title: str
    """What it does: `checkpoint `part(x)``."""
    location: Location
    """The line that changes."""
    results: EditResults
    words: str
    """How the results were compared, or why they were not."""
    eager: int | None = None
    """Bytes at the peak in eager mode with it."""
    compiled: int | None = None
    """Bytes at the peak of compiled code with it."""
    diff: str = ""
    """Unified, with the absolute path of the file."""


@dataclass(frozen=True)
class MemoryEstimate:
    """What one call of the target needs."""

    call: str
    """In directive notation."""
    training: bool
    """Whether the backward ran, and the optimizer if there is one."""
    optimizer: str = ""
    """`adamw`; empty without one."""
    batch: int | None = None
    """The first size of the inputs, where the request names it in place of the directive's."""
    rank: int | None = None
    """The rank of the world that the target runs in; None without one."""
    eager: MemoryPeak | None = None
    compiled: MemoryPeak | None = None
    """With the wrapper that Inductor generates for the device."""
    why_not_eager: str = ""
    """Why there is no estimate of eager mode."""
    why_not_compiled: str = ""
    least_eager: int | None = None
    """Bytes at the peak with the smallest sizes, where sizes depend on data; the peak is with the largest."""
    least_compiled: int | None = None
    measured_eager: MeasuredMemory | None = None
    """The step in eager mode on a present device, if requested."""
    measured_compiled: MeasuredMemory | None = None
    why_not_measured: str = ""
    """Why a requested measurement is missing."""
    savings: tuple[MemorySaving, ...] = ()
    """What was tried to need less, if requested: the points of the budget that differ, from the highest on, then
    modules, those first that save most for what they compute again."""
    untried: tuple[str, ...] = ()
    """Changes for which the time did not suffice, by name."""
    edits: tuple[TriedEdit, ...] = ()
    """Changes of the source that were tried and need less, if requested: the lowest peak first."""
    growth: tuple[HolderGrowth, ...] = ()
    """Names that hold more from call to call, in eager mode, the most bytes first."""
    changes: tuple[ChangedMemory, ...] = ()
    """What the compiled form does with lines that is known from its graphs and wrappers."""

"""What Inductor generated for a device: kernels in launch order, where they come from and what they move.

Invariant: an estimate is in a field that says so; a time that was measured is never in this module's types. A kernel
is known by (compile id, phase, name, launch): names repeat across graphs.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from fuselight.report.place import Location, Stack


class Phase(str, enum.Enum):
    """Which graph of AOTAutograd a kernel belongs to."""

    INFERENCE = "inference"
    FORWARD = "forward"
    BACKWARD = "backward"


class KernelKind(str, enum.Enum):
    """Who wrote a kernel."""

    TRITON = "triton"
    CPP = "cpp"
    TEMPLATE = "template"
    """From one of Inductor's templates, as a fused matrix multiplication."""
    USER_TRITON = "user_triton"
    """A Triton kernel of the user's."""
    EXTERN = "extern"
    """A library's, as cuBLAS: Inductor calls it for the operator."""
    FALLBACK = "fallback"
    """ATen's own, since Inductor has no lowering for the operator."""


@dataclass(frozen=True)
class FusedOperator:
    """One operator that went into a kernel."""

    name: str
    """As it stood before Inductor lowered it: `aten.addmm.default`, `prims.convert_element_type.default`."""
    original: str = ""
    """The ATen operator of the captured graph that it was decomposed from, empty where it is the same."""
    stack: Stack = ()
    """The user's and libraries' frames, outermost first. That of the forward operator, for a backward one."""


@dataclass(frozen=True)
class Kernel:
    """One launch of one kernel."""

    name: str
    kind: KernelKind
    launch: int
    """Position among the launches of its graph, from 0."""
    text_key: str | None = None
    """Its source, in `Report.texts`; None for a library's."""
    call: str = ""
    """The line of the wrapper that launches it."""
    wrapper_line: int | None = None
    """1-based line of that in `GeneratedGraph.text_key`."""
    operators: tuple[FusedOperator, ...] = ()
    bytes_read: int | None = None
    """From device memory, each buffer counted once: what it must move at least."""
    bytes_written: int | None = None
    flops: int | None = None
    """Floating-point operations of its matrix multiplications, convolutions and attention; None where it has none."""
    dtype: str | None = None
    """What it mostly computes in: `f32`, `tf32`, `bf16`, ..."""
    estimate_us: float | None = None
    """How long it is likely to take on the device, at the parts of its rates that kernels reach: microseconds."""
    bound: str | None = None
    """What most of that goes to: `memory`, `compute` or `launch`."""
    candidates: tuple[str, ...] = ()
    """Where a GPU decides between implementations by timing them: what it would try (`max_autotune`, padding)."""
    copies: bool = False
    """Whether it only moves: each value that it stores is one that it loaded, unchanged."""


@dataclass(frozen=True)
class Refusal:
    """Inductor considered to fuse two kernels, and did not."""

    reason: str
    """torch's own words."""
    first: Stack
    second: Stack
    count: int = 1


@dataclass(frozen=True)
class CudagraphSkip:
    """Why a graph, or a part of it, is not replayed as a CUDA graph."""

    reason: str
    stack: Stack = ()


@dataclass(frozen=True)
class SavedTensor:
    """One tensor that the forward graph keeps for the backward graph."""

    name: str
    kind: str
    """`activation`, `input` (a parameter or an input of the target: kept anyway), `carried` (an input of the graph
    that the target has made itself before) or `symbol` (a size)."""
    dtype: str = ""
    shape: tuple[str, ...] = ()
    bytes: int = 0
    """Of its storage, counted at the first tensor that shares it; 0 for later ones, and for views of an input."""
    stack: Stack = ()


@dataclass(frozen=True)
class Recomputed:
    """One operator that the backward graph computes again rather than that its result is kept."""

    name: str
    """Of the node, the same in both graphs."""
    operator: str
    stack: Stack = ()
    """The forward line."""


@dataclass(frozen=True)
class Handed:
    """One tensor that a graph is given and that the graph before it has made: it went through memory between them."""

    name: str
    """Of the graph's input."""
    bytes: int
    graph: int
    """`GeneratedGraph.graph` of the one that made it."""
    written_by: int
    """The launch of that graph that writes it."""
    read_by: tuple[int, ...] = ()
    """The launches of this graph that read it."""
    fusible: tuple[int, ...] = ()
    """Those of `read_by` that go through the tensor as its writer does: in one graph, Inductor may fuse the two."""
    kept: bool = False
    """Whether autograd keeps it for backward, so that it is written in any case."""


@dataclass(frozen=True)
class Repeated:
    """A module that a graph holds many equal instances of, each captured and generated by itself."""

    name: str
    """The class, as `Block`."""
    count: int
    operators: int
    """Captured operators in all of its instances together."""
    whole: int
    """Captured operators of the graph."""
    location: Location | None = None
    """The `def` line of its `forward`."""
    call: Stack = ()
    """Where the first instance is called, outermost first."""


@dataclass(frozen=True)
class GeneratedGraph:
    """One graph of AOTAutograd and what Inductor made of it."""

    compile_id: str
    phase: Phase
    graph: int = 0
    """Position among the graphs of the target, in the order in which they were compiled."""
    text_key: str | None = None
    """Inductor's wrapper, which launches the kernels."""
    aten_key: str | None = None
    """The graph of ATen operators that went to Inductor, as text."""
    joint_key: str | None = None
    """Training: the graph of forward and backward together, before it was cut in two, as text."""
    kernels: tuple[Kernel, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    cudagraph_skips: tuple[CudagraphSkip, ...] = ()
    saved: tuple[SavedTensor, ...] = ()
    """Forward graphs of training only."""
    recomputed: tuple[Recomputed, ...] = ()
    """Backward graphs only."""
    handed: tuple[Handed, ...] = ()
    """What it is given by the graph that ran before it; not of backward graphs."""
    repeated: Repeated | None = None
    """The module whose equal instances hold most of what is done again; not of backward graphs."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By step: `joint`, `lower`, `codegen`."""
    cache_key: str | None = None
    """Tier measured: what a profile calls it, in `## Call CompiledFxGraph ... ##`."""
    failure: str | None = None
    """Why there are no kernels, in words."""
    location: Location | None = None
    """The `def` line of the frame that was captured."""

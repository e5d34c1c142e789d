"""The code that Inductor generated for a device: kernels in launch order, with their source lines and memory traffic.

Invariant: an estimate is in a field that says so; these types never hold a measured time. A kernel is identified by
(compile id, phase, name, launch), because names repeat across graphs. An OperatorPath is one torch call in one phase;
equal paths of a graph are one, with a count.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from fuselight.shared.report.place import LineNumber, Location, Stack

_LIBRARIES = (
    "aten._scaled_dot_product_",
    "aten._flash_attention_",
    "aten._efficient_attention_",
    "aten._cudnn_",
    "aten.miopen_",
    "aten._thnn_fused_",
    "aten.convolution",
    "aten._grouped_mm",
    "aten._scaled_grouped_mm",
    "mkldnn.",
    "onednn.",
    "quantized.",
)


class Phase(str, enum.Enum):
    """The AOTAutograd graph that a kernel belongs to."""

    INFERENCE = "inference"
    FORWARD = "forward"
    BACKWARD = "backward"


class KernelKind(str, enum.Enum):
    """The author of a kernel."""

    TRITON = "triton"
    CPP = "cpp"
    TEMPLATE = "template"
    """From an Inductor template, such as a fused matrix multiplication."""
    USER_TRITON = "user_triton"
    """A Triton kernel written by the user."""
    EXTERN = "extern"
    """A library kernel, such as cuBLAS, that Inductor calls for the operator."""
    FALLBACK = "fallback"
    """An ATen kernel, because Inductor has no lowering for the operator."""


@dataclass(frozen=True)
class FusedOperator:
    """One operator that was fused into a kernel."""

    name: str
    """Name before Inductor lowered it: `aten.addmm.default`, `prims.convert_element_type.default`."""
    original: str = ""
    """The ATen operator of the captured graph that it was decomposed from, empty if it is the same."""
    stack: Stack = ()
    """User and library frames, outermost first. For a backward operator, the stack of the forward operator."""


@dataclass(frozen=True)
class Kernel:
    """One launch of one kernel."""

    name: str
    kind: KernelKind
    launch: int
    """Position among the launches of its graph, from 0."""
    text_key: str | None = None
    """Source of the kernel, in `Report.texts`; None for a library's."""
    call: str = ""
    """The line of the wrapper that launches it."""
    wrapper_line: LineNumber | None = None
    """1-based line of the launch in `GeneratedGraph.text_key`."""
    operators: tuple[FusedOperator, ...] = ()
    bytes_read: int | None = None
    """From device memory, each buffer counted once: the minimum that it must read."""
    bytes_written: int | None = None
    flops: int | None = None
    """Floating-point operations of its matrix multiplications, convolutions and attention; None if it has none."""
    dtype: str | None = None
    """Main dtype of the computation: `f32`, `tf32`, `bf16`, ..."""
    estimate_us: float | None = None
    """Estimated time on the device, at the fractions of its peak rates that kernels typically reach: microseconds."""
    bound: str | None = None
    """The main component of the estimate: `memory`, `compute` or `launch`."""
    candidates: tuple[str, ...] = ()
    """Implementations that Inductor would time on a GPU to select one (`max_autotune`, padding)."""
    copies: bool = False
    """Whether it only moves data: it stores only values that it loaded, unchanged."""


@dataclass(frozen=True)
class Refusal:
    """Inductor considered fusing two kernels, and did not."""

    reason: str
    """torch's own message."""
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
    """`activation`, `input` (a parameter or an input of the target: kept anyway), `carried` (an input of the graph that
    the target has computed earlier) or `symbol` (a size)."""
    dtype: str = ""
    shape: tuple[str, ...] = ()
    bytes: int = 0
    """Bytes of its storage, counted at the first tensor that shares it; 0 for later ones, and for views of an input."""
    stack: Stack = ()


@dataclass(frozen=True)
class Recomputed:
    """One operator that the backward graph recomputes instead of keeping its result."""

    name: str
    """Name of the node, the same in both graphs."""
    operator: str
    stack: Stack = ()
    """The forward line."""


@dataclass(frozen=True)
class Handed:
    """One tensor that an earlier graph computed and this graph reads: it goes through memory between them."""

    name: str
    """Name of the graph's input."""
    bytes: int
    graph: int
    """`GeneratedGraph.graph` of the graph that computed it."""
    written_by: int
    """The launch of that graph that writes the tensor."""
    read_by: tuple[int, ...] = ()
    """The launches of this graph that read the tensor."""
    fusible: tuple[int, ...] = ()
    """Launches of `read_by` that iterate over the tensor in the order of its writer: in one graph, Inductor may fuse
    the two."""
    kept: bool = False
    """Whether autograd keeps it for backward, so that it must be written in any case."""


@dataclass(frozen=True)
class Repeated:
    """A module of which a graph has many equal instances, each captured and compiled separately."""

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
    """One AOTAutograd graph and the code that Inductor generated from it."""

    compile_id: str
    phase: Phase
    graph: int = 0
    """Position among the graphs of the target, in the order in which they were compiled."""
    text_key: str | None = None
    """Inductor's wrapper, which launches the kernels."""
    aten_key: str | None = None
    """The graph of ATen operators that Inductor received, as text."""
    joint_key: str | None = None
    """Training: the joint graph of forward and backward before partitioning, as text."""
    kernels: tuple[Kernel, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    cudagraph_skips: tuple[CudagraphSkip, ...] = ()
    saved: tuple[SavedTensor, ...] = ()
    """Forward graphs of training only."""
    recomputed: tuple[Recomputed, ...] = ()
    """Backward graphs only."""
    handed: tuple[Handed, ...] = ()
    """Tensors that the previous graph passed to this one; not of backward graphs."""
    repeated: Repeated | None = None
    """The module whose equal instances repeat the most work; not of backward graphs."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By step: `joint`, `lower`, `codegen`."""
    cache_key: str | None = None
    """Tier measured: the key in a profile, `## Call CompiledFxGraph ... ##`."""
    failure: str | None = None
    """Why there are no kernels."""
    location: Location | None = None
    """The `def` line of the frame that was captured."""


@dataclass(frozen=True)
class OperatorPath:
    """The decomposition of one call, level by level; operators as `aten.addmm.default`, in the order of execution."""

    call: str
    """The call in the source: `torch.nn.functional.linear`; empty if torch does not report it."""
    phase: Phase
    stack: Stack = ()
    """User and library frames, outermost first. For backward operators, the stack of the forward call."""
    compile_id: str = "?"
    aten: tuple[str, ...] = ()
    """Without decompositions: the operators that AOTAutograd receives."""
    core: tuple[str, ...] = ()
    """After the decompositions to core ATen."""
    prims: tuple[str, ...] = ()
    """After every decomposition that torch has."""
    inductor: tuple[str, ...] = ()
    """After Inductor's own decompositions: the operators that it looks up lowerings for."""
    fallback: tuple[str, ...] = ()
    """Operators of `inductor` without a lowering, which run in ATen; excludes intended library calls."""
    lacking: tuple[str, ...] = ()
    """Operators that the requested operator set neither has nor can compose from what it has."""
    count: int = 1
    """Calls of the graph with exactly this path."""


def is_library_call(name: str) -> bool:
    """Whether Inductor intends to call a library for an operator: attention, convolution, ..."""
    return name.startswith(_LIBRARIES)

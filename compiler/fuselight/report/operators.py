"""Decomposition of a captured graph's operators: torch call, ATen, core ATen, prims, and what Inductor lowers.

Invariant: a path is one torch call in one phase; equal paths of a graph are one, with a count.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.report.kernels import Phase
from fuselight.report.place import Stack

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

"""What the operators of a captured graph become: torch call, ATen, core ATen, prims, and what Inductor lowers.

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
    """What one call becomes, level by level; operators as `aten.addmm.default`, in the order of their execution."""

    call: str
    """As the source has it: `torch.nn.functional.linear`; empty where torch does not say."""
    phase: Phase
    stack: Stack = ()
    """The user's and libraries' frames, outermost first. That of the forward call, for backward operators."""
    compile_id: str = "?"
    aten: tuple[str, ...] = ()
    """Nothing decomposed: what AOTAutograd sees."""
    core: tuple[str, ...] = ()
    """After the decompositions to core ATen."""
    prims: tuple[str, ...] = ()
    """After every decomposition that torch has."""
    inductor: tuple[str, ...] = ()
    """After Inductor's own decompositions: what it looks for a lowering for."""
    fallback: tuple[str, ...] = ()
    """Of `inductor`, what has no lowering and is left to ATen; without what is meant to be a library's."""
    lacking: tuple[str, ...] = ()
    """What the operator set that was asked for has not, and cannot be put together of what it has."""
    count: int = 1
    """How many calls of the graph go this very path."""


def is_library_call(name: str) -> bool:
    """Whether an operator is one that Inductor means to call from a library: attention, convolution, ..."""
    return name.startswith(_LIBRARIES)

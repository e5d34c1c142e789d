"""A program with Triton kernels of its own: one that is autotuned, and plain ones."""

from __future__ import annotations

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n)
    tl.store(out + at, total, mask=at < n)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64}, num_warps=8),
        triton.Config({"BLOCK": 1024}, num_warps=4),
    ],
    key=["n"],
)
@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


# fuselight: f(f32[SIZE], OPTIONS)
@torch.compile
def f(x):
    out = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 1024),)](x, x, out, x.numel(), BLOCK=1024)
    torch._dynamo.graph_break()
    scale[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](out, out, x.numel())
    return out.relu()
"""
ADD, SCALE, DECORATOR = 7, 21, 13
"""Lines of the two kernels, and of the autotuner."""


def source(size: int, options: str = "") -> str:
    """The program, called with a tensor of `size` elements."""
    return SOURCE.replace("SIZE", str(size)).replace(", OPTIONS", f", {options}" if options else "")

"""Kinds of launches of Triton kernels, each a function of tensors with one of PyTorch that gives the same.

tests/worker/adapters/test_triton_launches.py imports it as a program does that has no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton
from triton.language.extra import libdevice

LENGTH = 300


@dataclass(frozen=True)
class LaunchKind:
    """A way to launch a kernel."""

    launch: Callable[..., torch.Tensor]
    reference: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...] = ((LENGTH,),)
    dtype: torch.dtype = torch.float32
    differentiable: bool = False
    breaks: int = 0
    """Graph breaks of the compiled form."""


def blocks(length: int, size: int) -> tuple[int]:
    """The grid that covers `length` elements."""
    return ((length + size - 1) // size,)


@triton.jit
def scaled_sum(left, right, out, length, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < length
    total = tl.load(left + at, mask=inside) + tl.load(right + at, mask=inside) * factor
    tl.store(out + at, total, mask=inside)


def positional(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    scaled_sum[blocks(LENGTH, 128)](x, x, out, LENGTH, 0.5, 128)
    return out


def by_keyword(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    count = x.numel()
    scaled_sum[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](
        out=out, left=x, right=x, factor=2, length=count, BLOCK=64, num_warps=2
    )
    return out


tuned = triton.autotune(
    [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 256}, num_warps=4)], key=["length"]
)(scaled_sum)
sized = triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["length"])})(scaled_sum)
both = triton.autotune([triton.Config({}, num_warps=4), triton.Config({}, num_warps=8)], key=["length"])(
    sized
)


def autotuned(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(LENGTH, meta["BLOCK"]),)](x, x, out, LENGTH, 0.5)
    return out


def heuristics(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    sized[(1,)](x, x, out, LENGTH, 0.5)
    return out


def autotuned_heuristics(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    both[(1,)](x, x, out, LENGTH, 0.5)
    return out


@triton_op("fuselight_launches::doubled", mutates_args={})
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(scaled_sum)[blocks(LENGTH, 128)](x, x, out, LENGTH, 1.0, 128)
    return out


@torch.library.custom_op("fuselight_launches::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    scaled_sum[blocks(LENGTH, 128)](x, x, out, LENGTH, 2.0, 128)
    return out


@tripled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@triton.jit
def gate(value):
    return value * tl.sigmoid(value)


@triton.jit
def gate_forward(x, out, length, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, gate(tl.load(x + at, mask=at < length)), mask=at < length)


@triton.jit
def gate_backward(x, gradient, out, length, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < length)
    slope = tl.sigmoid(value) * (1 + value * (1 - tl.sigmoid(value)))
    tl.store(out + at, slope * tl.load(gradient + at, mask=at < length), mask=at < length)


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        gate_forward[blocks(LENGTH, 128)](x, out, LENGTH, 128)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        gate_backward[blocks(LENGTH, 128)](x, gradient.contiguous(), out, LENGTH, 128)
        return out


def of_view(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2, 100)
    scaled_sum[blocks(200, 64)](x[1:], x[:-1], out, 200, 1.0, 64)
    return out


@triton.jit
def block_copy(x, out, rows, columns, stride, R: tl.constexpr, C: tl.constexpr):
    corner = (tl.program_id(0) * R, tl.program_id(1) * C)
    source = tl.make_block_ptr(x, (rows, columns), (stride, 1), corner, (R, C), (1, 0))
    target = tl.make_block_ptr(out, (rows, columns), (stride, 1), corner, (R, C), (1, 0))
    tl.store(target, tl.load(source, boundary_check=(0, 1)) + 1, boundary_check=(0, 1))


def block_pointers(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    block_copy[(2, 3)](x, out, *x.shape, x.stride(0), R=32, C=32)
    return out


@triton.jit
def descriptor_copy(x, out, rows, columns, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [R, C])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [R, C])
    row = tl.program_id(0) * R
    target.store([row, 0], source.load([row, 0]) + 1)


def device_descriptor(x: torch.Tensor) -> torch.Tensor:
    triton.set_allocator(lambda size, _align, _stream: torch.empty(size, dtype=torch.int8))
    out = torch.empty_like(x)
    descriptor_copy[(2,)](x, out, *x.shape, R=32, C=64)
    return out


@triton.jit
def host_descriptor_copy(source, target, R: tl.constexpr):
    row = tl.program_id(0) * R
    target.store([row, 0], source.load([row, 0]) + 1)


def host_descriptor(x: torch.Tensor) -> torch.Tensor:
    from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: PLC0415

    out = torch.empty_like(x)
    source, target = (TensorDescriptor.from_tensor(tensor, [32, 64]) for tensor in (x, out))
    host_descriptor_copy[(2,)](source, target, R=32)
    return out


@triton.jit
def descriptor_sum(source, target, R: tl.constexpr):
    row = tl.program_id(0) * R
    target.atomic_add([0, 1], tl.sum(source.load([row, 1]), 0)[None, :])


def atomic_descriptor(x: torch.Tensor) -> torch.Tensor:
    """Its blocks begin at the second element of a row."""
    from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: PLC0415

    out = x.new_zeros(1, x.shape[1])
    tensors = TensorDescriptor.from_tensor(x, [32, 64]), TensorDescriptor.from_tensor(out, [1, 64])
    descriptor_sum[(2,)](*tensors, R=32)
    return out


def asks_for_gpu(x: torch.Tensor) -> torch.Tensor:
    if not x.is_cuda:
        raise ValueError("only for CUDA tensors")
    return positional(x)


def in_device_context(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.device(x.device):
        return positional(x)


def in_device_number(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.device(0):
        return positional(x)


def in_device_index(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.device(x.device.index):
        return positional(x)


def asks_for_multiprocessors(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    count = min(torch.cuda.get_device_properties(x.device).multi_processor_count, 3)
    assert torch.cuda.get_device_capability(x.device) == (9, 0)
    scaled_sum[(count,)](x, x, out, LENGTH, 0.5, BLOCK=128)
    return out


def synchronized(x: torch.Tensor) -> torch.Tensor:
    out = positional(x)
    torch.cuda.synchronize()
    return out


@triton.jit
def of_library(x, out, length, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < length)
    tl.store(out + at, libdevice.tanh(value) + libdevice.rsqrt(value * value + 1), mask=at < length)


def library_functions(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    of_library[(1,)](x, out, LENGTH, BLOCK=512)
    return out


@triton.jit
def product(a, b, c, M, N, K, SIDE: tl.constexpr):
    row = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    column = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(0, K, SIDE):
        inner = start + tl.arange(0, SIDE)
        left = tl.load(
            a + row[:, None] * K + inner[None, :], mask=(row[:, None] < M) & (inner[None, :] < K), other=0
        )
        right = tl.load(
            b + inner[:, None] * N + column[None, :],
            mask=(inner[:, None] < K) and (column[None, :] < N),
            other=0,
        )
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * N + column[None, :], total, mask=(row[:, None] < M) & (column[None, :] < N))


def multiplied(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(a.shape[0], b.shape[1])
    product[(2, 2)](a, b, out, a.shape[0], b.shape[1], a.shape[1], SIDE=32)
    return out


@triton.jit
def add_up(x, out, length, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < length, other=0.0)))


def atomic(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(1)
    add_up[blocks(LENGTH, 64)](x, out, LENGTH, BLOCK=64)
    return out


@triton.jit
def scan_rows(x, out, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    value = tl.load(x + at)
    tl.store(out + at, tl.cumsum(value, 0) / value.abs().max(0))


def scanned(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    scan_rows[(x.shape[0],)](x, out, WIDTH=64)
    return out


@triton.jit
def by_assembly(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    raised = tl.inline_asm_elementwise(
        "ex2.approx.f32 $0, $1;", "=f,f", [value], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out + at, raised)


def assembly(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    by_assembly[(1,)](x, out, BLOCK=64)
    return out


@triton.jit
def narrow(x, y, out, epsilon, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    left, right = tl.load(x + at), tl.load(y + at)
    shifted = left * right + epsilon.to(tl.bfloat16)
    tl.store(out + at, tl.where((at > 3) and not (at > 40), shifted, max(left, right)))


def bfloat16_arithmetic(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    narrow[(1,)](x, y, out, 0.25, BLOCK=64)
    return out


def narrow_reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    at = torch.arange(64)
    return torch.where((at > 3) & ~(at > 40), x * y + 0.25, torch.maximum(x, y))


def chained(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(positional(positional(x).sin()))


def broken(x: torch.Tensor) -> torch.Tensor:
    out = positional(x)
    torch._dynamo.graph_break()
    return positional(out)


KINDS: dict[str, LaunchKind] = {
    "positional": LaunchKind(positional, lambda x: x * 1.5),
    "by keyword": LaunchKind(by_keyword, lambda x: x * 3),
    "autotune": LaunchKind(autotuned, lambda x: x * 1.5),
    "heuristics": LaunchKind(heuristics, lambda x: x * 1.5),
    "autotune over heuristics": LaunchKind(autotuned_heuristics, lambda x: x * 1.5),
    "triton_op": LaunchKind(doubled, lambda x: x * 2),
    "custom_op": LaunchKind(tripled, lambda x: x * 3),
    "autograd.Function": LaunchKind(Gate.apply, torch.nn.functional.silu, differentiable=True),
    "a view": LaunchKind(of_view, lambda x: x[1:] + x[:-1], ((3, 100),)),
    "block pointers": LaunchKind(block_pointers, lambda x: x + 1, ((50, 70),)),
    "a descriptor of the device": LaunchKind(device_descriptor, lambda x: x + 1, ((50, 64),)),
    "a descriptor of the host": LaunchKind(host_descriptor, lambda x: x + 1, ((50, 64),)),
    "a descriptor that adds": LaunchKind(
        atomic_descriptor, lambda x: (x * (torch.arange(64) > 0)).sum(0, keepdim=True), ((50, 64),)
    ),
    "is_cuda": LaunchKind(asks_for_gpu, lambda x: x * 1.5),
    "a device context": LaunchKind(in_device_context, lambda x: x * 1.5),
    "a device by its number": LaunchKind(in_device_number, lambda x: x * 1.5),
    "a device by its index": LaunchKind(in_device_index, lambda x: x * 1.5),
    "the properties of the device": LaunchKind(asks_for_multiprocessors, lambda x: x * 1.5),
    "synchronize": LaunchKind(synchronized, lambda x: x * 1.5),
    "libdevice": LaunchKind(library_functions, lambda x: torch.tanh(x) + torch.rsqrt(x * x + 1)),
    "tl.dot": LaunchKind(multiplied, torch.matmul, ((50, 40), (40, 60))),
    "atomics": LaunchKind(atomic, lambda x: x.sum().reshape(1)),
    "scans": LaunchKind(scanned, lambda x: x.cumsum(1) / x.abs().amax(1, keepdim=True), ((4, 64),)),
    "inline assembly": LaunchKind(assembly, torch.exp2, ((64,),)),
    "bfloat16": LaunchKind(bfloat16_arithmetic, narrow_reference, ((64,), (64,)), torch.bfloat16),
    "several launches": LaunchKind(chained, lambda x: torch.relu((x * 1.5).sin() * 1.5)),
    "a graph break": LaunchKind(broken, lambda x: x * 2.25, breaks=1),
}


# Kernels with a fault, or that take too long.


@triton.jit
def without_mask(x, out, length, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)  # FAULT: load
    tl.store(out + at, value * 2, mask=at < length)


@triton.jit
def shifted_by_one(x, out, length, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < length)
    tl.store(out + at + 1, value, mask=at < length)  # FAULT: store


@triton.jit
def far_away(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(out + at * 1_000_000, tl.load(x + at))  # FAULT: atomic


@triton.jit
def overflowing(x, out, stride):
    row = tl.program_id(0) + 3
    tl.store(out, tl.load(x + row * stride))  # FAULT: overflow


@triton.jit
def endless(lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass


@triton.jit
def long_loop(x, out, rounds, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for index in range(rounds):
        total += tl.load(x + tl.arange(0, BLOCK)) * index.to(tl.float32)
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def through_pointers(pointers, out):
    other = tl.load(pointers).to(tl.pointer_type(tl.float32))
    tl.store(out, tl.load(other))


@triton.jit
def two_instructions(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    text: tl.constexpr = "{ mul.f32 $0, $1, $1; add.f32 $0, $0, $1; }"
    value = tl.inline_asm_elementwise(text, "=f,f", [tl.load(x + at)], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out + at, value)

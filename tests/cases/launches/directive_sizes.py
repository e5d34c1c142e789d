"""Kernels without a mask: for any size, though only some work, and for multiples of the block, which they ask for."""

import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at) + tl.load(b + at))  # expect: FL941


# fuselight: rounds_its_grid_up(f32[1024], f32[1024])
def rounds_its_grid_up(a, b):
    out = torch.empty_like(a)
    add[(triton.cdiv(a.numel(), 256),)](a, b, out, BLOCK=256)
    return out


# fuselight: asks_for_multiples(f32[1024], f32[1024])
def asks_for_multiples(a, b):
    if a.numel() % 256:
        raise ValueError("the number of elements must be a multiple of 256")
    out = torch.empty_like(a)
    add[(a.numel() // 256,)](a, b, out, BLOCK=256)
    return out


@triton.jit
def scale_rows(x, out, stride, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * stride + at, mask=at < n)
    tl.store(out + tl.program_id(0) * stride + at, value * 2, mask=at < n)  # expect: FL941


# fuselight: one_stride_for_both(f32[8, 64])
def one_stride_for_both(x):
    out = torch.empty(x.shape)
    scale_rows[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out + 1

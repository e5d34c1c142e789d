"""Planted faults: accesses outside of tensors, at sizes whose values are computed."""

import torch
import triton
import triton.language as tl


@triton.jit
def load_without_mask(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)  # expect: FL941
    tl.store(out + at, value * 2, mask=at < n)


# fuselight: no_load_mask(f32[1000])
def no_load_mask(x):
    out = torch.empty_like(x)
    load_without_mask[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def store_without_mask(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value * 2)  # expect: FL941


# fuselight: no_store_mask(f32[1000])
def no_store_mask(x):
    out = torch.empty_like(x)
    store_without_mask[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def difference(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(x + at, mask=at < n)
    right = tl.load(x + at + 1, mask=at < n)  # expect: FL941
    tl.store(out + at, right - here, mask=at < n)


# fuselight: off_by_one(f32[1000])
def off_by_one(x):
    out = torch.empty_like(x)
    difference[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def inclusive(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at <= n)  # expect: FL941
    tl.store(out + at, value, mask=at < n)


# fuselight: mask_with_one_more(f32[1000])
def mask_with_one_more(x):
    out = torch.empty_like(x)
    inclusive[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def rows_only(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    at = rows[:, None] * N + columns[None, :]
    value = tl.load(x + at, mask=rows[:, None] < M)  # expect: FL941
    tl.store(out + at, value, mask=(rows[:, None] < M) & (columns[None, :] < N))


# fuselight: columns_not_masked(f32[30, 50])
def columns_not_masked(x):
    out = torch.empty_like(x)
    M, N = x.shape
    rows_only[(triton.cdiv(M, 16),)](x, out, M, N, BM=16, BN=64)
    return out


@triton.jit
def copy_rows(x, out, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at, mask=at < N)  # expect: FL941
    tl.store(out + row * N + at, value, mask=at < N)


# fuselight: stride_of_the_other_dimension(f32[20, 12])
def stride_of_the_other_dimension(x):
    out = torch.empty_like(x)
    copy_rows[(x.shape[0],)](x, out, x.shape[0], x.shape[1], BLOCK=16)
    return out


@triton.jit
def masked_by_program(x, out, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=program < n)  # expect: FL941
    tl.store(out + at, value, mask=at < n)


# fuselight: mask_of_the_wrong_variable(f32[1000])
def mask_of_the_wrong_variable(x):
    out = torch.empty_like(x)
    masked_by_program[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def binned_sum(x, bins, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_add(bins + at // 10, value)  # expect: FL941


# fuselight: atomic_without_mask(f32[1000])
def atomic_without_mask(x):
    bins = torch.zeros(100)
    binned_sum[(triton.cdiv(x.numel(), 256),)](x, bins, x.numel(), BLOCK=256)
    return bins


@triton.jit
def by_block_pointer(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    first = tl.program_id(0) * BM
    source = tl.make_block_ptr(x, (M, N), (N, 1), (first, 0), (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (M, N), (N, 1), (first, 0), (BM, BN), (1, 0))
    value = tl.load(source)  # expect: FL941
    tl.store(target, value, boundary_check=(0, 1))


# fuselight: no_boundary_check(f32[30, 32])
def no_boundary_check(x):
    out = torch.empty_like(x)
    M, N = x.shape
    by_block_pointer[(triton.cdiv(M, 16),)](x, out, M, N, BM=16, BN=32)
    return out


@triton.jit
def row_sum(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, N, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(x + row * N + at)  # expect: FL941
    tl.store(out + row, tl.sum(total))


# fuselight: remainder_of_a_loop(f32[5, 100])
def remainder_of_a_loop(x):
    out = torch.empty(x.shape[0])
    row_sum[(x.shape[0],)](x, out, x.shape[1], BLOCK=64)
    return out


@triton.jit
def causal_pair(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(x + at - 1, mask=at < n)  # expect: FL941
    here = tl.load(x + at, mask=at < n)
    tl.store(out + at, before + here, mask=at < n)


# fuselight: element_before_the_first(f32[1000])
def element_before_the_first(x):
    out = torch.empty_like(x)
    causal_pair[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def with_bias(x, bias, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    shift = tl.load(bias + row)  # expect: FL941
    value = tl.load(x + row * N + at, mask=at < N)
    tl.store(out + row * N + at, value + shift, mask=at < N)


# fuselight: bias_by_row(f32[20, 12], f32[12])
def bias_by_row(x, bias):
    out = torch.empty_like(x)
    with_bias[(x.shape[0],)](x, bias, out, x.shape[1], BLOCK=16)
    return out

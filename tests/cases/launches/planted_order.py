"""Planted faults of programs that race, and of elements that nobody writes."""

import torch
import triton
import triton.language as tl


@triton.jit
def overlapping(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value + tl.program_id(0), mask=at < n)  # expect: FL942


# fuselight: blocks_overlap(f32[1000])
def blocks_overlap(x):
    out = torch.empty_like(x)
    overlapping[(8,)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def shift_in_place(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at + 1, mask=at < n - 1)
    tl.store(x + at, value, mask=at < n - 1)  # expect: FL942


# fuselight: in_place(f32[1000])
def in_place(x):
    x = x.clone()
    shift_in_place[(triton.cdiv(x.numel(), 256),)](x, x.numel(), BLOCK=256)
    return x


@triton.jit
def sum_without_atomic(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + at, mask=at < n, other=0.0))
    tl.store(out, tl.load(out) + part)  # expect: FL942


# fuselight: sum_of_all(f32[1000])
def sum_of_all(x):
    out = torch.zeros(1)
    sum_without_atomic[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def halves(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at // 2, value, mask=at < n)  # expect: FL942


# fuselight: lanes_of_one_block(f32[1000])
def lanes_of_one_block(x):
    out = torch.zeros((x.numel() + 1) // 2)
    halves[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def partial_products(a, b, out, K, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(a + row * K + at, mask=at < K, other=0.0)
    right = tl.load(b + at, mask=at < K, other=0.0)
    tl.store(out + row, tl.sum(left * right))  # expect: FL942


# fuselight: split_without_atomic(f32[8, 512], f32[512])
def split_without_atomic(a, b):
    out = torch.zeros(a.shape[0])
    partial_products[(a.shape[0], 4)](a, b, out, a.shape[1], BLOCK=128)
    return out


@triton.jit
def count(values, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(values + at, mask=at < n, other=0)
    before = tl.load(counts + value, mask=at < n)
    tl.store(counts + value, before + 1, mask=at < n)  # expect: FL942


# fuselight: histogram_without_atomic(i64[1000] % 16)
def histogram_without_atomic(values):
    counts = torch.zeros(16, dtype=torch.int64)
    count[(triton.cdiv(values.numel(), 128),)](values, counts, values.numel(), BLOCK=128)
    return counts


@triton.jit
def rows_too_close(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * N + at, mask=at < N)
    tl.store(out + row * (N - 1) + at, value, mask=at < N)  # expect: FL942


# fuselight: wrong_stride_of_the_result(f32[20, 12])
def wrong_stride_of_the_result(x):
    out = torch.zeros_like(x)
    rows_too_close[(x.shape[0],)](x, out, x.shape[1], BLOCK=16)
    return out


@triton.jit
def transpose_in_place(x, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at * N + row, mask=at < N)
    tl.store(x + row * N + at, value, mask=at < N)  # expect: FL942


# fuselight: transposed_in_place(f32[12, 12])
def transposed_in_place(x):
    x = x.clone()
    transpose_in_place[(x.shape[0],)](x, x.shape[0], BLOCK=16)
    return x


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)  # expect: FL943


# fuselight: grid_rounds_down(f32[1000])
def grid_rounds_down(x):
    out = torch.empty_like(x)
    double[(x.numel() // 256,)](x, out, x.numel(), BLOCK=256)
    return out + 1


@triton.jit
def all_but_one(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value * 2, mask=at < n - 1)  # expect: FL943


# fuselight: last_element(f32[1000])
def last_element(x):
    out = torch.empty_like(x)
    all_but_one[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def some_rows(x, out, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * N + tl.arange(0, BLOCK)[None, :]
    inside = (rows[:, None] < M) & (tl.arange(0, BLOCK)[None, :] < N)
    tl.store(out + at, tl.load(x + at, mask=inside), mask=inside)  # expect: FL943


# fuselight: rows_left_over(f32[22, 30])
def rows_left_over(x):
    out = torch.empty_like(x)
    some_rows[(x.shape[0] // 4,)](x, out, x.shape[0], x.shape[1], ROWS=4, BLOCK=32)
    return out.sum(0)


@triton.jit
def block_too_small(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * N + at, mask=at < N)
    tl.store(out + row * N + at, value, mask=at < N)  # expect: FL943


# fuselight: columns_left_over(f32[5, 300])
def columns_left_over(x):
    out = torch.empty_like(x)
    block_too_small[(x.shape[0],)](x, out, x.shape[1], BLOCK=256)
    return out

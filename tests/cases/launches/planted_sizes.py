"""Planted faults that only appear at the sizes of production: offsets that overflow, tails, layouts. All without memory."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_row(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * N + at, mask=at < N)  # expect: FL944
    tl.store(out + row * N + at, value, mask=at < N)  # expect: FL944


# fuselight: rows(bf16[600000, 4096])
def rows(x):
    out = torch.empty_like(x)
    copy_row[(x.shape[0],)](x, out, x.shape[1], BLOCK=4096)
    return out


@triton.jit
def group_mean(x, out, stride, size, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    group = tl.program_id(1)
    first = x + batch * stride + group * size
    total = 0.0
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(first + at, mask=at < size, other=0.0))  # expect: FL944
    tl.store(out + batch * tl.num_programs(1) + group, total / size)


# fuselight: groups(f32[4096, 1024, 1024])
def groups(x):
    out = torch.empty(x.shape[0], 32)
    group_mean[(x.shape[0], 32)](x, out, x.stride(0), x.stride(0) // 32, BLOCK=1024)
    return out


@triton.jit
def outer(x, y, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    left = tl.load(x + rows, mask=rows < M)
    right = tl.load(y + columns, mask=columns < N)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    product = left[:, None] * right[None, :]
    tl.store(out + rows[:, None] * N + columns[None, :], product, mask=inside)  # expect: FL944


# fuselight: tiles(f16[65536], f16[65536], fake=True)
def tiles(x, y):
    out = torch.empty(x.numel(), y.numel(), dtype=x.dtype)
    outer[(x.numel() // 64, y.numel() // 64)](x, y, out, x.numel(), y.numel(), BM=64, BN=64)
    return out


@triton.jit
def cast_too_late(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    first = (row * N).to(tl.int64)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + first + at, mask=at < N)  # expect: FL944
    tl.store(out + row.to(tl.int64) * N + at, value, mask=at < N)


# fuselight: late_cast(bf16[600000, 4096])
def late_cast(x):
    out = torch.empty_like(x)
    cast_too_late[(x.shape[0],)](x, out, x.shape[1], BLOCK=4096)
    return out


@triton.jit
def by_strides(x, out, row_stride, column_stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + row * row_stride + at * column_stride, mask=at < N)  # expect: FL944
    tl.store(out + row.to(tl.int64) * N + at, value, mask=at < N)


# fuselight: transposed(bf16[600000, 8192], fake=True)
def transposed(x):
    x = x.t()
    out = torch.empty(x.shape, dtype=x.dtype)
    grid = (x.shape[0], triton.cdiv(x.shape[1], 1024))
    by_strides[grid](x, out, x.stride(0), x.stride(1), x.shape[1], BLOCK=1024)
    return out


@triton.jit
def add_positions(x, positions, out, length, H, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    position = tl.load(positions + (token % length) * H + at, mask=at < H)
    value = tl.load(x + token * H + at, mask=at < H)  # expect: FL944
    tl.store(out + token.to(tl.int64) * H + at, value + position, mask=at < H)


# fuselight: tokens(f16[1048576, 4096], f16[8192, 4096])
def tokens(x, positions):
    out = torch.empty_like(x)
    add_positions[(x.shape[0],)](x, positions, out, positions.shape[0], x.shape[1], BLOCK=4096)
    return out


@triton.jit
def first_of_each_row(x, out, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + row * N, mask=row < M)  # expect: FL945
    tl.store(out + row, value, mask=row < M)


# fuselight: one_column(f32[1048576, 512])
def one_column(x):
    out = torch.empty(x.shape[0])
    first_of_each_row[(triton.cdiv(x.shape[0], 256),)](x, out, x.shape[0], x.shape[1], BLOCK=256)
    return out


@triton.jit
def rows_as_columns(x, out, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * N + at, mask=at < N)
    tl.store(out + at * M + row, value, mask=at < N)  # expect: FL945


# fuselight: transposed_copy(f16[65536, 2048], fake=True)
def transposed_copy(x):
    out = torch.empty(x.shape[1], x.shape[0], dtype=x.dtype)
    rows_as_columns[(x.shape[0],)](x, out, x.shape[0], x.shape[1], BLOCK=2048)
    return out


@triton.jit
def scaled(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2)  # expect: FL941


# fuselight: long_vector(f32[3000000001])
def long_vector(x):
    out = torch.empty_like(x)
    scaled[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


@triton.jit
def column_sum(x, out, M, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pointer = x + at
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(M + 1):
        total += tl.load(pointer, mask=at < N, other=0.0)  # expect: FL941
        pointer += N
    tl.store(out + at, total, mask=at < N)


# fuselight: one_row_too_many(f32[500000, 1000])
def one_row_too_many(x):
    out = torch.empty(x.shape[1])
    column_sum[(triton.cdiv(x.shape[1], 128),)](x, out, x.shape[0], x.shape[1], BLOCK=128)
    return out

"""Planted faults of further kinds. Some only appear at other sizes or strides than those of the directive."""

import torch
import triton
import triton.language as tl


@triton.jit
def swapped_mask(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    at = rows[:, None] * N + columns[None, :]
    value = tl.load(x + at, mask=(rows[:, None] < N) & (columns[None, :] < M), other=0.0)  # expect: FL941
    tl.store(out + at, value, mask=(rows[:, None] < M) & (columns[None, :] < N))


# fuselight: mask_of_the_other_axis(f32[20, 50])
def mask_of_the_other_axis(x):
    out = torch.empty_like(x)
    M, N = x.shape
    swapped_mask[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, out, M, N, BM=16, BN=16)
    return out


@triton.jit
def one_row_more(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    at = rows[:, None] * N + columns[None, :]
    value = tl.load(x + at, mask=(rows[:, None] < M) & (columns[None, :] < N))
    tl.store(out + at, value, mask=(rows[:, None] <= M) & (columns[None, :] < N))  # expect: FL941


# fuselight: inclusive_rows(f32[20, 50])
def inclusive_rows(x):
    out = torch.empty_like(x)
    M, N = x.shape
    one_row_more[(triton.cdiv(M, 16),)](x, out, M, N, BM=16, BN=64)
    return out


@triton.jit
def one_stride(x, out, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at, mask=at < N)
    tl.store(out + row * stride + at, value, mask=at < N)  # expect: FL941


# fuselight: stride_of_the_input(f32[20, 64])
def stride_of_the_input(x):
    if x.stride(1) != 1:
        raise ValueError("rows are contiguous")
    out = torch.empty(x.shape)
    one_stride[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=64)
    return out


@triton.jit
def by_batch(x, out, M, N, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    size = M * N * batch
    value = tl.load(x + size + at, mask=at < N)  # expect: FL944
    tl.store(out + batch.to(tl.int64) * N + at, value, mask=at < N)


# fuselight: product_of_sizes(f16[70, 16384, 4096])
def product_of_sizes(x):
    out = torch.empty(x.shape[0], x.shape[2], dtype=x.dtype)
    by_batch[(x.shape[0],)](x, out, x.shape[1], x.shape[2], BLOCK=4096)
    return out


@triton.jit
def pairs(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * N + at, mask=at < N, other=0.0)
    tl.store(out + row // 2, tl.sum(value))  # expect: FL942


# fuselight: two_rows_to_one(f32[8, 50])
def two_rows_to_one(x):
    out = torch.zeros((x.shape[0] + 1) // 2)
    pairs[(x.shape[0],)](x, out, x.shape[1], BLOCK=64)
    return out


@triton.jit
def skips_last(x, out, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    if program < tl.num_programs(0) - 1:
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)  # expect: FL943


# fuselight: last_program_idle(f32[1000])
def last_program_idle(x):
    out = torch.empty_like(x)
    skips_last[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out + 1


@triton.jit
def doubled(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)  # expect: FL943


# fuselight: grid_for_multiples(f32[1024])
def grid_for_multiples(x):
    out = torch.empty_like(x)
    doubled[(x.numel() // 256,)](x, out, x.numel(), BLOCK=256)
    return out + 1


@triton.jit
def block_copy(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    place = (tl.program_id(0) * BM, 0)
    source = tl.make_block_ptr(x, (M, N), (N, 1), place, (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (M, N), (N, 1), place, (BM, BN), (1, 0))
    tl.store(target, tl.load(source), boundary_check=(0, 1))  # expect: FL941


# fuselight: block_without_check(f32[32, 32])
def block_without_check(x):
    out = torch.empty_like(x)
    M, N = x.shape
    block_copy[(triton.cdiv(M, 16),)](x, out, M, N, BM=16, BN=32)
    return out


@triton.jit
def by_descriptor(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, BN], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row = tl.program_id(0) * BM
    target.store([row, 0], source.load([row, 0]))  # expect: FL941


# fuselight: descriptor_of_the_block(f32[30, 48])
def descriptor_of_the_block(x):
    out = torch.empty_like(x)
    M, N = x.shape
    by_descriptor[(triton.cdiv(M, 16),)](x, out, M, N, BM=16, BN=64)
    return out


@triton.jit
def row_peak(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(out + row, tl.max(tl.load(x + row * N + at, mask=at < N), 0))


def negative_peaks(x):
    return (-x.abs() - 1).amax(1)


# fuselight: peak_of_padding(f32[6, 50], reference=negative_peaks)
def peak_of_padding(x):
    x = -x.abs() - 1
    out = torch.empty(x.shape[0])
    row_peak[(x.shape[0],)](x, out, x.shape[1], BLOCK=64)  # expect: FL948
    return out


@triton.jit
def whole_blocks(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for block in range(N // BLOCK):
        total += tl.load(x + row * N + block * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + row, tl.sum(total))


def row_sums(x):
    return x.sum(1)


# fuselight: remainder_left_out(f32[6, 128], reference=row_sums)
def remainder_left_out(x):
    out = torch.empty(x.shape[0])
    whole_blocks[(x.shape[0],)](x, out, x.shape[1], BLOCK=32)  # expect: FL948
    return out


@triton.jit
def unmasked(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)  # expect: FL941
    tl.store(out + at, value + 1, mask=at < n)


# fuselight: multiples_only(bf16[1024])
def multiples_only(x):
    out = torch.empty_like(x)
    unmasked[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def stencil(x, out, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    above = tl.load(x + (row - 1) * N + at, mask=at < N, other=0.0)  # expect: FL941
    here = tl.load(x + row * N + at, mask=at < N, other=0.0)
    tl.store(out + row * N + at, here - above, mask=at < N)


# fuselight: row_before_the_first(f32[9, 40])
def row_before_the_first(x):
    out = torch.empty_like(x)
    stencil[(x.shape[0],)](x, out, x.shape[0], x.shape[1], BLOCK=64)
    return out


@triton.jit
def flat_copy(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


def same(x):
    return x.clone()


# fuselight: contiguous_only(f32[12, 20], reference=same)
def contiguous_only(x):
    out = torch.empty(x.shape)
    flat_copy[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)  # expect: FL948
    return out

"""Right kernels that look like the faults of `planted_kinds.py`, at the sizes of the directives and at others."""

import torch
import triton
import triton.language as tl


@triton.jit
def transposed_mask(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (columns[None, :] < N) & (rows[:, None] < M)
    value = tl.load(x + rows[:, None] * N + columns[None, :], mask=inside)
    tl.store(out + columns[None, :] * M + rows[:, None], value, mask=inside)


# fuselight: masks_of_both_axes(f32[20, 50])
def masks_of_both_axes(x):
    M, N = x.shape
    out = torch.empty(N, M)
    transposed_mask[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, out, M, N, BM=16, BN=16)
    return out


@triton.jit
def up_to_last(x, out, last, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at <= last), mask=at <= last)


# fuselight: inclusive_last(f32[1000])
def inclusive_last(x):
    out = torch.empty_like(x)
    up_to_last[(triton.cdiv(x.numel(), 256),)](x, out, x.numel() - 1, BLOCK=256)
    return out


@triton.jit
def both_strides(x, out, xs, xc, os, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * xs + at * xc, mask=at < N)
    tl.store(out + row * os + at, value, mask=at < N)


def same(x):
    return x.clone()


# fuselight: strides_of_each(f32[20, 64], reference=same)
def strides_of_each(x):
    out = torch.empty(x.shape)
    block = triton.next_power_of_2(x.shape[1])
    both_strides[(x.shape[0],)](x, out, x.stride(0), x.stride(1), out.stride(0), x.shape[1], BLOCK=block)
    return out


@triton.jit
def by_wide_batch(x, out, M, N, BLOCK: tl.constexpr):
    batch = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + batch * M * N + at, mask=at < N)
    tl.store(out + batch * N + at, value, mask=at < N)


# fuselight: wide_product(f16[70, 16384, 4096])
def wide_product(x):
    out = torch.empty(x.shape[0], x.shape[2], dtype=x.dtype)
    by_wide_batch[(x.shape[0],)](x, out, x.shape[1], x.shape[2], BLOCK=4096)
    return out


@triton.jit
def mark(flags, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(flags + at // 2, tl.full((BLOCK,), 1.0, tl.float32), mask=at < n)


# fuselight: equal_values(f32[1000])
def equal_values(x):
    flags = torch.zeros(x.numel() // 2 + 1)
    mark[(triton.cdiv(x.numel(), 256),)](flags, x.numel(), BLOCK=256)
    return flags


@triton.jit
def with_idle_program(x, out, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    if program < tl.num_programs(0) - 1:
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


# fuselight: one_program_more(f32[1000])
def one_program_more(x):
    out = torch.empty_like(x)
    with_idle_program[(triton.cdiv(x.numel(), 256) + 1,)](x, out, x.numel(), BLOCK=256)
    return out + 1


@triton.jit
def persistent(x, out, n, BLOCK: tl.constexpr):
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


# fuselight: fewer_programs(f32[1024])
def fewer_programs(x):
    out = torch.empty_like(x)
    persistent[(max(1, x.numel() // 512),)](x, out, x.numel(), BLOCK=256)
    return out + 1


@triton.jit
def block_copy(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    place = (tl.program_id(0) * BM, tl.program_id(1) * BN)
    source = tl.make_block_ptr(x, (M, N), (N, 1), place, (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (M, N), (N, 1), place, (BM, BN), (1, 0))
    tl.store(target, tl.load(source))


# fuselight: refuses_remainders(f32[32, 32])
def refuses_remainders(x):
    M, N = x.shape
    if M % 16 or N % 16:
        raise ValueError("sizes are multiples of 16")
    out = torch.empty_like(x)
    block_copy[(M // 16, N // 16)](x, out, M, N, BM=16, BN=16)
    return out


@triton.jit
def by_descriptor(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row = tl.program_id(0) * BM
    target.store([row, 0], source.load([row, 0]))


# fuselight: descriptor_of_the_tensor(f32[30, 48])
def descriptor_of_the_tensor(x):
    out = torch.empty_like(x)
    M, N = x.shape
    by_descriptor[(triton.cdiv(M, 16),)](x, out, M, N, BM=16, BN=64)
    return out


@triton.jit
def row_peak(x, out, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at, mask=at < N, other=-float("inf"))
    tl.store(out + row, tl.max(value, 0))


def peaks(x):
    return x.amax(1)


# fuselight: peak_without_padding(f32[6, 50], reference=peaks)
def peak_without_padding(x):
    x = x.contiguous()
    out = torch.empty(x.shape[0])
    row_peak[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def chosen_sum(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * N + at, mask=at < N)
    tl.store(out + row, tl.sum(tl.where(at < N, value, 0.0)))


def row_sums(x):
    return x.sum(1)


# fuselight: padding_left_out(f32[6, 50], reference=row_sums)
def padding_left_out(x):
    x = x.contiguous()
    out = torch.empty(x.shape[0])
    chosen_sum[(x.shape[0],)](x, out, x.shape[1], BLOCK=64)
    return out


@triton.jit
def halo(x, out, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    above = tl.load(x + (row - 1) * N + at, mask=(at < N) & (row > 0), other=0.0)
    here = tl.load(x + row * N + at, mask=at < N, other=0.0)
    tl.store(out + row * N + at, here - above, mask=at < N)


# fuselight: rows_with_halo(f32[9, 40])
def rows_with_halo(x):
    out = torch.empty(x.shape)
    halo[(x.shape[0],)](x, out, x.shape[0], x.shape[1], BLOCK=64)
    return out


@triton.jit
def rotated(x, cos, out, T, D: tl.constexpr):
    token = tl.program_id(0)
    at = tl.arange(0, D // 2)
    factor = tl.load(cos + (token % T) * (D // 2) + at)
    left, right = tl.load(x + token * D + at), tl.load(x + token * D + D // 2 + at)
    tl.store(out + token * D + at, left * factor)
    tl.store(out + token * D + D // 2 + at, right * factor)


# fuselight: half_table(f32[12, 32], f32[12, 16])
def half_table(x, cos):
    out = torch.empty(x.shape)
    rotated[(x.shape[0],)](x, cos, out, cos.shape[0], D=x.shape[1])
    return out


@triton.jit
def grouped_heads(q, k, out, GROUP: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(q + head * D + at, mask=at < D) * tl.load(k + head // GROUP * D + at, mask=at < D)
    tl.store(out + head * D + at, value, mask=at < D)


# fuselight: shared_heads(f32[8, 24], f32[2, 24])
def shared_heads(q, k):
    out = torch.empty(q.shape)
    grouped_heads[(q.shape[0],)](q, k, out, GROUP=q.shape[0] // k.shape[0], D=q.shape[1], BLOCK=32)
    return out


@triton.jit
def scaled_groups(x, scales, out, N, GROUPS, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    scale = tl.load(scales + row * GROUPS + at // GROUP, mask=at < N)
    tl.store(out + row * N + at, tl.load(x + row * N + at, mask=at < N) * scale, mask=at < N)


# fuselight: scale_of_each_group(f32[6, 100], f32[6, 4])
def scale_of_each_group(x, scales):
    out = torch.empty(x.shape)
    scaled_groups[(x.shape[0],)](x, scales, out, x.shape[1], scales.stride(0), GROUP=32, BLOCK=128)
    return out


WEIGHT = torch.arange(64.0)


@triton.jit
def weighted(x, weight, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * N + at, mask=at < N) * tl.load(weight + at)
    tl.store(out + row * N + at, value, mask=at < N)


# fuselight: global_weight(f32[5, 64])
def global_weight(x):
    out = torch.empty(x.shape)
    weighted[(x.shape[0],)](x, WEIGHT, out, x.shape[1], BLOCK=64)
    return out


@triton.jit
def last_block_first(x, out, n, BLOCK: tl.constexpr):
    first = tl.minimum(tl.program_id(0) * BLOCK, n - BLOCK)
    at = first + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * 2)


# fuselight: overlapping_tail(f32[1024])
def overlapping_tail(x):
    out = torch.empty_like(x)
    last_block_first[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def single_size(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * 2)


# fuselight: one_block(f32[64])
def one_block(x):
    out = torch.empty_like(x)
    single_size[(1,)](x, out, BLOCK=64)
    return out

"""Triton kernels without `tl.dot` whose estimated times are compared with a GPU (triton_times.py): loops that wait, atomic
operations on few and on many elements, and short kernels.

Each function with a directive makes one launch.
"""

import torch
import triton
import triton.language as tl

from tests.cases.launches import right_kernels


@triton.jit
def row_loop_kernel(x, out, N, MAXIMUM: tl.constexpr, BLOCK: tl.constexpr):
    """One program a row, which goes through it twice: the largest element, then the sum of the exponentials."""
    first = tl.program_id(0).to(tl.int64) * N
    peak = tl.full((BLOCK,), -float("inf"), tl.float32)
    for at in range(0, N, BLOCK):
        place = at + tl.arange(0, BLOCK)
        peak = tl.maximum(peak, tl.load(x + first + place, mask=place < N, other=-float("inf")))
    top = tl.max(peak)
    if not MAXIMUM:
        total = tl.zeros((BLOCK,), tl.float32)
        for at in range(0, N, BLOCK):
            place = at + tl.arange(0, BLOCK)
            total += tl.exp(tl.load(x + first + place, mask=place < N, other=-float("inf")) - top)
        top += tl.log(tl.sum(total))
    tl.store(out + tl.program_id(0), top)


def row_loop(x, block, maximum=False):
    out = torch.empty(x.shape[0], device=x.device)
    row_loop_kernel[(x.shape[0],)](x, out, x.shape[1], MAXIMUM=maximum, BLOCK=block)
    return out


# fuselight: maximum_of_long_rows(f32[2048, 65536])
def maximum_of_long_rows(x):
    return row_loop(x, 1024, maximum=True)


# fuselight: log_sum_of_rows(f32[8192, 8192])
def log_sum_of_rows(x):
    return row_loop(x, 512)


@triton.jit
def column_sum_kernel(x, out, M, N, BLOCK: tl.constexpr):
    """Few programs, each of which goes down its columns."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(M):
        total += tl.load(x + row.to(tl.int64) * N + at)
    tl.store(out + at, total)


# fuselight: column_sum(f32[2048, 16384])
def column_sum(x):
    out = torch.empty(x.shape[1], device=x.device)
    column_sum_kernel[(x.shape[1] // 128,)](x, out, *x.shape, BLOCK=128)
    return out


@triton.jit
def long_scan_kernel(x, out, N, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * N
    carry = 0.0
    for at in range(0, N, BLOCK):
        place = first + at + tl.arange(0, BLOCK)
        value = tl.load(x + place)
        tl.store(out + place, tl.cumsum(value, 0) + carry)
        carry += tl.sum(value)


# fuselight: scan_of_wide_blocks(f32[4096, 16384])
def scan_of_wide_blocks(x):
    out = torch.empty_like(x)
    long_scan_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024)
    return out


@triton.jit
def persistent_kernel(x, y, out, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    """As many programs as multiprocessors hold, each with every so many blocks."""
    for first in range(tl.program_id(0) * BLOCK, n, PROGRAMS * BLOCK):
        at = first + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) * tl.load(y + at, mask=at < n), mask=at < n)


# fuselight: persistent_product(f32[33554432], f32[33554432])
def persistent_product(x, y):
    out = torch.empty_like(x)
    persistent_kernel[(528,)](x, y, out, x.numel(), PROGRAMS=528, BLOCK=1024)
    return out


# fuselight: histogram_of_4096(i64[4194304] % 4096)
def histogram_of_4096(values):
    counts = torch.zeros(4096, dtype=torch.int32, device=values.device)
    right_kernels.histogram_kernel[(triton.cdiv(values.numel(), 128),)](values, counts, values.numel(), BLOCK=128)
    return counts


# fuselight: histogram_of_a_million(i64[4194304] % 1048576)
def histogram_of_a_million(values):
    counts = torch.zeros(1048576, dtype=torch.int32, device=values.device)
    right_kernels.histogram_kernel[(triton.cdiv(values.numel(), 128),)](values, counts, values.numel(), BLOCK=128)
    return counts


@triton.jit
def total_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))


# fuselight: total_of_blocks(f32[67108864])
def total_of_blocks(x):
    out = torch.zeros(1, device=x.device)
    total_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


@triton.jit
def column_total_kernel(x, out, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(out + at, tl.load(x + tl.program_id(0).to(tl.int64) * N + at, mask=at < N), mask=at < N)


# fuselight: column_total(f32[16384, 2048])
def column_total(x):
    out = torch.zeros(x.shape[1], device=x.device)
    column_total_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=2048)
    return out


@triton.jit
def scatter_kernel(x, index, out, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    target = tl.load(index + row)
    tl.atomic_add(out + target * N + at, tl.load(x + row * N + at))


# fuselight: scatter_of_rows(f32[32768, 1024], i64[32768] % 16384)
def scatter_of_rows(x, index):
    out = torch.zeros(16384, x.shape[1], device=x.device)
    scatter_kernel[(x.shape[0],)](x, index, out, x.shape[1], BLOCK=1024)
    return out


# fuselight: tiny_add(f32[1024], f32[1024])
def tiny_add(x, y):
    return right_kernels.add(x, y)


# fuselight: add_of_a_million(f32[1048576], f32[1048576])
def add_of_a_million(x, y):
    return right_kernels.add(x, y)


# fuselight: small_softmax(f32[256, 1024])
def small_softmax(x):
    return right_kernels.softmax(x)


# fuselight: small_rms_norm(bf16[512, 4096], bf16[4096])
def small_rms_norm(x, weight):
    return right_kernels.rms_norm(x, weight)


REFERENCES = {}
"""Results of kernels with `tl.dot`: there are none here."""

"""Maxima and minima over blocks of which a mask leaves some elements out: wrong ones, and right ones like them."""

import torch
import triton
import triton.language as tl


@triton.jit
def largest(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + row, tl.max(value, 0))  # expect: FL950


@triton.jit
def smallest(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0).to(tl.float32)
    low = tl.min(value, 0)  # expect: FL950
    tl.store(out + row, low)


@triton.jit
def place_of_largest(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n)
    tl.store(out + row, tl.argmax(value, 0))  # expect: FL950


@triton.jit
def by_parts(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        most = tl.maximum(most, tl.load(x + row * n + at, mask=at < n, other=0.0))
    tl.store(out + row, tl.max(most, 0))  # expect: FL950


@triton.jit
def by_part_maxima(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    most = -float("inf")
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n, other=0.0)
        most = tl.maximum(most, tl.max(value, 0))  # expect: FL950
    tl.store(out + row, most)


@triton.jit
def tile(x, out, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    mask = (row[:, None] < rows) & (at[None, :] < n)
    value = tl.load(x + row[:, None] * n + at[None, :], mask=mask, other=0.0)
    tl.store(out + row, tl.max(value, axis=1), mask=row < rows)  # expect: FL950


@triton.jit
def whole_rows(x, out, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The mask leaves out whole rows, which are not stored."""
    row, at = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    value = tl.load(x + row[:, None] * BLOCK + at[None, :], mask=row[:, None] < rows, other=0.0)
    tl.store(out + row, tl.max(value, axis=1), mask=row < rows)


@triton.jit
def infinite(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    tl.store(out + row, tl.max(value, 0))


@triton.jit
def absolute(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + row, tl.max(tl.abs(value), 0))


@triton.jit
def not_negative(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.maximum(tl.load(x + row * n + at, mask=at < n, other=0.0), 0.0)
    tl.store(out + row, tl.max(value, 0))


@triton.jit
def limited(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + row, tl.maximum(tl.max(value, 0), 1e-6))


@triton.jit
def from_zero(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    most = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        most = tl.maximum(most, tl.load(x + row * n + at, mask=at < n, other=0.0))
    tl.store(out + row, tl.max(most, 0))


@triton.jit
def chosen_later(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + row, tl.max(tl.where(at < n, value, -float("inf")), 0))


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    """Any number near the maximum does, as it is only subtracted."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    power = tl.where(at < n, tl.exp(value - tl.max(value, 0)), 0.0)
    tl.store(out + row * n + at, power / tl.sum(power, 0), mask=at < n)


WRONG = (largest, smallest, place_of_largest, by_parts, by_part_maxima)
RIGHT = (infinite, absolute, not_negative, limited, from_zero, chosen_later)


# fuselight: wrong(f32[3, 100])
# fuselight: wrong(bf16[3, 100])
def wrong(x):
    out = torch.empty(3)
    for kernel in WRONG:
        kernel[(3,)](x, out, 100, BLOCK=64 if kernel in (by_parts, by_part_maxima) else 128)
    tile[(2,)](x, out, 3, 100, ROWS=2, BLOCK=128)
    return out


# fuselight: right(f32[3, 100])
# fuselight: right(bf16[3, 100])
def right(x):
    out = torch.empty(3)
    for kernel in RIGHT:
        kernel[(3,)](x, out, 100, BLOCK=64 if kernel is from_zero else 128)
    whole_rows[(2,)](torch.randn(3, 128), out, 3, 128, ROWS=2, BLOCK=128)
    softmax[(3,)](x, torch.empty(3, 100), 100, BLOCK=128)
    return out


# fuselight: right_inputs(f32[3, 100], f32[3, 128])
def right_inputs(x, whole):
    out = torch.empty(3)
    for kernel in (largest, place_of_largest, by_parts):
        kernel[(3,)](x.relu(), out, 100, BLOCK=64 if kernel is by_parts else 128)
        kernel[(3,)](whole, out, 128, BLOCK=128)
    largest[(3,)](x > 0, out, 100, BLOCK=128)
    largest[(3,)]((100 * x.abs()).to(torch.uint8), out, 100, BLOCK=128)
    return out

"""Kernels whose addresses are checked without values. tests/worker/adapters/test_triton_address_check.py imports it."""

import triton
import triton.language as tl


@triton.jit
def gathered(x, index, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = tl.load(index + at) * 5 + 1000
    tl.store(out + at, tl.load(x + place))  # OPEN: index


@triton.jit
def masked_by_memory(x, index, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.load(index + tl.arange(0, BLOCK)) != 0
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + at, mask=keep))  # OPEN: mask


@triton.jit
def branches(x, index, out, BLOCK: tl.constexpr):
    if tl.load(index + tl.program_id(0)) > 3:  # OPEN: branch
        tl.store(out + 1000, 1.0)
    else:
        tl.store(out + 2000, tl.load(x))


@triton.jit
def accumulated_offset(x, index, out, BLOCK: tl.constexpr):
    place = tl.load(index) * 0
    for step in range(100):
        place += step * step
    tl.store(out + place, tl.load(x))  # OPEN: sum


@triton.jit
def through_pointers(x, index, out, BLOCK: tl.constexpr):
    pointer = tl.load(index).to(tl.pointer_type(tl.float32))
    tl.store(out, tl.load(pointer) + tl.load(x))  # OPEN: pointer


@triton.jit
def by_block_pointer(x, index, out, BLOCK: tl.constexpr):
    first = tl.load(index).to(tl.int32)
    source = tl.make_block_ptr(x, (100,), (1,), (first,), (BLOCK,), (0,))
    tl.store(out + tl.arange(0, BLOCK), tl.load(source))  # OPEN: block


@triton.jit
def by_assembly(x, index, out, BLOCK: tl.constexpr):
    text: tl.constexpr = "{ add.s32 $0, $1, 5000; }"
    at = tl.inline_asm_elementwise(text, "=r,r", [tl.arange(0, BLOCK)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)))
    tl.store(out + at, 1.0)  # OPEN: assembly


@triton.jit
def reduced_index(x, index, out, BLOCK: tl.constexpr):
    best = tl.argmax(tl.load(x + tl.arange(0, BLOCK)), 0)
    total = tl.cumsum(tl.load(index + tl.arange(0, BLOCK)), 0) + best
    tl.store(out + total, 1.0)  # OPEN: reduction


@triton.jit
def hashed(table, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mixed = at * 73856093 + 19349663
    place = (mixed ^ (mixed >> 15)) & 127
    tl.store(out + at, tl.load(table + place))


@triton.jit
def nested_loops(x, out, rows, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    pointer = x + tl.program_id(0).to(tl.int64) * rows * BLOCK + at
    total = tl.zeros((BLOCK,), tl.float32)
    last = 0
    for row in range(0, rows, 100):
        inner = pointer
        for _ in range(100):
            total += tl.load(inner)
            inner = inner + BLOCK
        pointer += 100 * BLOCK
        last = row * row % 7
    tl.store(out + tl.program_id(0), tl.sum(total) + last)


@triton.jit
def doubled(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def without_mask(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * 2, mask=at < n)

"""What the units of a GPU reach, each by itself: the throughputs of the estimate of Triton kernels (docs/results/triton.md).

    python benchmarks/studies/gpu_units.py

Prints a line for each: products of `tl.dot` on data that is in registers (TFLOP/s), reads of a buffer of some MB by all
multiprocessors (GB/s), the time to begin a program that does nothing (ns), and from a load to its value (ns).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

PROCESSORS = torch.cuda.get_device_properties(0).multi_processor_count
SHAPES = (
    (128, 256, 64, 8, 1, "bf16"), (128, 128, 64, 8, 1, "bf16"), (64, 64, 64, 4, 4, "bf16"), (64, 128, 64, 4, 2, "bf16"),
    (32, 32, 32, 4, 8, "bf16"), (16, 64, 128, 4, 4, "bf16"), (32, 128, 64, 4, 4, "bf16"), (64, 64, 64, 2, 4, "bf16"),
    (128, 128, 32, 8, 1, "tf32"), (32, 32, 32, 4, 8, "tf32"), (64, 64, 32, 4, 4, "f32"), (128, 128, 128, 8, 1, "i8"),
)  # fmt: skip
"""Rows, columns, depth, warps, programs of a multiprocessor, and the dtype."""
KINDS = {"bf16": tl.bfloat16, "tf32": tl.float32, "f32": tl.float32, "i8": tl.int8}


@triton.jit
def products(
    out, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, KIND: tl.constexpr, SUM: tl.constexpr, P: tl.constexpr
):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = ((rows[:, None] * 7 + inner[None, :] * 3 + tl.program_id(0)) % 5 - 2).to(KIND)
    b = ((inner[:, None] * 5 + columns[None, :] * 3) % 7 - 3).to(KIND)
    total = tl.zeros((M, N), SUM)
    for _ in range(n):
        total = tl.dot(a, b, total, input_precision=P, out_dtype=SUM)
    tl.store(out + tl.program_id(0) % 2 * M * N + rows[:, None] * N + columns[None, :], total.to(tl.float32))


@triton.jit
def reads(x, out, n, total, PROGRAMS: tl.constexpr, STEP: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * STEP
    sums = tl.zeros((STEP,), tl.int32)
    for _ in range(n):
        sums += tl.load(x + at + tl.arange(0, STEP))
        at = (at + PROGRAMS * STEP) % total
    tl.store(out + tl.program_id(0) * STEP + tl.arange(0, STEP), sums)


@triton.jit
def nothing(out, n):
    if tl.program_id(0) < n:
        tl.store(out, 1)


@triton.jit
def chase(x, out, n, first):
    place = first + tl.program_id(0)
    for _ in range(n):
        place = tl.load(x + place)
    tl.store(out + tl.program_id(0), place)


def once(run: Callable[[], Any]) -> float:
    """Microseconds of the GPU."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3


def median(run: Callable[[], Any]) -> float:
    run()
    return statistics.median(once(run) for _ in range(7))


def main() -> None:
    out = torch.empty(PROCESSORS * 8 * 2048, dtype=torch.int32, device="cuda")
    sums = torch.empty(1 << 22, device="cuda")
    for m, n, k, warps, programs, dtype in SHAPES:
        loops = max(200, (1000 if dtype == "f32" else 20000) * 2**20 // (m * n * k) // programs // 4)

        def product(times: int) -> None:
            kind = KINDS[dtype]
            of = tl.int32 if dtype == "i8" else tl.float32
            precision = "ieee" if dtype == "f32" else "tf32"
            products[(PROCESSORS * programs,)](sums, times, m, n, k, kind, of, precision, num_warps=warps)

        us = median(lambda: product(2 * loops)) - median(lambda: product(loops))
        print("products", m, n, k, f"{warps} warps", programs, dtype, round(2 * m * n * k * loops * PROCESSORS * programs / us / 1e6))
    for size in (8, 24, 40, 2048):
        total = size * 2**20 // 4
        x = torch.randint(0, 9, (total + 2048,), dtype=torch.int32, device="cuda")

        def read(times: int) -> None:
            reads[(PROCESSORS * 8,)](x, out, times, total, PROCESSORS * 8, 2048, num_warps=8)

        us = median(lambda: read(600)) - median(lambda: read(200))
        print("reads of", size, "MB", round(400 * PROCESSORS * 8 * 2048 * 4 / us / 1e3))
    for warps in (1, 4, 16):
        us = median(lambda: nothing[(1 << 22,)](out, 0, num_warps=warps)) - median(lambda: nothing[(1 << 21,)](out, 0, num_warps=warps))
        print("begin a program of", warps, "warps", round(us / 2**21 * 1e3, 3))
    count = 2**32 // 128
    places = torch.randperm(count, device="cuda") * 32
    x = torch.zeros(count * 32, dtype=torch.int32, device="cuda")
    x[places] = places.roll(-1).to(torch.int32)
    for kind in ("memory", "cache"):  # a place from which no launch has started yet, or the same one again
        starts = [int(places[20000 * at if kind == "memory" else 0]) for at in range(1, 17)]
        chase[(1,)](x, out, 6000, starts[-1], num_warps=1)
        long = statistics.median(once(lambda: chase[(1,)](x, out, 6000, at, num_warps=1)) for at in starts[:7])
        short = statistics.median(once(lambda: chase[(1,)](x, out, 2000, at, num_warps=1)) for at in starts[7:14])
        print("a load from", kind, round((long - short) / 4000 * 1e3))


if __name__ == "__main__":
    main()

"""Which of Inductor's kernels for a multiplication or convolution are worth compiling and timing.

Inductor's templates make some twenty kernels for each. Many of them take twice as long as the fastest: too few of their
loads are under way at a time, or their tiles leave multiprocessors without work. Invariant: what is kept depends on
sizes, tiles and the GPU alone, by an estimate, never on a measurement; the library's implementations are always kept.
"""

from __future__ import annotations

import heapq
import importlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.adapters.torch_api.inductor.size_hints import lowered_hint

_SETTING = re.compile(r"(\w+)=(\w+)")
"""A setting in the description of a choice: `BLOCK_M=64`."""
_COUNTER = re.compile(r"_\d+$")
"""What follows the template's name in that of a choice."""
_CONVOLUTION = re.compile(r"(triton_)?convolution[23]d(_\d+)?$")
_SPLIT = "k_split"
"""The setting of a choice that is a graph of its own: a batch of multiplications, and their sum."""
_MAX_SPLITS = 2
"""Inductor compiles each of these as a graph, which takes seconds."""
_SPLIT_TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_stages": 4, "num_warps": 8}
"""What the library's batch of multiplications is assumed to use."""

_GPUS = ("cuda", "xpu")

# Of an H100, in microseconds and bytes: by its data sheet, and fitted to the times of some sixty kernels in published
# logs of torch's autotuning (half precision, 64 and 128 rows). The number of multiprocessors and the shared memory are
# those of the GPU itself.
_LATENCY = 1.2
"""From the request of a tile to its arrival."""
_STEP, _STEP_OF_K = 0.3, 0.0025
"""The shortest step of the loop over what is summed: a barrier, and the tensor cores' time for the tile's depth."""
_START = 2.0
"""Start of a block, and its writing of the result."""
_L2, _MEMORY = 7e6, 2.4e6
"""Bytes per microsecond of the whole GPU."""
_RATES = {1: 1.5e7, 2: 7.5e6, 4: 0.5e6}
"""Operations per microsecond of one multiprocessor by bytes of an element, TF32 not allowed."""
_TF32 = 3.7e6
_REACHED = {64: 0.4, 128: 0.5, 256: 0.65}
"""The part of that rate which a tile reaches, by the sum of its sides; smaller ones cannot use a whole warp group."""
_REACHED_LEAST = 0.2
_GROUP_ROWS = 64
"""Rows of the smallest tile of a warp group."""
_WITH_GROUPS = (9, 10)
"""Major compute capabilities: Hopper, and the data-center GPUs after it."""
_MULTIPROCESSORS, _SHARED = 64, 64 * 1024
"""Of a GPU that does not say."""
_WARPS, _BLOCKS, _REGISTERS = 64, 16, 65536
"""What a multiprocessor holds at most."""


@dataclass(frozen=True)
class Gpu:
    """What kernels differ by from GPU to GPU."""

    multiprocessors: int
    shared: int
    """Bytes of shared memory that a block may have."""
    warp_groups: bool
    """Whether four warps multiply together: they read every stage from shared memory."""


@dataclass(frozen=True)
class Multiplication:
    """`batches` products of matrices of `m` x `k` and `k` x `n`; a convolution is one per group."""

    batches: int
    m: int
    n: int
    k: int
    element: int
    """Bytes of an element of the operands."""
    pieces: int = 1
    """Sums that are added up one after the other: those of a convolution's window."""


def promising(choices: Sequence[Any], nodes: Sequence[Any], layout: Any, most: int) -> list[Any]:
    """The choices that are worth timing, in their order.

    Those are the library's, those without an estimate, and of each template the `most` that are expected to be the
    fastest: the estimate does not tell one template from another. `nodes` and `layout` are the inputs and the result of
    the operator, as Inductor's selection has them.
    """
    if layout.device.type not in _GPUS:
        return list(choices)
    gpu = _gpu(layout.device)
    expected: dict[str, dict[int, float]] = {}
    for place, choice in enumerate(choices):
        settings = dict(_SETTING.findall(str(getattr(choice, "description", ""))))
        try:
            work = _work(choice.name, settings, nodes, layout)
            if _SPLIT in settings:
                expected.setdefault(_SPLIT, {})[place] = _split_us(work, int(settings[_SPLIT]), gpu)
            elif "BLOCK_M" in settings:
                template = _COUNTER.sub("", choice.name)
                expected.setdefault(template, {})[place] = expected_us(work, settings, gpu)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            continue  # not a multiplication as it is known here: Inductor times it
    slow: set[int] = set()
    for template, times in expected.items():
        few = heapq.nsmallest(_MAX_SPLITS if template == _SPLIT else most, times, key=times.__getitem__)
        slow.update(times.keys() - few)
    return [choice for place, choice in enumerate(choices) if place not in slow]


def expected_us(work: Multiplication, settings: dict[str, Any], gpu: Gpu) -> float:
    """Roughly how long a kernel of a template takes on a GPU, in microseconds. Its order counts, not its value.

    Infinite for one that needs too much shared memory to run. `settings` has BLOCK_M, BLOCK_N, BLOCK_K, num_stages and
    num_warps. Raises KeyError without one of them.
    """
    rows, columns, depth = (int(settings[name]) for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    stages, warps = int(settings["num_stages"]), int(settings["num_warps"])
    blocks = work.batches * math.ceil(work.m / rows) * math.ceil(work.n / columns)
    tile = (rows + columns) * depth * work.element
    is_half, fills_group = work.element <= 2, min(rows, columns) >= _GROUP_ROWS  # noqa: PLR2004 - bytes
    reads_all = (
        gpu.warp_groups and is_half and fills_group
    )  # others need the room of one stage less, at least
    if max(1, stages if reads_all else stages - 1) * tile > gpu.shared:
        return math.inf
    together = max(
        1,
        min(
            gpu.shared // (max(1, stages) * tile),
            _WARPS // warps,
            _BLOCKS,
            _REGISTERS // (rows * columns + 64 * 32 * warps),  # the sums, and the addresses of each thread
            math.ceil(blocks / gpu.multiprocessors),
        ),
    )
    running = min(blocks, gpu.multiprocessors * together)
    on_one = math.ceil(running / gpu.multiprocessors)
    reached = next((part for sides, part in reversed(_REACHED.items()) if rows + columns >= sides), 0.0)
    if is_half and not fills_group:
        reached = _REACHED_LEAST
    exact = work.element != 4 or settings.get("ALLOW_TF32") != "True"  # noqa: PLR2004 - of float32 alone
    rate = _RATES.get(work.element, _RATES[4]) if exact else _TF32
    step = max(
        _LATENCY / max(1, stages - 1),
        _STEP + _STEP_OF_K * depth,
        tile * running / _L2,
        2 * rows * columns * depth * on_one / (rate * (reached or _REACHED_LEAST)),
    )
    waves = blocks / (gpu.multiprocessors * together)
    waves = max(1.0, (waves + math.ceil(waves)) / 2)  # the blocks of the last one start as others end
    moved = work.batches * work.element * (work.m * work.k + work.k * work.n + work.m * work.n)
    steps = work.pieces * math.ceil(work.k / work.pieces / depth)
    return max(waves * (steps * step + _START), moved / _MEMORY)


def _split_us(work: Multiplication, split: int, gpu: Gpu) -> float:
    """Of a multiplication whose sums are cut into `split` parts, with the sum of the parts."""
    part = Multiplication(split, work.m, work.n, work.k // split, work.element)
    parts = 4 * split * work.m * work.n  # in float32: written, and read again
    return expected_us(part, _SPLIT_TILE, gpu) + 2 * parts / _MEMORY + _START


def _work(name: str, settings: dict[str, str], nodes: Sequence[Any], layout: Any) -> Multiplication:
    """What a choice computes. Raises ValueError if that is no multiplication as it is known here."""
    if "KERNEL_H" in settings:
        if not _CONVOLUTION.match(name):
            raise ValueError(f"{name} is a gradient")
        groups = int(settings["GROUPS"])
        rows, columns, *image = layout.size
        _, channels, *window = nodes[1].get_size()
        return Multiplication(
            groups,
            lowered_hint([rows, *image]),
            lowered_hint([columns]) // groups,
            lowered_hint([channels, *window]),
            nodes[1].get_dtype().itemsize,
            lowered_hint(window),
        )
    sizes = [[lowered_hint([size]) for size in node.get_size()] for node in nodes[-2:]]
    (*batches, m, k), (*others, inner, n) = sizes
    if [*batches, m, n] != [lowered_hint([size]) for size in layout.size] or others != batches or k != inner:
        raise ValueError(f"{name} of {sizes} has other operands: scales, for example")
    if k == 1:  # which Inductor makes no multiplication of: those are scales of rows and columns
        raise ValueError(f"{name} of {sizes} has nothing to sum over")
    return Multiplication(math.prod(batches), m, n, k, nodes[-1].get_dtype().itemsize)


def _gpu(device: Any) -> Gpu:
    interfaces: Any = importlib.import_module("torch._dynamo.device_interface")
    properties = interfaces.get_interface_for_device(device.type).get_device_properties(device)
    names = ("multi_processor_count", "gpu_subslice_count")  # the second of an Intel GPU
    count = next(
        (count_of_property for name in names if (count_of_property := getattr(properties, name, None))),
        _MULTIPROCESSORS,
    )
    shared = getattr(properties, "shared_memory_per_block_optin", None) or _SHARED
    has_groups = torch.version.hip is None and getattr(properties, "major", 0) in _WITH_GROUPS
    return Gpu(int(count), int(shared), warp_groups=has_groups)

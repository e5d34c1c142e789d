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

from fuselight.torch_api.size_hints import lowered_hint

_SETTING = re.compile(r"(\w+)=(\w+)")
"""A setting in the description of a choice: `BLOCK_M=64`."""
_COUNTER = re.compile(r"_\d+$")
"""What follows the template's name in that of a choice."""
_SPLIT = "k_split"
"""The setting of a choice that is a graph of its own: a batch of multiplications, and their sum."""
_MOST_SPLITS = 2
"""Inductor compiles each of these as a graph, which takes seconds."""
_SPLIT_TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_stages": 4, "num_warps": 8}
"""What the library's batch of multiplications is assumed to use."""

# Of an H100, in microseconds and bytes: other recent GPUs change the times and hardly the order.
_LATENCY = 1.2
"""From the request of a tile to its arrival."""
_STEP, _STEP_OF_K = 0.3, 0.0025
"""The shortest step of the loop over what is summed: a barrier, and the tensor cores' time for the tile's depth."""
_START = 2.0
"""Start of a block, and its writing of the result."""
_L2, _MEMORY = 7e6, 2.4e6
"""Bytes per microsecond of the whole GPU."""
_RATES = {2: 7.5e6, 4: 0.5e6}
"""Operations per microsecond of one multiprocessor by bytes of an element, TF32 not allowed."""
_TF32 = 3.7e6
_REACHED = {64: 0.4, 128: 0.5, 256: 0.65}
"""The part of that rate which a tile reaches, by the sum of its sides; smaller ones cannot use a whole warp group."""
_REACHED_LEAST = 0.2
_SHARED = 227 * 1024
_WARPS = 64
_BLOCKS = 16
"""Bytes of shared memory, warps and blocks that a multiprocessor holds at most."""
_REGISTERS = 65536


@dataclass(frozen=True)
class Multiplication:
    """`batches` products of matrices of `m` x `k` and `k` x `n`; a convolution is one per group."""

    batches: int
    m: int
    n: int
    k: int
    element: int
    """Bytes of an element."""


def promising(choices: Sequence[Any], nodes: Sequence[Any], layout: Any, most: int) -> list[Any]:
    """The choices that are worth timing, in their order.

    Those are the library's, those without an estimate, and of each template the `most` that are expected to be the
    fastest: the estimate does not tell one template from another. `nodes` and `layout` are the inputs and the result of
    the operator, as Inductor's selection has them.
    """
    multiprocessors = _multiprocessors(layout.device)
    expected: dict[str, dict[int, float]] = {}
    for place, choice in enumerate(choices):
        settings = dict(_SETTING.findall(str(getattr(choice, "description", ""))))
        try:
            work = _work(settings, nodes, layout)
            if _SPLIT in settings:
                expected.setdefault(_SPLIT, {})[place] = _split_us(
                    work, int(settings[_SPLIT]), multiprocessors
                )
            elif "BLOCK_M" in settings:
                template = _COUNTER.sub("", choice.name)
                expected.setdefault(template, {})[place] = expected_us(work, settings, multiprocessors)
        except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError):
            continue  # not a multiplication as it is known here: Inductor times it
    slow: set[int] = set()
    for template, times in expected.items():
        few = heapq.nsmallest(_MOST_SPLITS if template == _SPLIT else most, times, key=times.__getitem__)
        slow.update(times.keys() - few)
    return [choice for place, choice in enumerate(choices) if place not in slow]


def expected_us(work: Multiplication, settings: dict[str, Any], multiprocessors: int) -> float:
    """Roughly how long a kernel of a template takes on a GPU, in microseconds. Its order counts, not its value.

    `settings` has BLOCK_M, BLOCK_N, BLOCK_K, num_stages and num_warps. Raises KeyError without one of them.
    """
    rows, columns, depth = (int(settings[name]) for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    stages, warps = int(settings["num_stages"]), int(settings["num_warps"])
    blocks = work.batches * math.ceil(work.m / rows) * math.ceil(work.n / columns)
    tile = (rows + columns) * depth * work.element
    together = max(
        1,
        min(
            _SHARED // (max(1, stages) * tile),
            _WARPS // warps,
            _BLOCKS,
            _REGISTERS // (rows * columns + 64 * 32 * warps),  # the sums, and the addresses of each thread
            math.ceil(blocks / multiprocessors),
        ),
    )
    running = min(blocks, multiprocessors * together)
    on_one = math.ceil(running / multiprocessors)
    reached = next((part for sides, part in reversed(_REACHED.items()) if rows + columns >= sides), 0.0)
    if min(rows, columns) < 64 and work.element == 2:  # noqa: PLR2004 - a warp group has 64 rows, in half precision
        reached = _REACHED_LEAST
    rate = _TF32 if settings.get("ALLOW_TF32") == "True" else _RATES.get(work.element, _RATES[4])
    step = max(
        _LATENCY / max(1, stages - 1),
        _STEP + _STEP_OF_K * depth,
        tile * running / _L2,
        2 * rows * columns * depth * on_one / (rate * (reached or _REACHED_LEAST)),
    )
    waves = blocks / (multiprocessors * together)
    waves = max(1.0, (waves + math.ceil(waves)) / 2)  # the blocks of the last one start as others end
    moved = work.batches * work.element * (work.m * work.k + work.k * work.n + work.m * work.n)
    return max(waves * (math.ceil(work.k / depth) * step + _START), moved / _MEMORY)


def _split_us(work: Multiplication, split: int, multiprocessors: int) -> float:
    """Of a multiplication whose sums are cut into `split` parts, with the sum of the parts."""
    part = Multiplication(split, work.m, work.n, work.k // split, work.element)
    parts = 4 * split * work.m * work.n  # in float32: written, and read again
    return expected_us(part, _SPLIT_TILE, multiprocessors) + 2 * parts / _MEMORY + _START


def _work(settings: dict[str, str], nodes: Sequence[Any], layout: Any) -> Multiplication:
    """What a choice computes. Raises ValueError if that is no multiplication."""
    element = torch.empty((), dtype=layout.dtype).element_size()
    if "KERNEL_H" in settings:
        groups = int(settings["GROUPS"])
        rows, columns, *image = layout.size
        of_weight = nodes[1].get_size()[1:]
        return Multiplication(
            groups,
            lowered_hint([rows, *image]),
            lowered_hint([columns]) // groups,
            lowered_hint(of_weight),
            element,
        )
    first, second = (node.get_size() for node in nodes[-2:])
    made = Multiplication(
        lowered_hint(first[:-2]),
        lowered_hint(first[-2:-1]),
        lowered_hint(second[-1:]),
        lowered_hint(first[-1:]),
        element,
    )
    if len(first) < 2 or len(second) != len(first) or made.k == 1:  # noqa: PLR2004 - scales are rows and columns
        raise ValueError(f"no multiplication of {first} and {second}")
    return made


def _multiprocessors(device: Any) -> int:
    interfaces: Any = importlib.import_module("torch._dynamo.device_interface")
    properties = interfaces.get_interface_for_device(device.type).get_device_properties(device)
    return max(1, int(getattr(properties, "multi_processor_count", 1)))

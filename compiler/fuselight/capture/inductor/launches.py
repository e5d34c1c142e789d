"""Converts one kernel launch in Inductor's wrapper to a Kernel: its operators, the bytes that it moves, its source.

Invariant: the bytes of a scheduler node are counted at its first launch only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from fuselight.adapters.virtual_gpu import scheduler_nodes
from fuselight.adapters.virtual_gpu.traffic import traffic
from fuselight.capture.dynamo import stacks
from fuselight.shared import generated_code
from fuselight.shared.devices import estimate
from fuselight.shared.report import Device, FusedOperator, Kernel, KernelKind, Stack


def read_launch(
    name: str, nodes: Sequence[Any], members: Sequence[Any], launch: int, device: Device
) -> Kernel:
    """The Kernel of a launch, without source and line yet; `members` is empty where its bytes are counted already."""
    moved = traffic(members)
    flops = scheduler_nodes.flops(nodes) if members else None
    dtype = _dtype(nodes, device)
    known = [part for part in moved or () if part is not None]
    cost = estimate(device, sum(known) if known else None, flops, dtype)
    return Kernel(
        name=name,
        kind=_kind(name, nodes, device),
        launch=launch,
        operators=tuple(map(_operator, scheduler_nodes.origins(nodes))),
        bytes_read=None if moved is None else moved[0],
        bytes_written=None if moved is None else moved[1],
        flops=flops,
        dtype=dtype,
        estimate_us=None if cost is None else cost[0],
        bound=None if cost is None else cost[1],
        copies=scheduler_nodes.is_copy(members),
    )


def with_calls(kernels: Sequence[Kernel], wrapper: str) -> list[tuple[Kernel, str | None]]:
    """Each kernel with its line of the wrapper, and its source where the wrapper holds it.

    Launches are looked for outside of the sources, which name themselves, and in the order of the kernels: those of a
    branch, or of a part that is replayed as a CUDA graph, stand in functions of their own above the one that is called.
    """
    sources, shown = generated_code.kernel_sources(wrapper), wrapper.splitlines()
    lines = generated_code.without_sources(wrapper)
    after: dict[str, int] = {}
    out = []
    for kernel in kernels:
        called = re.compile(rf"(?<![\w.]){re.escape(kernel.name)}(?:\.run)?\(")
        rest = range(after.get(kernel.name, 0), len(lines))
        index = next((index for index in rest if called.search(lines[index])), None)
        if index is not None:
            after[kernel.name] = index + 1
            kernel = replace(kernel, call=shown[index].strip(), wrapper_line=index + 1)  # noqa: PLW2901
        out.append((kernel, sources.get(kernel.name)))
    return out


def place_of(scheduled: Any) -> Stack:
    """Where the first operator of a node of the scheduler comes from."""
    return place_of_nodes(scheduler_nodes.nodes_of(scheduled))


def place_of_nodes(nodes: Iterable[Any]) -> Stack:
    """Where the first operator of IR nodes comes from."""
    return next((stack for node in scheduler_nodes.origins(nodes) if (stack := stacks.of_node(node))), ())


def _operator(node: torch.fx.Node) -> FusedOperator:
    name, original = scheduler_nodes.operator_names(node)
    return FusedOperator(name, original, stacks.of_node(node))


def _kind(name: str, nodes: Sequence[Any], device: Device) -> KernelKind:
    written = KernelKind.CPP if device.backend == "cpu" or name.startswith("cpp_") else KernelKind.TRITON
    return scheduler_nodes.ready_made(nodes) or written


def _dtype(nodes: Sequence[Any], device: Device) -> str | None:
    multiplied = scheduler_nodes.operand_dtype(nodes)
    dtype = multiplied or scheduler_nodes.compute_dtype(nodes) or scheduler_nodes.result_dtype(nodes)
    name = scheduler_nodes.SHORT_DTYPES.get(dtype) if dtype is not None else None
    if name == "f32" and multiplied is not None and device.backend == "cuda":
        # Convolutions take it from the start, if the device has it; for multiplications somebody has asked.
        convolution = scheduler_nodes.is_convolution(nodes)
        if scheduler_nodes.takes_tf32(convolution=convolution) and (
            "tf32" in device.tflops or not convolution
        ):
            return "tf32"
    return name

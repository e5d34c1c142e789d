"""What becomes of a captured graph in a run: nothing, its operators, or kernels for a device.

Inductor and Triton are imported as they are needed: they take most of a second, and a capture needs none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from fuselight import dynamo
from fuselight.devices import FALLBACK, find
from fuselight.report import Device, Tier, text_key
from fuselight.target.present import present_device
from fuselight.worker.state import RunState, keep


def backend_of(state: RunState) -> Callable[..., Any]:
    """What becomes of a captured graph: nothing, or its operators, or kernels for the device that is asked for."""
    request = state.job.request
    if request.tier is Tier.KERNELS and request.operators:
        return _operator_paths(state)
    if request.tier is not Tier.KERNELS:
        return dynamo.capture_backend
    inductor = importlib.import_module("fuselight.inductor")  # takes most of a second: not for a capture

    def told(count: int) -> None:
        keep(state)  # first: the host sends it on when it hears of the graph
        state.tell("kernels", f"graph {count}", None, None, count)

    generation: Any = inductor.Generation(target_device(state), told)
    state.generation = generation
    backend: Callable[..., Any] = generation
    return backend


def _operator_paths(state: RunState) -> Callable[..., Any]:
    prims = importlib.import_module("fuselight.prims")  # as Inductor, which it asks for its tables
    paths: Any = prims.OperatorPaths(state.job.request.operator_set)
    state.operators = paths
    backend: Callable[..., Any] = paths
    return backend


def target_device(state: RunState) -> Device:
    """What kernels are for: the device that is asked for, else the one that is there, else the usual one."""
    state.device = state.job.request.device or present_device() or find(FALLBACK)
    return state.device


def assemble(state: RunState) -> None:
    """Compile Triton kernels for a device; nothing of the user's runs."""
    request = state.job.request
    device = target_device(state)
    triton_api = importlib.import_module("fuselight.triton_api")
    for number, source in enumerate(request.assemble, 1):
        with state.step("assemble", f"kernel {number} of {len(request.assemble)}"):
            state.assembled[text_key(source)] = triton_api.assemble(
                source,
                device,
                config=request.config,
                cache=request.cache,
                disassemble=request.disassemble,
            )

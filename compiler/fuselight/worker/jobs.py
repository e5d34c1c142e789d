"""The work of each type of request.

Inductor, Triton and the benchmark are imported on demand: they take most of a second, and a capture needs none of them.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from typing import Any

from fuselight import dynamo
from fuselight.devices import FALLBACK, find
from fuselight.protocol import (
    AssembleRequest,
    CaptureRequest,
    DecomposeRequest,
    GenerateRequest,
    MeasureRequest,
    RunRequest,
)
from fuselight.report import Device, text_key
from fuselight.target.present_device import present_device
from fuselight.torch_api import settings
from fuselight.worker import child
from fuselight.worker.state import ChildJob, RunState, keep
from fuselight.worker.target_run import MakeCalls, guarded, run_target


def run(job: ChildJob) -> None:
    """Do the job of a request and end the process."""
    RUNNERS[type(job.request)](job)


def _capture(job: ChildJob) -> None:
    strategy = MakeCalls(lambda _: dynamo.capture_backend)
    child.run(job, lambda state: run_target(state, strategy))


def _generate(job: ChildJob) -> None:
    child.run(job, lambda state: run_target(state, MakeCalls(_generation)))


def _decompose(job: ChildJob) -> None:
    child.run(job, lambda state: run_target(state, MakeCalls(_operator_paths)))


def _assemble(job: ChildJob) -> None:
    child.run(job, lambda state: guarded(state, lambda: _compile_kernels(state)))


def _measure(job: ChildJob) -> None:
    benchmark = importlib.import_module("fuselight.worker.benchmark")
    child.run(job, benchmark.coordinate, forks=True)


RUNNERS: dict[type[RunRequest], Callable[[ChildJob], None]] = {
    CaptureRequest: _capture,
    GenerateRequest: _generate,
    DecomposeRequest: _decompose,
    AssembleRequest: _assemble,
    MeasureRequest: _measure,
}


def _generation(state: RunState) -> Callable[..., Any]:
    """A backend that generates kernels for the requested device."""
    inductor = importlib.import_module("fuselight.inductor")

    def on_graph(count: int) -> None:
        keep(state)  # first: the host sends it on when it hears of the graph
        state.tell("kernels", f"graph {count}", None, None, count)

    generation: Any = inductor.Generation(_target_device(state), on_graph)
    state.generation = generation
    backend: Callable[..., Any] = generation
    return backend


def _operator_paths(state: RunState) -> Callable[..., Any]:
    """A backend that records what each operator decomposes into."""
    request = state.job.request
    prims = importlib.import_module("fuselight.prims")
    paths: Any = prims.OperatorPaths(request.operator_set if isinstance(request, DecomposeRequest) else ())
    state.operators = paths
    backend: Callable[..., Any] = paths
    return backend


def _target_device(state: RunState) -> Device:
    """Set the device that kernels are for: as requested, else this machine's GPU, else the catalog's fallback."""
    request = state.job.request
    asked = request.device if isinstance(request, (GenerateRequest, AssembleRequest)) else None
    state.device = asked or present_device() or find(FALLBACK)
    return state.device


def _compile_kernels(state: RunState) -> None:
    """Compile Triton kernels for a device; no user code runs."""
    request = state.job.request
    if not isinstance(request, AssembleRequest):
        raise TypeError(f"{type(request).__name__} has no kernels to compile")
    device = _target_device(state)
    tempfile.tempdir = state.job.directory  # what a killed compile leaves goes with the run
    triton_api = importlib.import_module("fuselight.triton_api")
    for number, source in enumerate(request.sources, 1):
        with state.step("assemble", f"kernel {number} of {len(request.sources)}"):
            state.assembled[text_key(source)] = triton_api.assemble(
                source,
                device,
                config=request.config,
                cache=request.cache,
                disassemble=request.disassemble,
            )


def warm_up() -> None:
    """Trace a tiny function under the recorder, so that a run's first trace finds everything loaded."""
    with dynamo.capture_only(), dynamo.Recorder(roots=()) as recorder:
        settings.warm_up()
    recorder.parts()

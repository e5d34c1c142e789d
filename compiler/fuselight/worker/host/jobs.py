"""The work of each type of request.

Inductor, Triton and the benchmark are imported on demand: they take most of a second, and a capture needs none of them.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.devices import leaves_driver_alone
from fuselight.capture import dynamo
from fuselight.capture.calls.present_device import present_device
from fuselight.shared.devices import FALLBACK, find
from fuselight.shared.protocol import (
    AccuracyRequest,
    AssembleRequest,
    CaptureRequest,
    DecomposeRequest,
    GenerateRequest,
    GraphsRequest,
    LiveRequest,
    LoggedStartRequest,
    MeasureRequest,
    MemoryRequest,
    OutputsRequest,
    RunRequest,
    ScriptRequest,
    TuneRequest,
    VerifyRequest,
)
from fuselight.shared.report import Device, text_key
from fuselight.worker.child import child
from fuselight.worker.child.cure_trial import TryCure
from fuselight.worker.child.request_results import AssembledKernels, DecomposedOperators, GeneratedKernels
from fuselight.worker.child.state import ChildJob, RunState, keep
from fuselight.worker.child.target_run import MakeCalls, guarded, run_target


def run(job: ChildJob) -> None:
    """Do the job of a request and end the process."""
    request, work = job.request, RUNNERS[type(job.request)]
    forks = isinstance(request, (MeasureRequest, TuneRequest))
    if request.world is not None:
        from fuselight.worker.ranks.job import work_of_ranks  # noqa: PLC0415 - torch.distributed takes a second

        work, forks = work_of_ranks(request, request.world, work)
    child.run(job, work, forks=forks)


def _generation(state: RunState) -> Callable[..., Any]:
    """A backend that generates kernels for the requested device."""
    from fuselight.capture.inductor import Generation  # noqa: PLC0415 - the same

    def on_graph(count: int) -> None:
        keep(state)  # first: the host sends it on when it hears of the graph
        state.progress.tell("kernels", f"graph {count}", count=count)

    generation = Generation(_target_device(state), on_graph)
    state.result = GeneratedKernels(generation)
    return generation


def _operator_paths(state: RunState) -> Callable[..., Any]:
    """A backend that records what each operator decomposes into."""
    from fuselight.capture.prims.paths import OperatorPaths  # noqa: PLC0415 - the same

    request = state.job.request
    operators = OperatorPaths(request.operator_set if isinstance(request, DecomposeRequest) else ())
    state.result = DecomposedOperators(operators)
    return operators


def _target_device(state: RunState) -> Device:
    """Set the device that kernels are for: as requested, else this machine's GPU, else the catalog's fallback."""
    request = state.job.request
    asked = request.device if isinstance(request, (GenerateRequest, AssembleRequest, MemoryRequest)) else None
    present = (
        None if asked is not None or leaves_driver_alone() else present_device()
    )  # of many ranks, none may
    state.device = asked or present or find(FALLBACK)
    return state.device


def _compile_kernels(state: RunState) -> None:
    """Compile Triton kernels for a device; no user code runs."""
    from fuselight.adapters.triton_api import assemble  # noqa: PLC0415 - the same

    request = state.job.request
    if not isinstance(request, AssembleRequest):
        raise TypeError(f"{type(request).__name__} has no kernels to compile")
    device = _target_device(state)
    result = state.result = AssembledKernels()
    tempfile.tempdir = state.job.directory  # what a killed compile leaves goes with the run
    for number, source in enumerate(request.sources, 1):
        with state.step("assemble", f"kernel {number} of {len(request.sources)}"):
            result.assembled[text_key(source)] = assemble(
                source,
                device,
                config=request.config,
                cache=request.cache,
                disassemble=request.disassemble,
            )


def _measure(state: RunState) -> None:
    from fuselight.worker.timed.benchmark import coordinate  # noqa: PLC0415 - as this module says

    coordinate(state)


def _tune(state: RunState) -> None:
    from fuselight.worker.timed.tuning import tune  # noqa: PLC0415 - as this module says

    tune(state)


def _verify(state: RunState) -> None:
    from fuselight.worker.verify.verification import VerifyCalls  # noqa: PLC0415 - as this module says

    run_target(state, VerifyCalls())


def _outputs(state: RunState) -> None:
    from fuselight.worker.verify.release_outputs import CompareOutputs  # noqa: PLC0415 - as this module says

    run_target(state, CompareOutputs())


def _accuracy(state: RunState) -> None:
    from fuselight.worker.results.accuracy_run import CompareResults  # noqa: PLC0415 - as this module says

    run_target(state, CompareResults())


def _graphs(state: RunState) -> None:
    from fuselight.worker.repro.code_run import RecordCode  # noqa: PLC0415 - as this module says
    from fuselight.worker.repro.graph_run import RecordGraphs  # noqa: PLC0415 - the same

    request = state.job.request
    is_code = isinstance(request, GraphsRequest) and request.code is not None
    run_target(state, RecordCode() if is_code else RecordGraphs())


def _script(state: RunState) -> None:
    from fuselight.worker.repro.script_run import run_script  # noqa: PLC0415 - as this module says

    guarded(state, lambda: run_script(state))


def _memory(state: RunState) -> None:
    from fuselight.worker.memory.estimate_run import EstimateMemory  # noqa: PLC0415 - as this module says
    from fuselight.worker.memory.measured_run import MeasureMemory  # noqa: PLC0415 - the same
    from fuselight.worker.memory.program_run import estimate_program  # noqa: PLC0415 - the same

    request = state.job.request
    if isinstance(request, MemoryRequest) and request.measures:
        run_target(state, MeasureMemory())
        return
    state.job = replace(state.job, fake="memory is estimated without allocating it")
    if request.target.kind == "main" or not request.target.name:
        estimate_program(state, _target_device(state))
        return
    run_target(state, EstimateMemory(_target_device(state)))


def _live(state: RunState) -> None:
    from fuselight.worker.live.live import run_live  # noqa: PLC0415 - as this module says

    run_live(state)


def _logged_start(state: RunState) -> None:
    from fuselight.worker.child.logged_start import LoggedStart, record_imports  # noqa: PLC0415 - as this module says

    record_imports(state)
    run_target(state, LoggedStart())


def _program_capture(state: RunState) -> Callable[..., Any]:
    """Capture with AOTAutograd too, where a whole program runs: what it refuses, the program meets.

    Of a rank too, because the collectives of a backward graph then have the lines of the forward; of all other calls
    only graphs that enter inference mode, because AOTAutograd refuses many of them.
    """

    def is_wanted(gm: Any) -> bool:
        is_program = state.phase == "main" or state.node_runs is not None
        return not state.fake and (is_program or dynamo.enters_inference_mode(gm))

    state.aot = dynamo.AotCapture(is_wanted)
    if state.node_runs is None:
        return state.aot
    from fuselight.worker.ranks.rank_run import by_node  # noqa: PLC0415 - the same

    state.aot.aot_eager = state.node_runs.aot_eager
    return by_node(state, state.aot)


RUNNERS: dict[type[RunRequest], Callable[[RunState], None]] = {
    CaptureRequest: functools.partial(run_target, strategy=TryCure(_program_capture)),
    GenerateRequest: functools.partial(run_target, strategy=MakeCalls(_generation)),
    DecomposeRequest: functools.partial(run_target, strategy=MakeCalls(_operator_paths)),
    AssembleRequest: lambda state: guarded(state, lambda: _compile_kernels(state)),
    MeasureRequest: _measure,
    TuneRequest: _tune,
    VerifyRequest: _verify,
    OutputsRequest: _outputs,
    AccuracyRequest: _accuracy,
    GraphsRequest: _graphs,
    ScriptRequest: _script,
    MemoryRequest: _memory,
    LiveRequest: _live,
    LoggedStartRequest: _logged_start,
}


def warm_up() -> None:
    """Trace a tiny function under the recorder, so that a run's first trace finds everything loaded."""
    with dynamo.capture_only(), dynamo.Recorder(roots=()) as recorder:
        settings.warm_up()
    recorder.parts()

"""The program of one process of `benchmarks.studies.replay`: builds a model as a user would, compiles it in one way, times it.

    python -m benchmarks.studies.replayed_program FOLDER KIND:MODEL

It prints a line after its first call, one after its warm-up, one for each line `round` that it reads, and at last its
answer as JSON. Invariant: it knows nothing of the search but the tuned file.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.studies.cores import allowed_cores
from benchmarks.studies.replay import ADDED, DEFAULT, LOADED, PIN, ROUND, SAME, name_of, results_of
from tests.support.counted_timings import counting_timings
from fuselight.capture.calls.tensors import tensors_in, with_tensors
from fuselight.measure import timing
from fuselight.replay.backend import replay
from fuselight.replay.machine_key import machine_key
from fuselight.replay.preparation import prepared_inductor
from fuselight.shared import tuned_file
from fuselight.shared.configurations import MODES, parse_configuration
from fuselight.shared.report import Clock, TunedResult, Work

_FIRST_CALL, _WARM = "first call made", "ready"
_ROUND_SECONDS = 0.06
_WARM_CALLS = 8
_LEAST_PHASE = 0.05
"""Seconds of a phase of a compile that is reported."""
_CORES = 4
"""Cores that are needed to pin threads: those of two threads are apart, as neighbors may be one physical core."""
_TOLERANCE = 0.05
"""Largest difference from eager mode, of the largest number: far above rounding, far below another result."""
_PROGRAMS_PART = "fuselight: the result of"
"""What the backend says that only the program can do, as this one does."""


@dataclass
class ModelProgram:
    """The user's program of one model, compiled or not."""

    module: Any
    result: TunedResult
    args: Any
    named: Any
    device: torch.device
    function: Callable[..., Any]
    parameters: Sequence[torch.nn.Parameter]
    """Of the model, kept as an optimizer keeps them: to walk all modules takes as long as some models' kernels."""
    optimizer: Any = None

    def call(self) -> Any:
        """Make one call with its work."""
        if self.result.work is Work.INFERENCE:
            with torch.no_grad():
                return self.function(*self.args, **self.named)
        for parameter in self.parameters:
            parameter.grad = None
        function = self.function(*self.args, **self.named)
        losses = [tensor.sum() for tensor in tensors_in(function) if tensor.requires_grad]
        torch.autograd.backward(losses)
        if self.optimizer is not None:
            self.optimizer.step()
        return function

    def round_us(self, calls: int) -> float:
        """Microseconds of one of several calls: by the clock with which a search times rounds."""
        taken = timing.round_of(lambda: self.call, calls, self.device, cold_cache=False, fresh=False)
        return statistics.median(taken.get(Clock.DEVICE, taken[Clock.WALL]).us)

    def wait(self) -> None:
        """Wait until the device has done what it was asked for."""
        timing.wait(self.device)

    def compile(self, arguments: dict[str, Any]) -> None:
        """Compile what the result compiles."""
        if self.result.blocks:
            for name in self.result.blocks:
                self.module.model.get_submodule(name).compile(**arguments)
        else:
            self.function = torch.compile(self.module.call, **arguments)
        if self.result.optimizer and self.optimizer is not None:
            self.optimizer.step = torch.compile(self.optimizer.step)


def model_program(folder: Path, name: str, result: TunedResult) -> ModelProgram:
    """Import the source of a model, and put it on the device of the result."""
    path = folder / "sources" / f"{name}.py"
    if not path.exists():  # the search wrote its sources elsewhere
        from benchmarks.studies.tuned_models import source  # noqa: PLC0415 - needs the libraries of all models

        path.parent.mkdir(exist_ok=True)
        written = path.with_suffix(f".{os.getpid()}")
        written.write_text(source(name), encoding="utf-8")
        written.replace(path)  # other programs of the model may look for it now
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"there is no source of {name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    device = torch.device("cuda" if result.capability else "cpu")
    timing.load(device.type)
    module.model.to(device)
    args, named = with_tensors(module.example_inputs(), lambda tensor: tensor.to(device))
    program = ModelProgram(module, result, args, named, device, module.call, list(module.model.parameters()))
    if result.work is Work.TRAINING_STEP:
        program.optimizer = torch.optim.SGD(program.parameters, lr=0.0)
    return program


def _arguments(folder: Path, kind: str, result: TunedResult, scratch: str) -> dict[str, Any]:
    """The arguments of torch.compile."""
    if kind in MODES:
        return {} if kind == DEFAULT else {"mode": kind}
    arguments: dict[str, Any] = {"dynamic": result.dynamic}
    if kind == SAME or kind.startswith(ADDED):
        added = parse_configuration(DEFAULT + kind.removeprefix(SAME))
        options = {**result.options, **added.options}
        arguments["backend"] = prepared_inductor(result.preparation, None, options, longest=added.longest)
    else:
        arguments.update(backend=replay, options={"file": _file(folder, result, kind, scratch)})
    if result.fixed_modules:
        skip = torch.compiler.skip_guard_on_all_nn_modules_unsafe
        arguments["options"] = {**arguments.get("options", {}), "guard_filter_fn": skip}
    return arguments


def _file(folder: Path, result: TunedResult, kind: str, scratch: str) -> str:
    """A tuned file with this result alone; without its artifacts unless they are to be loaded."""
    if kind == LOADED:
        return str(folder / tuned_file.NAME)
    path = Path(scratch) / tuned_file.NAME
    tuned_file.keep(path, [replace(result, artifacts="")])
    return str(path)


def _is_close(value: Any, expected: Any) -> bool:
    """Whether results are those of eager mode but for rounding."""
    pairs = zip(tensors_in(value), tensors_in(expected), strict=True)
    return all(
        float((tensor.detach().float() - other.detach().float()).abs().max())
        <= _TOLERANCE * max(1.0, float(other.detach().float().abs().max()))
        for tensor, other in pairs
        if other.numel()
    )


def machines_here() -> list[tuple[str, ...]]:
    """Device, compute capability, torch and Triton of this process, of its CPU and of its GPU."""
    devices = [torch.device("cpu"), *[torch.device("cuda")] * torch.cuda.is_available()]
    return [astuple(machine_key(device)) for device in devices]


def main(folder: Path, what: str) -> dict[str, Any]:
    """Compile and call one model in this process, and time it on demand; returns the answer."""
    kind, _, name = what.rpartition(":")
    result = next(
        tuned_result for tuned_result in results_of(folder, machines_here()) if name_of(tuned_result) == name
    )
    if kind in MODES:
        result = replace(result, blocks=(), optimizer=False, dynamic=None, fixed_modules=False)
    warnings: list[str] = []
    handler = logging.Handler()
    handler.addFilter(lambda record: not record.getMessage().startswith(_PROGRAMS_PART))
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("fuselight").addHandler(handler)
    program = model_program(folder, name, result)
    torch.manual_seed(0)
    expected = program.call()
    with tempfile.TemporaryDirectory() as scratch:
        program.compile(_arguments(folder, kind, result, scratch))
        torch.manual_seed(0)
        with counting_timings() as timed:
            timing.wait(program.device)
            began = time.monotonic()  # the clock of the process that stops this one
            value = program.call()
            timing.wait(program.device)
            ended = time.monotonic()
            is_close = _is_close(
                value, expected
            )  # now: the next replay of a CUDA graph overwrites the results
            del value
        phases = _phases()
        program.call()  # the second call of a CUDA graph records it
        program.call()
    _say(_FIRST_CALL)
    sys.stdin.readline()  # until nothing else runs
    if os.environ.get(PIN):
        _pin_threads()
    for _ in range(_WARM_CALLS):
        us = timing.once(lambda: program.call, program.device)
    calls = max(1, int(_ROUND_SECONDS * 1e6 / max(us, 10.0)))
    _say(_WARM)
    while sys.stdin.readline().strip() == ROUND:
        _say(str(program.round_us(calls)))
    return {
        "first": (began, ended), "timed": len(timed), "warnings": warnings, "close": is_close, "phases": phases,
    }  # fmt: skip


def _phases() -> dict[str, float]:
    """Seconds of each phase of the compiles so far, by torch's own clock; phases contain others."""
    spent: dict[str, list[float]] = importlib.import_module("torch._dynamo.utils").compilation_time_metrics
    return {name: round(sum(times), 2) for name, times in spent.items() if sum(times) >= _LEAST_PHASE}


def _pin_threads() -> None:
    """Pin the thread that calls and autograd's to a core each, the same ones in each program.

    Where the host limits a model, the core on which a process happens to run makes a difference of its own.
    """
    cores = allowed_cores()
    if not sys.platform.startswith("linux") or len(cores) < _CORES:
        return
    os.sched_setaffinity(0, {cores[-1]})
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            if (thread / "comm").read_text().startswith("pt_autograd"):
                os.sched_setaffinity(int(thread.name), {cores[-_CORES]})


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    asked, *named = sys.argv[1:]
    print(json.dumps(main(Path(asked), *named) if named else machines_here()))

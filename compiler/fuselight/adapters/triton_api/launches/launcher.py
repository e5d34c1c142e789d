# ruff: noqa: SLF001 - these are parts of Triton's launch, and frames of Python
"""What a launch of a Triton kernel does on a machine without a GPU, in place of compiling and running it.

All launches end in `JITFunction.run`: plain and autotuned ones, those of operators and of captured graphs. Invariant:
arguments that Triton refuses are refused with its own error; a launch writes what the kernel computes, or finite
numbers where that is unknown, and never outside of its arguments.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from fuselight.adapters.torch_api.triton_kernels import mutated_arguments
from fuselight.adapters.torch_api.uninitialized import WrittenElements
from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.launches.absent_kernel import AbsentKernel, CompileArguments
from fuselight.adapters.triton_api.launches.address_check import AddressCheck
from fuselight.adapters.triton_api.launches.interpretation import TOO_LONG, Interpretation
from fuselight.adapters.triton_api.launches.record import (
    AccessFault,
    AddressReport,
    LaunchLog,
    LaunchOutcome,
    LaunchStopped,
    LaunchSummary,
)
from fuselight.adapters.triton_api.launches.tuning_trial import TuningTrials
from fuselight.shared.report import TuningChange

MAX_SECONDS = 2.0
"""Of processor time, of one launch."""
MAX_ALL_SECONDS = 20.0
"""Of all launches of a process."""
MAX_CHECK_SECONDS = 1.0
"""Of the address check of one launch."""
MAX_ALL_CHECK_SECONDS = 10.0
"""Of all address checks of a process."""
MAX_TRIED_SECONDS = 0.5
"""Of a launch that is computed again, to try the timed runs of its autotuner."""
MAX_TRIAL_SECONDS = 5.0
"""Of such trials in a process, after which no further one begins."""
_UNKNOWN = 0.5
"""What stands for a floating-point number that was not computed: no logarithm, root or division of it is infinite."""
_processor_time = time.thread_time  # bound before any user code runs; the same on a busy machine


class Launcher:
    """Runs launches, and reports those whose values are not all known to the log."""

    def __init__(self, log: LaunchLog) -> None:
        self._log = log
        self.tuning_trials = TuningTrials()
        self._trial_seconds = 0.0
        self._lock = threading.RLock()
        """Held while a launch is computed: Triton's language is replaced then, for all threads."""

    def launch(
        self, kernel: Any, args: tuple[Any, ...], named: dict[str, Any], grid: Any, *, warmup: bool
    ) -> AbsentKernel:
        """Launch `kernel`, a `JITFunction`, as its own `run` would. Raises what Triton raises for its arguments."""
        record = self._log.record
        if record is None or not record.is_asking:
            for hook in kernel.pre_run_hooks:
                hook(*args, **named)
        target, bound, packed = _packed(kernel, args, named)
        options, signature, constants, attributes = packed
        request = CompileArguments(kernel, signature, constants, attributes, options, target)
        absent_kernel = AbsentKernel(
            request, lambda grid, args, named: self.launch(kernel, args, named, grid, warmup=False)
        )
        if record is not None:
            record.note(request, bound, None if warmup else grid, sys._getframe(1))
        if warmup or (record is not None and record.is_asking):
            return absent_kernel
        sizes: Any = grid(bound) if callable(grid) else grid
        x, y, z = (*(int(size) for size in sizes), 1, 1)[:3]
        self._log.launches += 1
        with self._lock:
            if _all_real(bound.values()):
                done = self._compute(kernel, bound, signature, (x, y, z))
            else:  # fake tensors have addresses, but no values
                done = self._check_addresses(kernel, bound, signature, (x, y, z))
            if record is not None and done is not None:
                record.note_work(request, done.work())
        return absent_kernel

    def _compute(
        self, kernel: Any, bound: dict[str, Any], signature: dict[str, Any], grid: tuple[int, int, int]
    ) -> Interpretation | None:
        log = self._log
        key = (id(kernel), grid, tuple(map(str, signature.values())), _sizes(bound))
        seconds = min(MAX_SECONDS, MAX_ALL_SECONDS - log.seconds)
        unknown, interpretation = TOO_LONG, None
        try:
            interpretation = Interpretation(kernel, grid, seconds)
            if key not in log.slow and seconds > 0:
                interpretation.run(bound, signature)
                unknown = ""
        except LaunchStopped as why:
            unknown = str(why)
        except ImportError as error:
            unknown = f"Triton's interpreter is not available: {error}"
        except Exception as error:  # noqa: BLE001 - the interpreter has faults of its own
            unknown = f"Triton's interpreter cannot compute them: {_words(error)}"
        took = interpretation.seconds if interpretation is not None else 0.0
        log.seconds += took
        if unknown == TOO_LONG and seconds > 0:
            log.slow.add(key)
        if unknown:
            _fill(_outputs(kernel, bound, interpretation))
        _note_written(log, _outcome(kernel, "", ()), bound, None if unknown else interpretation)
        self._summarize(kernel, bound, grid, interpretation)
        faults = tuple(interpretation.memory.faults.values()) if interpretation is not None else ()
        is_tried = not unknown and not faults and took <= MAX_TRIED_SECONDS
        tuning = self._tuning_change(kernel, bound, signature, interpretation) if is_tried else None
        if unknown or faults or tuning is not None:
            log.on_outcome(replace(_outcome(kernel, unknown, faults), tuning=tuning), sys._getframe(1))
        if unknown == TOO_LONG and not faults:
            self._check_addresses(kernel, bound, signature, grid)
        return interpretation

    def _tuning_change(
        self, kernel: Any, bound: dict[str, Any], signature: dict[str, Any], done: Interpretation | None
    ) -> TuningChange | None:
        if done is None or self._trial_seconds > MAX_TRIAL_SECONDS:
            return None
        start = _processor_time()

        def run() -> None:
            Interpretation(kernel, done.grid, MAX_SECONDS).run(bound, signature)

        change = self.tuning_trials.change(kernel, done.memory.regions(), run)
        self._trial_seconds += _processor_time() - start
        return change

    def _check_addresses(
        self, kernel: Any, bound: dict[str, Any], signature: dict[str, Any], grid: tuple[int, int, int]
    ) -> AddressCheck | None:
        """Check where the launch reads and writes, whose values are not computed. Equal launches are checked once."""
        log = self._log
        key = (id(kernel), grid, tuple(map(str, signature.values())), _sizes(bound))
        seconds = min(MAX_CHECK_SECONDS, MAX_ALL_CHECK_SECONDS - log.address_seconds)
        if key in log.checked or seconds <= 0 or min(grid) < 1:
            return None
        log.checked.add(key)
        problem, check = "", None
        try:
            check = AddressCheck(kernel, grid, seconds)
            check.run(bound, signature)
        except LaunchStopped as why:
            problem = str(why)
        except ImportError:
            return None
        except Exception as error:  # noqa: BLE001 - the interpreter has faults of its own
            problem = f"Triton's interpreter cannot run it: {_words(error)}"
        if check is None:  # the interpreter could not be set up: FL606 has said that nothing is known
            return None
        log.address_seconds += check.seconds
        self._summarize(kernel, bound, grid, check)
        if problem:
            check.memory.open.setdefault(("", 0, problem))
        log.on_outcome(_outcome(kernel, "", check.faults(), check.report()), sys._getframe(1))
        return check

    def _summarize(
        self, kernel: Any, bound: dict[str, Any], grid: tuple[int, int, int], done: Interpretation | None
    ) -> None:
        summaries = self._log.summaries
        if summaries is not None and done is not None:
            shapes = {
                name: tuple(value.shape) for name, value in bound.items() if isinstance(value, torch.Tensor)
            }
            path, written = str(kernel.fn.__code__.co_filename), done.memory.written_names()
            numbers = {name: float(value) for name, value in bound.items() if isinstance(value, (int, float))}
            summaries.append(LaunchSummary(kernel.__name__, path, grid, shapes, written, numbers))


def _note_written(
    log: LaunchLog, outcome: LaunchOutcome, bound: dict[str, Any], interpretation: Interpretation | None
) -> None:
    """Say what a launch has written; without its interpretation, that it may have written everything."""
    memory = log.uninitialized
    if memory is None:
        return
    launch = outcome, log.stack_of(sys._getframe(2))
    if interpretation is None:
        for name, value in bound.items():
            if isinstance(value, torch.Tensor):
                memory.note_launch(launch, WrittenElements(name, value, None, 1, ("", 0)))
        return
    for written in interpretation.memory.written_elements():
        memory.note_launch(launch, written)


def _outcome(
    kernel: Any, unknown: str, faults: tuple[AccessFault, ...], addresses: AddressReport | None = None
) -> LaunchOutcome:
    path, line = str(kernel.fn.__code__.co_filename), names.first_line(kernel)
    return LaunchOutcome(kernel.__name__, path, line, unknown, faults, addresses)


_Packed = tuple[Any, dict[str, Any], dict[Any, Any], dict[Any, Any]]
"""Options, types, constants and attributes of a launch."""


def _packed(kernel: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any], _Packed]:
    """The target, the arguments by name, and what else Triton computes of them. Raises what Triton raises."""
    *_, target, backend, binder = kernel.device_caches[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fake tensors, whose addresses Triton asks for
        bound, specialization, options = binder(*args, **named)
    if hasattr(kernel, "_pack_args"):
        return target, bound, kernel._pack_args(backend, named, bound, specialization, options)
    types = {parameter.name: kind[0] for parameter, kind in zip(kernel.params, specialization, strict=True)}
    options = backend.parse_options(named)  # Triton 3.3
    unknown = [name for name in named if name not in vars(options) and name not in types]
    if unknown:
        raise KeyError(f"Keyword argument {unknown[0]} was specified but unrecognised")
    constants = {(at,): bound[name] for at, name in enumerate(types) if types[name] == "constexpr"}
    return target, bound, (options, types, constants, {})


def _all_real(values: Iterable[Any]) -> bool:
    """Whether all tensors have memory on the CPU."""
    return all(_all_real(value) if isinstance(value, tuple) else _is_real(value) for value in values)


def _is_real(value: Any) -> bool:
    tensor = value if isinstance(value, torch.Tensor) else getattr(value, "base", None)  # of a descriptor
    if not isinstance(tensor, torch.Tensor):
        return True
    return tensor.device.type == "cpu" and type(tensor) in {torch.Tensor, torch.nn.Parameter}


def _sizes(bound: dict[str, Any]) -> tuple[Any, ...]:
    """What decides how long a launch takes, of its arguments."""
    return tuple(
        tuple(value.shape) if isinstance(value, torch.Tensor) else value
        for value in bound.values()
        if isinstance(value, (torch.Tensor, int, float, str))
    )


def _outputs(kernel: Any, bound: dict[str, Any], interpretation: Interpretation | None) -> list[torch.Tensor]:
    """The tensors that a launch writes: as it was computed so far, else as Triton's compiler says, else all."""
    written = [] if interpretation is None else interpretation.memory.written()
    if written:
        return written
    return [bound[name] for name in mutated_arguments(kernel, bound) if isinstance(bound[name], torch.Tensor)]


def _fill(tensors: list[torch.Tensor]) -> None:
    """Write finite numbers, as a launch does: autograd does not hear of it."""
    for tensor in tensors:
        values = tensor.data
        with contextlib.suppress(RuntimeError), torch.inference_mode(values.is_inference()):
            values.fill_(_UNKNOWN if values.is_floating_point() or values.is_complex() else 0)


def _words(error: Exception) -> str:
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:200]

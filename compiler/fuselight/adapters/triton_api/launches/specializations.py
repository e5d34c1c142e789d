# ruff: noqa: SLF001 - these are parts of Triton's launch
"""The specializations of kernels that a run launches, and the configurations of their autotuners.

Invariant: a launch is only noted, and made as it would be without that. Configurations that were not launched get their
arguments from the launch that was, by Triton's own way from an autotuner to a kernel, with the last step left out.
Tensors are not kept alive: of an argument its type, its size and its value as text are kept.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.launches.absent_kernel import CompileArguments
from fuselight.adapters.triton_api.launches.argument_copies import copied_arguments
from fuselight.adapters.triton_api.launches.launch_work import LaunchWork
from fuselight.shared.report import LaunchConfig, Location, Stack

MAX_SPECIALIZATIONS = 200
"""Of a run, of all kernels together."""
MAX_CONFIGURATIONS = 128
"""Of one autotuner."""
_LONGEST = 60
"""Characters of a value."""
_LITERALS = (bool, int, float, str, type(None))


@dataclass
class LaunchedConfiguration:
    """One configuration of an autotuner, for the arguments of one launch."""

    config: LaunchConfig
    text: str
    """As Python; empty where it has a hook or something else that has no notation."""
    request: CompileArguments | None = None
    """None where its arguments are not those of the kernel."""
    grid: tuple[int, ...] | None = None
    measured_us: float | None = None


@dataclass(eq=False)
class Tuning:
    """An autotuner at one value of its key."""

    key: tuple[str, ...]
    """Names of arguments."""
    values: tuple[str, ...]
    configurations: list[LaunchedConfiguration]
    chosen: int | None = None


@dataclass
class LaunchedSpecialization:
    """A kernel for arguments of certain types and values, as it is compiled once."""

    request: CompileArguments
    values: dict[str, str]
    """Of numbers and compile-time constants in the first launch."""
    tensors: dict[str, tuple[int, int]]
    """Of each tensor, bytes and the identity of its memory."""
    grid: tuple[int, ...] | None
    launched_at: Stack
    launches: int = 0
    tunings: list[Tuning] = field(default_factory=list)
    """The autotuner at each value of its key with which this specialization was launched."""
    work: LaunchWork | None = None
    """What the first launch does; None where it is not known."""
    arguments: dict[str, Any] | None = None
    """Of the first launch, from which its work can be counted; None where they are not kept."""


class _Mode(threading.local):
    """What this thread is doing."""

    muted = False
    """An autotuner times its configurations."""
    asked: list[tuple[CompileArguments, dict[str, Any], Any]] | None = None
    """Gets what a launch would compile, which is then not made."""


@dataclass
class LaunchRecord:
    """What a run has launched, in the order of the first launches."""

    is_wanted: Callable[[str], bool] = lambda _path: False
    """Whether kernels of a file are recorded."""
    stack_of: Callable[[FrameType | None], Stack] = lambda _frame: ()
    specializations: dict[Any, LaunchedSpecialization] = field(default_factory=dict)
    tunings: dict[Any, Tuning] = field(default_factory=dict)
    works: dict[Any, LaunchWork] = field(default_factory=dict)
    """By specialization: what its first launch does."""
    dropped: int = 0
    """Specializations that were too many."""
    keeps_arguments: bool = False
    """Whether arguments of launches are kept, whose work is not noted."""
    _mode: _Mode = field(default_factory=_Mode)

    @property
    def is_asking(self) -> bool:
        """Whether the launch that is being made is only asked what it would compile."""
        return self._mode.asked is not None

    def note(
        self,
        request: CompileArguments,
        bound: dict[str, Any],
        grid: Any,
        frame: FrameType | None,
    ) -> None:
        """Note one launch; `grid` is None for a compile without one. Never raises."""
        mode = self._mode
        if mode.asked is not None:
            mode.asked.append((request, bound, grid))
        elif not mode.muted:
            with contextlib.suppress(Exception):  # values of the user's, which raise what they like
                self._note(request, bound, grid, frame, None)

    def note_work(self, request: CompileArguments, work: LaunchWork | None) -> None:
        """Note what all programs of a launch do; None: it is not known."""
        if work is not None:
            self.works.setdefault(_identity(request), work)

    def work_of(self, request: CompileArguments) -> LaunchWork | None:
        """Return what the first launch of a specialization does; None where it is not known."""
        return self.works.get(_identity(request))

    def _note(
        self,
        request: CompileArguments,
        bound: dict[str, Any],
        grid: Any,
        frame: FrameType | None,
        tuning: Tuning | None,
    ) -> None:
        function = request.function
        if not self.is_wanted(str(function.fn.__code__.co_filename)):
            return
        key = _identity(request)
        known = self.specializations.get(key)
        if known is None:
            if len(self.specializations) >= MAX_SPECIALIZATIONS:
                self.dropped += 1
                return
            known = self.specializations[key] = LaunchedSpecialization(
                request,
                values=_values(bound),
                tensors=_tensors(bound),
                grid=_sizes(grid, bound),
                launched_at=self.stack_of(frame),
            )
            if self.keeps_arguments:
                known.arguments = copied_arguments(bound)
        if grid is not None:
            known.launches += 1
            if known.grid is None:
                known.grid, known.launched_at = _sizes(grid, bound), self.stack_of(frame)
        if tuning is not None and tuning not in known.tunings:
            known.tunings.append(tuning)

    @contextlib.contextmanager
    def tuning(self, autotuner: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Iterator[None]:
        """While an autotuner runs: nothing of what it times is noted, and its configurations are, once for each key."""
        mode = self._mode
        if mode.asked is not None or mode.muted:
            yield
            return
        timings = getattr(autotuner, "configs_timings", None)
        mode.muted = True
        try:
            yield
        finally:
            mode.muted = False
        with contextlib.suppress(Exception):  # private parts of Triton, and values of the user's
            self._note_tuned(autotuner, args, named, timings)

    def _note_tuned(
        self, autotuner: Any, args: tuple[Any, ...], named: dict[str, Any], timings_before: Any
    ) -> None:
        chosen = autotuner.best_config
        key = (id(autotuner), _key_values(autotuner, args, named))
        tuning = self.tunings.get(key)
        # torch has an autotuner of one configuration for `num_warps` of a launch in a graph.
        has_choice = len(autotuner.configs) > 1
        if tuning is None and has_choice and len(self.tunings) < MAX_SPECIALIZATIONS:
            tuning = self.tunings[key] = Tuning(tuple(map(str, autotuner.keys)), key[1], [])
            for config in autotuner.configs[:MAX_CONFIGURATIONS]:
                tuning.configurations.append(self._configuration(autotuner, config, args, named))
        if tuning is not None:
            if chosen in autotuner.configs:
                tuning.chosen = autotuner.configs.index(chosen)
            timings = getattr(autotuner, "configs_timings", None)
            if timings and timings is not timings_before:
                for config, known in zip(autotuner.configs, tuning.configurations, strict=False):
                    known.measured_us = _median_us(timings.get(config))
        frame = inspect.currentframe()
        for request, bound, grid in self._asked(autotuner, chosen, args, named):
            with contextlib.suppress(Exception):
                self._note(request, bound, grid if not named.get("warmup") else None, frame, tuning)

    def _configuration(
        self, autotuner: Any, config: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> LaunchedConfiguration:
        known = LaunchedConfiguration(described(config), config_text(config))
        for request, bound, grid in self._asked(autotuner, config, args, named):
            known.request, known.grid = request, _sizes(grid, bound)
        return known

    def _asked(
        self, autotuner: Any, config: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> list[tuple[CompileArguments, dict[str, Any], Any]]:
        """What the autotuner's kernel would compile in a configuration."""
        asked = self._mode.asked = []
        try:
            with contextlib.suppress(Exception):
                autotuner.fn.run(*args, **{**named, **config.all_kwargs()})
        finally:
            self._mode.asked = None
        return asked


def _identity(request: CompileArguments) -> tuple[Any, ...]:
    options = vars(request.options)
    shape = tuple(options.get(name) for name in ("num_warps", "num_stages", "num_ctas", "maxnreg"))
    constants = repr(sorted((str(path), repr(value)) for path, value in request.constants.items()))
    attributes = repr(sorted((str(path), repr(value)) for path, value in request.attributes.items()))
    return id(request.function), str(request.signature), constants, attributes, shape


def _values(bound: dict[str, Any]) -> dict[str, str]:
    """Numbers, texts and other constants, as Python writes them."""
    values = {}
    for name, value in bound.items():
        plain = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
        if isinstance(plain, _LITERALS):
            values[name] = repr(plain)[:_LONGEST]
        elif not isinstance(plain, torch.Tensor) and hasattr(plain, "__name__"):
            values[name] = str(plain.__name__)[:_LONGEST]
    return values


def _tensors(bound: dict[str, Any]) -> dict[str, tuple[int, int]]:
    tensors = {}
    for name, value in bound.items():
        tensor = value if isinstance(value, torch.Tensor) else getattr(value, "base", None)  # of a descriptor
        if isinstance(tensor, torch.Tensor):
            tensors[name] = (_touched_bytes(tensor), id(tensor) if tensor.numel() == 0 else _address(tensor))
    return tensors


def _touched_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the elements of a tensor, each element of memory once: an expanded one has fewer than it shows."""
    sizes = [size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride != 0]
    count = 1
    for size in sizes:
        count *= int(size)
    return count * tensor.element_size()


def _address(tensor: torch.Tensor) -> int:
    try:
        return tensor.data_ptr()
    except RuntimeError:  # a fake tensor has no memory
        return id(tensor)


def _sizes(grid: Any, bound: dict[str, Any]) -> tuple[int, ...] | None:
    if grid is None:
        return None
    sizes: Any = grid(bound) if callable(grid) else grid
    sizes = sizes if isinstance(sizes, (tuple, list)) else (sizes,)
    return (*(int(size) for size in sizes), 1, 1)[:3]


def _key_values(autotuner: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, ...]:
    """The values by which an autotuner keeps its choices, as its own `run` reads them."""
    every = {**dict(zip(autotuner.arg_names, args, strict=False)), **named}
    every = {name: value for name, value in every.items() if name in autotuner.arg_names}
    values = [repr(every[name])[:_LONGEST] for name in autotuner.keys if name in every]
    return (*values, *(str(value.dtype) for value in every.values() if hasattr(value, "dtype")))


def _median_us(timing: Any) -> float | None:
    """Triton gives the median and two quantiles, in milliseconds; infinity where a configuration does not run."""
    value: object = timing[0] if isinstance(timing, (list, tuple)) and timing else timing
    if isinstance(value, (int, float)) and 0 < value < float("inf"):
        return float(value) * 1000
    return None


def described(config: Any) -> LaunchConfig:
    """A `triton.Config` as data."""
    values = {
        str(name): value if type(value) is int else repr(value)[:_LONGEST]
        for name, value in config.kwargs.items()
    }
    return LaunchConfig(values, int(config.num_warps), int(config.num_stages))


def config_text(config: Any) -> str:
    """A `triton.Config` as Python; empty where something in it has no notation."""
    if getattr(config, "pre_hook", None) is not None or getattr(config, "ir_override", None) is not None:
        return ""
    if not all(isinstance(value, _LITERALS) for value in config.kwargs.values()):
        return ""
    values = ", ".join(f'"{name}": {value!r}' for name, value in config.kwargs.items())
    more = [f"num_warps={config.num_warps}", f"num_stages={config.num_stages}"]
    more += [f"num_ctas={config.num_ctas}"] if getattr(config, "num_ctas", 1) not in (None, 1) else []
    more += [f"maxnreg={config.maxnreg}"] if getattr(config, "maxnreg", None) is not None else []
    return f"triton.Config({{{values}}}, {', '.join(more)})"


def autotune_line(function: Any) -> Location | None:
    """The line of the `@triton.autotune` decorator of a kernel."""
    path = str(function.fn.__code__.co_filename)
    first = int(function.fn.__code__.co_firstlineno)
    try:
        lines = inspect.getsource(function.fn).split("\n")
    except (OSError, TypeError):
        return None
    for offset, line in enumerate(lines):
        if line.lstrip().startswith("@") and "autotune" in line:
            return Location(path, first + offset)
        if line.lstrip().startswith("def "):
            break
    return None


@contextlib.contextmanager
def recording_tuners(
    record: LaunchRecord, unchanged: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
) -> Iterator[None]:
    """Have autotuners say which configurations they have.

    They time launches in the context of `unchanged`: what notes a launch takes longer than many a kernel.
    """
    autotuner = names.autotuner().Autotuner
    real = autotuner.run

    def run(self: Any, *args: Any, **named: Any) -> Any:
        with record.tuning(self, args, named):
            if record.is_asking:
                return real(self, *args, **named)
            with unchanged():
                return real(self, *args, **named)

    with patched(autotuner, "run", torch.compiler.disable(run)):  # type: ignore[no-untyped-call]
        yield


@contextlib.contextmanager
def recording_launches(record: LaunchRecord, target: Any) -> Iterator[None]:
    """Note the launches of a machine with a GPU, as they would be compiled for `target`."""
    jit = names.runtime_jit()
    real = jit.JITFunction.run
    binders = _Binders(target)

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        with contextlib.suppress(Exception):  # what Triton refuses, it refuses below
            record.note(*binders.bound(self, args, named), None if warmup else grid, inspect.currentframe())
        if record.is_asking:
            return None
        return real(self, *args, grid=grid, warmup=warmup, **named)

    with (
        patched(jit.JITFunction, "run", torch.compiler.disable(run)),  # type: ignore[no-untyped-call]
        recording_tuners(record, lambda: patched(jit.JITFunction, "run", real)),
    ):
        yield


class _Binders:
    """Triton's way from the arguments of a launch to what it compiles, for another target than the machine's."""

    def __init__(self, target: Any) -> None:
        self._target, self._backend = target, names.make_backend(target)
        self._binders: dict[int, Any] = {}

    def bound(
        self, kernel: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[CompileArguments, dict[str, Any]]:
        binder = self._binders.get(id(kernel))
        if binder is None:
            make = names.runtime_jit().create_function_from_signature
            binder = self._binders[id(kernel)] = make(kernel.signature, kernel.params, self._backend)
        named = {**named, "debug": named.get("debug", kernel.debug)}
        bound, specialization, options = binder(*args, **named)
        options, signature, constants, attributes = kernel._pack_args(
            self._backend, named, bound, specialization, options
        )
        return CompileArguments(kernel, signature, constants, attributes, options, self._target), bound

# ruff: noqa: SLF001 - private names are this package's business
"""Answers of `torch.cuda` and `torch.accelerator` for a GPU that is not there, for the code that asks for them.

`is_available()` stays False, and the memory of the device is empty: tensors are on the CPU. Invariant: all other code
gets torch's own answer, and everything is as before when the block ends. A function keeps its identity, by which Dynamo
knows it: its code is exchanged.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from fuselight.adapters.torch_api.absent_streams import (
    answer_for,
    constant,
    current_stream_in_graph,
    ending_graph,
    no_context,
    traced_answers,
)
from fuselight.adapters.torch_api.device_properties import CudaProperties, cuda_properties
from fuselight.adapters.torch_api.patching import patched
from fuselight.shared.report import Device

Asks = Callable[[Mapping[str, Any]], bool]
"""Whether the module with these names gets the answers."""
_HOOKS = "__fuselight_answers__"
_IN_BETWEEN = (
    "torch.cuda",
    "torch.cpu",
    "torch.accelerator",
    "triton.testing",
    "fuselight.",
    "typing_extensions",
)
"""Modules that pass a question on."""
_OF_GRAPHS = ("torch.fx.", "<eval_with_key>")
"""What runs a captured graph: it has the call of code that got an answer when it was traced."""


@contextlib.contextmanager
def answered_questions(device: Device, asks: Asks) -> Iterator[None]:
    """Answer for `device` until the block ends; it may be entered again within, for other code."""
    with contextlib.ExitStack() as stack:
        stack.callback(_selected.__setitem__, 0, _selected[0])
        for function, answer in _functions(device):
            stack.enter_context(exchanged_if_asked(asks, function, answer))
        constants = getattr(sys.modules.get("torch._dynamo.utils"), "common_constant_types", None)
        if isinstance(constants, set) and CudaProperties not in constants:
            constants.add(CudaProperties)
            stack.callback(constants.discard, CudaProperties)
        stack.enter_context(_answers_in_graphs(asks))
        yield


def _functions(device: Device) -> Iterator[tuple[types.FunctionType, Callable[..., Any]]]:
    """The functions that this torch has, with what each returns."""
    built = {"is_built": True, "is_flash_attention_available": device.capability >= (8, 0)}
    tables: list[tuple[Any, Mapping[str, Any]]] = [
        (torch.cuda, _of_cuda(device)),
        (torch.backends.cuda, built),
        (torch.cpu, {"current_device": _current_index}),
    ]
    if has_no_other_accelerator():
        tables.append((torch.accelerator, _of_accelerator(device)))
    for owner, answers in tables:
        for name, answer in answers.items():
            function = getattr(owner, name, None)
            if isinstance(function, types.FunctionType):
                yield function, answer if callable(answer) else _returning(answer)


def has_no_other_accelerator() -> bool:
    """Whether `torch.accelerator` would be CUDA's: of torch 2.6 and newer, and not on a machine with another one."""
    accelerator = getattr(torch._C, "_accelerator_getAccelerator", lambda: torch.device("meta"))()
    return accelerator is None or accelerator.type == "cuda"


def _returning(value: Any) -> Callable[..., Any]:
    return lambda *_: value


def _of_cuda(device: Device) -> Mapping[str, Any]:
    properties = cuda_properties(device)
    return {
        "get_device_properties": properties,
        "get_device_capability": device.capability,
        "get_device_name": device.name,
        "get_arch_list": [f"sm_{device.triton_arch}" if device.backend == "cuda" else device.arch],
        "current_device": _current_index,
        "device_count": _count,
        "is_bf16_supported": device.capability >= (8, 0),
        "is_tf32_supported": device.capability >= (8, 0),
        "can_device_access_peer": False,
        "is_current_stream_capturing": False,
        "init": None,
        "ipc_collect": None,
        "synchronize": None,
        "set_stream": None,
        "current_stream": lambda *_: torch.cpu.current_stream(),
        "default_stream": lambda *_: torch.cpu.current_stream(),
        "current_blas_handle": 0,
        "get_sync_debug_mode": 0,
        "set_sync_debug_mode": None,
        "get_allocator_backend": "native",
        "mem_get_info": (properties.total_memory, properties.total_memory),
        "get_per_process_memory_fraction": 1.0,
        "set_per_process_memory_fraction": None,
        "memory_snapshot": lambda *_: [],
        "memory_summary": f"{device.name}: no memory is allocated",
        **_MEMORY,
        "initial_seed": lambda *_: torch.initial_seed(),
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        **dict.fromkeys(("utilization", "memory_usage", "temperature", "power_draw"), 0),
        "clock_rate": device.clock_mhz or 0,
    }


_MEMORY: Mapping[str, Any] = {
    "memory_stats": lambda *_: collections.defaultdict(int),
    **dict.fromkeys(
        (
            "reset_peak_memory_stats",
            "reset_accumulated_memory_stats",
            "reset_max_memory_allocated",
            "reset_max_memory_cached",
        ),
        None,
    ),
}
"""Of the allocator, which `torch.cuda` and `torch.accelerator` share."""


def _of_accelerator(device: Device) -> Mapping[str, Any]:
    total = cuda_properties(device).total_memory
    sizes = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")
    return {
        "current_accelerator": lambda check_available=False: None if check_available else torch.device("cpu"),
        "current_device_index": _current_index,
        "device_count": _count,
        "set_device_index": select,
        "current_stream": lambda *_: torch.cpu.current_stream(),
        "set_stream": None,
        "empty_cache": None,
        "empty_host_cache": None,
        "get_memory_info": (total, total),
        **dict.fromkeys(sizes, 0),
        **_MEMORY,
    }


_selected = [0]
"""The index that the program selected: a rank selects its own."""


def select(device: Any) -> None:
    """Note the device that a program selects."""
    index = device if isinstance(device, int) else getattr(device, "index", None)
    if isinstance(index, int) and index >= 0:
        _selected[0] = index


def _current_index(*_: Any) -> int:
    return _selected[0]


def _count(*_: Any) -> int:
    """One, or one for each rank of the machine."""
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(int(ranks) if ranks.isdecimal() else 1, _selected[0] + 1)


def _answers_in_graphs(asks: Asks) -> contextlib.AbstractContextManager[None]:
    """The answers that end no graph on a GPU: its name, for one, ends it."""
    cuda: Any = torch.cuda
    answers = {
        cuda.current_stream: current_stream_in_graph,
        cuda.stream: no_context,
        cuda.current_device: lambda *_: constant(_selected[0]),
        torch.cpu.current_device: lambda *_: constant(_selected[0]),
    }
    if has_no_other_accelerator():
        accelerator = torch.accelerator
        answers[accelerator.current_stream] = current_stream_in_graph
        answers[accelerator.current_device_index] = answers[cuda.current_device]
        answers[accelerator.current_accelerator] = lambda _, *given: (
            None if given else constant(torch.device("cpu"))
        )
        for function in (accelerator.set_stream, accelerator.synchronize):
            answers[function] = lambda *_: constant(None)
    return traced_answers({function: answer_for(asks, answer) for function, answer in answers.items()})


def exchanged_if_asked(
    asks: Asks, function: types.FunctionType, answer: Callable[..., Any]
) -> contextlib.AbstractContextManager[None]:
    """Have a function of torch return `answer(...)` to the code that gets answers, until the block ends."""
    return exchanged(function, functools.partial(_if_asked, asks, function, answer))


def _if_asked(
    asks: Asks, function: Any, answer: Callable[..., Any], real: Callable[..., Any], *args: Any
) -> Any:
    return answer(*args) if _is_asked(asks, function) else real(*args)


@contextlib.contextmanager
def exchanged(function: types.FunctionType, call: Callable[..., Any]) -> Iterator[None]:
    """Have a function of torch do `call(real, ...)` until the block ends; it stays the same object."""
    before, name = function.__code__, function.__name__
    real = types.FunctionType(before, function.__globals__, name, function.__defaults__)
    real.__kwdefaults__ = function.__kwdefaults__
    hooks = function.__globals__.setdefault(_HOOKS, {})
    key = f"{name} {len(hooks)}"
    hooks[key] = ending_graph(functools.partial(call, real), name)
    args = list(before.co_varnames[: before.co_argcount])
    text = f"def {name}({', '.join(args)}): return {_HOOKS}[{key!r}]({', '.join(args)})"
    scope: dict[str, Any] = {}
    exec(text, scope)  # noqa: S102 - our own text
    function.__code__ = code = scope[name].__code__.replace(co_filename=before.co_filename)
    try:
        yield
    finally:
        if function.__code__ is code:
            function.__code__ = before
        hooks.pop(key, None)


def _is_asked(asks: Asks, function: Any) -> bool:
    """Whether the code that calls `function` gets the answers: the code that Dynamo traces, where it calls for it."""
    frame = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("torch._dynamo"):
            called = (frame.f_locals.get(name) for name in ("self", "node"))
            is_for_program = any(
                function in (getattr(of, "value", None), getattr(of, "target", None)) for of in called
            )
            return is_for_program and asks(_traced(frame))
        if module.startswith(_OF_GRAPHS) or frame.f_code.co_filename.startswith(_OF_GRAPHS):
            return True
        if not module.startswith(_IN_BETWEEN):
            return asks(frame.f_globals)
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _traced(frame: types.FrameType | None) -> Mapping[str, Any]:
    """The names of the module whose code Dynamo traces, below `frame`: of the function that it inlines, if it does."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch._dynamo.symbolic_convert":
            names: Mapping[str, Any] | None = getattr(frame.f_locals.get("self"), "f_globals", None)
            if names is not None:
                return names
        frame = frame.f_back
    return {}


@contextlib.contextmanager
def no_ranges() -> Iterator[None]:
    """Have the ranges of `torch.cuda.nvtx` do nothing, where torch was built without them, until the block ends."""
    nvtx = torch.cuda.nvtx
    if not type(getattr(nvtx, "_nvtx", None)).__name__.endswith("Stub"):
        yield
        return
    names = (
        "rangePushA",
        "rangePop",
        "rangeStartA",
        "rangeEnd",
        "markA",
        "deviceRangeStart",
        "deviceRangeEnd",
    )
    ranges = types.SimpleNamespace(**{name: lambda *_: 0 for name in names})
    with patched(nvtx, "_nvtx", ranges):
        yield

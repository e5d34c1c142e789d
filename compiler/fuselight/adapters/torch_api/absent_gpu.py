# ruff: noqa: SLF001 - private names are this package's business
"""Answers for a GPU that is not there, where code asks that launches Triton kernels, or selects a device.

Tensors stay on the CPU and `torch.cuda.is_available()` stays False: autograd and autocast would believe it. Code that
launches kernels asks more: whether its tensors are on a GPU, how many multiprocessors there are. Invariant: all other
code gets torch's own answer, and everything is as before when the block ends. A function keeps its identity, by which
Dynamo knows it: its code is exchanged.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.utils._triton

from fuselight.adapters.torch_api.absent_streams import (
    absent_streams,
    answer_for,
    constant,
    current_stream_in_graph,
    no_context,
    traced_answers,
)
from fuselight.adapters.torch_api.device_properties import CudaProperties, cuda_properties
from fuselight.adapters.torch_api.patching import patched
from fuselight.shared.report import Device

AsksForKernels = Callable[[Mapping[str, Any]], bool]
"""Whether the module with these names launches Triton kernels."""
_HOOKS = "__fuselight_answers__"
_TMA = (
    "has_triton_tensor_descriptor_host_tma",
    "has_triton_tma",
    "has_triton_tma_device",
    "has_triton_stable_tma_api",
)
_OF_KERNELS = ("torch._dynamo.variables", "torch._higher_order_ops.triton_kernel_wrap", "torch._library")
"""The parts of torch that take a kernel of the program's into a graph."""
_HOPPER = (9, 0)


@contextlib.contextmanager
def device_guards() -> Iterator[None]:
    """Have `torch.cuda.device(...)` and `set_device` do nothing, in compiled code too, until the block ends."""
    cuda: Any = torch.cuda

    def index_of(*args: Any, **named: Any) -> int:
        try:
            index = real_index(*args, **named)
        except (ValueError, RuntimeError, AssertionError):  # of the CPU, or of the current GPU
            index = None
        return int(index or 0)  # `x.device.index` of the CPU is None

    def synchronize(real: Callable[..., None], device: Any = None) -> None:
        if device is not None and torch.device(device).type != "cuda":
            real(device)

    with contextlib.ExitStack() as stack:
        functions: dict[str, Callable[..., int]] = {}
        for name in ("_exchange_device", "_maybe_exchange_device"):
            functions[name] = lambda _device: -1
        real_index = cuda._get_device_index
        functions["_get_device_index"] = index_of
        for name, function in functions.items():
            # A graph calls a function by this name: that of a function of torch's C++ would reach the driver.
            function.__module__, function.__name__ = cuda.__name__, name
            stack.enter_context(patched(cuda, name, function))
        synchronized = getattr(getattr(torch, "accelerator", None), "synchronize", None)  # of 2.6 and newer
        if isinstance(synchronized, types.FunctionType):
            stack.enter_context(_exchanged(synchronized, synchronize))
        if not hasattr(torch._C, "_cuda_setDevice"):
            stack.enter_context(patched(torch._C, "_cuda_setDevice", lambda _device: None))
        stack.enter_context(_traced_guards(functions))
        stack.enter_context(absent_streams())
        yield


@contextlib.contextmanager
def _traced_guards(functions: Mapping[str, Callable[..., int]]) -> Iterator[None]:
    """The same in Dynamo, which keeps the functions that it found at its import."""
    with contextlib.ExitStack() as stack:
        variables = sys.modules.get("torch._dynamo.variables.ctx_manager")
        variable = getattr(variables, "CUDADeviceVariable", None)
        for attribute, name in (
            ("_exchange_fn", "_exchange_device"),
            ("_maybe_exchange_fn", "_maybe_exchange_device"),
            ("_get_device_index_fn", "_get_device_index"),
        ):
            if hasattr(variable, attribute):  # else Dynamo asks torch.cuda itself
                stack.enter_context(patched(variable, attribute, staticmethod(functions[name])))
        yield


@contextlib.contextmanager
def answers_for_kernels(device: Device, asks: AsksForKernels) -> Iterator[None]:
    """Answer code that launches kernels for `device`, until the block ends."""
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        for name, answer in _answers(device).items():
            if isinstance(getattr(torch.cuda, name, None), types.FunctionType):
                enter(_exchanged(getattr(torch.cuda, name), functools.partial(_if_for_kernels, asks, answer)))
        constants = getattr(sys.modules.get("torch._dynamo.utils"), "common_constant_types", None)
        if isinstance(constants, set) and CudaProperties not in constants:
            constants.add(CudaProperties)
            stack.callback(constants.discard, CudaProperties)
        enter(_answers_in_graphs(asks))
        enter(_on_gpu(asks))
        enter(_kernels_captured(device, asks))
        yield


def _answers(device: Device) -> dict[str, Callable[..., Any]]:
    properties = cuda_properties(device)
    values: dict[str, Any] = {
        "get_device_properties": properties,
        "get_device_capability": device.capability,
        "get_device_name": device.name,
        "current_device": 0,
        "device_count": 1,
        "is_bf16_supported": device.capability >= (8, 0),
        "is_current_stream_capturing": False,
        "synchronize": None,
        "set_stream": None,
        "current_stream": torch.cpu.current_stream(),
        "default_stream": torch.cpu.current_stream(),
    }
    return {name: lambda *_, _value=value: _value for name, value in values.items()}


def _answers_in_graphs(asks: AsksForKernels) -> contextlib.AbstractContextManager[None]:
    """The answers that end no graph on a GPU: its name, for one, ends it."""
    cuda: Any = torch.cuda
    return traced_answers(
        {
            cuda.current_stream: answer_for(asks, current_stream_in_graph),
            cuda.stream: answer_for(asks, no_context),
            cuda.current_device: answer_for(asks, lambda _: constant(0)),
        }
    )


def _if_for_kernels(
    asks: AsksForKernels, answer: Callable[..., Any], real: Callable[..., Any], *args: Any
) -> Any:
    return answer(*args) if _is_asked(asks) else real(*args)


@contextlib.contextmanager
def _exchanged(function: types.FunctionType, call: Callable[..., Any]) -> Iterator[None]:
    """Have a function of torch do `call(real, ...)` until the block ends; it stays the same object."""
    before, name = function.__code__, function.__name__
    real = types.FunctionType(before, function.__globals__, name, function.__defaults__)
    real.__kwdefaults__ = function.__kwdefaults__
    hooks = function.__globals__.setdefault(_HOOKS, {})
    hooks[name] = functools.partial(call, real)
    args = list(before.co_varnames[: before.co_argcount])
    text = f"def {name}({', '.join(args)}): return {_HOOKS}[{name!r}]({', '.join(args)})"
    scope: dict[str, Any] = {}
    exec(text, scope)  # noqa: S102 - our own text
    function.__code__ = code = scope[name].__code__
    try:
        yield
    finally:
        if function.__code__ is code:
            function.__code__ = before
        hooks.pop(name, None)


def _is_asked(asks: AsksForKernels) -> bool:
    """Whether the code that calls torch launches kernels: the code that Dynamo traces, where Dynamo calls for it.

    A captured graph has the call of code that got an answer when it was traced.
    """
    frame = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("torch._dynamo"):
            return asks(_traced(frame))
        if frame.f_code.co_filename.startswith("<eval_with_key>"):
            return True
        if not module.startswith(("torch.", "fuselight.")) and module != "torch":
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
def _on_gpu(asks: AsksForKernels) -> Iterator[None]:
    """`tensor.is_cuda` is true for code that launches kernels: it refuses other tensors."""
    real: Any = torch._C.TensorBase.is_cuda

    def is_cuda(tensor: torch.Tensor) -> bool:
        return True if asks(sys._getframe(1).f_globals) else bool(real.__get__(tensor))

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(torch.Tensor, "is_cuda", property(is_cuda)))
        tensors = sys.modules.get("torch._dynamo.variables.tensor")
        variable = getattr(tensors, "TensorVariable", None)
        traced = getattr(variable, "method_attr_is_cuda", None)
        if traced is not None:

            def attribute(self: Any, tx: Any) -> Any:
                from torch._dynamo.variables import ConstantVariable  # noqa: PLC0415 - Dynamo is loaded

                return ConstantVariable.create(True) if asks(tx.f_globals) else traced(self, tx)  # noqa: FBT003 - Dynamo's signature

            stack.enter_context(patched(variable, "method_attr_is_cuda", attribute))
        yield


@contextlib.contextmanager
def _kernels_captured(device: Device, asks: AsksForKernels) -> Iterator[None]:
    """Have torch take kernels into its graphs, and change its mind about nothing else."""
    has_tma = device.backend == "cuda" and device.capability >= _HOPPER
    with contextlib.ExitStack() as stack:
        for name in ("has_triton", *_TMA):
            real = getattr(torch.utils._triton, name, None)
            if real is not None:
                answer = _for_kernels(real, asks, value=has_tma if name in _TMA else True)
                stack.enter_context(patched(torch.utils._triton, name, answer))
        yield


def _for_kernels(real: Callable[..., bool], asks: AsksForKernels, *, value: bool) -> Callable[..., bool]:
    def answer(**named: Any) -> bool:  # of torch 2.15: whether Triton for processors counts
        names = sys._getframe(1).f_globals
        if str(names.get("__name__", "")).startswith(_OF_KERNELS) or asks(names):
            return value
        return real(**named)

    for attribute in ("cache_clear", "cache_info"):
        if hasattr(real, attribute):
            setattr(answer, attribute, getattr(real, attribute))
    return answer

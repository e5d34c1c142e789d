# ruff: noqa: SLF001 - private names are this package's business
"""A GPU that is not there, for code that selects a device, or launches Triton kernels.

Tensors stay on the CPU and `torch.cuda.is_available()` stays False: autograd and autocast would believe it. Code that
launches kernels also asks whether its tensors are on a GPU. Invariant: all other code gets torch's own answer, and
everything is as before when the block ends.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.utils._triton

from fuselight.adapters.torch_api.absent_streams import absent_streams
from fuselight.adapters.torch_api.device_questions import (
    Asks,
    answered_questions,
    exchanged,
    exchanged_if_asked,
    has_no_other_accelerator,
    no_ranges,
    select,
)
from fuselight.adapters.torch_api.patching import patched
from fuselight.shared.report import Device

_TMA = (
    "has_triton_tensor_descriptor_host_tma",
    "has_triton_tma",
    "has_triton_tma_device",
    "has_triton_stable_tma_api",
)
_OF_KERNELS = ("torch._dynamo.variables", "torch._higher_order_ops.triton_kernel_wrap", "torch._library")
"""The parts of torch that take a kernel of the program's into a graph."""
_HOPPER = (9, 0)
_VERSIONS = {"cuda": "13.0", "hip": "7.1"}
"""What `torch.version` has in the builds of torch for a GPU, by Triton's backend."""


@contextlib.contextmanager
def device_guards() -> Iterator[None]:
    """Have `torch.cuda.device(...)` do nothing, in compiled code too, and note selections, until the block ends."""
    cuda: Any = torch.cuda
    with contextlib.ExitStack() as stack:
        functions: dict[str, Callable[..., int]] = {}
        for name in ("_exchange_device", "_maybe_exchange_device"):
            functions[name] = lambda _device: -1
        functions["_get_device_index"] = _index_function(cuda._get_device_index)
        for name, function in functions.items():
            # A graph calls a function by this name: that of a function of torch's C++ would reach the driver.
            function.__module__, function.__name__ = cuda.__name__, name
            stack.enter_context(patched(cuda, name, function))
        if has_no_other_accelerator():
            accelerator = getattr(torch, "accelerator", None)  # of 2.6 and newer
            synchronized = getattr(accelerator, "synchronize", None)
            if isinstance(synchronized, types.FunctionType):
                stack.enter_context(exchanged(synchronized, _synchronize))
            for name in ("_accelerator_exchangeDevice", "_accelerator_maybeExchangeDevice"):
                stack.enter_context(patched(torch._C, name, functions["_exchange_device"]))
            stack.enter_context(_traced_guards("AcceleratorDeviceIndexVariable", functions))
        for name in (
            "device",
            "device_of",
        ):  # of `getattr(torch, torch.accelerator.current_accelerator().type)`
            stack.enter_context(patched(torch.cpu, name, getattr(torch.cpu, name, getattr(cuda, name))))
        stack.enter_context(patched(torch._C, "_cuda_setDevice", select))
        stack.enter_context(_traced_guards("CUDADeviceVariable", functions))
        stack.enter_context(absent_streams())
        stack.enter_context(no_ranges())
        yield


def _index_function(real: Callable[..., Any]) -> Callable[..., int]:
    def index_of(device: Any, *args: Any, **named: Any) -> int:
        if isinstance(device, int):
            return max(device, 0)
        try:
            index = real(device, *args, **named)
        except (ValueError, RuntimeError, AssertionError):  # of the CPU, or of the current GPU
            index = None
        return int(index or 0)  # `x.device.index` of the CPU is None

    return index_of


def _synchronize(real: Callable[..., None], device: Any = None) -> None:
    if device is not None and torch.device(device).type not in {"cuda", "cpu"}:
        real(device)


@contextlib.contextmanager
def _traced_guards(variable_name: str, functions: Mapping[str, Callable[..., int]]) -> Iterator[None]:
    """The same in Dynamo, which keeps the functions that it found at its import."""
    with contextlib.ExitStack() as stack:
        variables = sys.modules.get("torch._dynamo.variables.ctx_manager")
        variable = getattr(variables, variable_name, None)
        for attribute, name in (
            ("_exchange_fn", "_exchange_device"),
            ("_maybe_exchange_fn", "_maybe_exchange_device"),
            ("_get_device_index_fn", "_get_device_index"),
        ):
            if hasattr(variable, attribute):  # else Dynamo asks torch.cuda itself
                stack.enter_context(patched(variable, attribute, staticmethod(functions[name])))
        yield


@contextlib.contextmanager
def answers_for_kernels(device: Device, asks: Asks, is_library: Asks) -> Iterator[None]:
    """Answer code that launches kernels for `device`, until the block ends.

    Only to a library's module of kernels, CUDA is available: what it makes with it is redirected to the CPU.
    """
    available: Any = torch.cuda.is_available
    with (
        answered_questions(device, asks),
        exchanged_if_asked(is_library, available, lambda *_: True),
        _on_gpu(asks),
        _built_for_gpu(device, asks),
        _kernels_captured(device, asks),
    ):
        yield


@contextlib.contextmanager
def _built_for_gpu(device: Device, asks: Asks) -> Iterator[None]:
    """`torch.version.cuda` and `hip` are those of a build for `device`; Dynamo's guards read torch's own."""
    own: Any = torch.version

    def attribute(name: str) -> property:
        def version(module: types.ModuleType) -> Any:
            if asks(sys._getframe(1).f_globals):
                return _VERSIONS[name] if name == device.backend else None
            return vars(module).get(name)

        return property(version, lambda module, value: vars(module).__setitem__(name, value))

    before = own.__class__
    own.__class__ = type("versions", (before,), {name: attribute(name) for name in _VERSIONS})
    try:
        yield
    finally:
        own.__class__ = before


@contextlib.contextmanager
def _on_gpu(asks: Asks) -> Iterator[None]:
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
def _kernels_captured(device: Device, asks: Asks) -> Iterator[None]:
    """Have torch take kernels into its graphs, and change its mind about nothing else."""
    has_tma = device.backend == "cuda" and device.capability >= _HOPPER
    with contextlib.ExitStack() as stack:
        for name in ("has_triton", *_TMA):
            real = getattr(torch.utils._triton, name, None)
            if real is not None:
                answer = _for_kernels(real, asks, value=has_tma if name in _TMA else True)
                stack.enter_context(patched(torch.utils._triton, name, answer))
        yield


def _for_kernels(real: Callable[..., bool], asks: Asks, *, value: bool) -> Callable[..., bool]:
    def answer(**named: Any) -> bool:  # of torch 2.15: whether Triton for processors counts
        names = sys._getframe(1).f_globals
        if str(names.get("__name__", "")).startswith(_OF_KERNELS) or asks(names):
            return value
        return real(**named)

    for attribute in ("cache_clear", "cache_info", "__module__", "__name__", "__qualname__"):
        if hasattr(real, attribute):
            setattr(answer, attribute, getattr(real, attribute))
    # Dynamo ends a graph for torch's file and name, as it does without us, and traces none of our lines.
    answer.__code__ = answer.__code__.replace(co_filename=torch.utils._triton.__file__, co_name=real.__name__)
    return answer

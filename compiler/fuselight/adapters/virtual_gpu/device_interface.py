# ruff: noqa: SLF001 - private names are this package's business; the answers are torch's
"""Answers torch's questions about an absent GPU while Inductor generates code for it.

Invariant: nothing is launched and no driver is asked. When the block ends, every replaced attribute is restored and
torch's caches of the answers are cleared. Run it in a separate process: in a CPU build, autograd over fake CUDA tensors
crashes the process.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo.device_interface
import torch._prims_common

from fuselight.adapters.torch_api.device_properties import cuda_properties
from fuselight.adapters.torch_api.devices import forget_answers
from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.driver import CompileOnlyDriver
from fuselight.adapters.virtual_gpu.triton_stand_in import triton_standing_in
from fuselight.shared.report import Device

_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
"""c10's table of device guards, by device type: 0 is the CPU, 1 is CUDA."""
_REAL_FORMAT = torch._C._conv_determine_backend_memory_format


@contextlib.contextmanager
def virtual_gpu(device: Device) -> Iterator[None]:
    """Have torch and Triton see one GPU, `device`, until the block ends."""
    interfaces = torch._dynamo.device_interface
    forget_answers()
    interfaces.get_interface_for_device("cpu")  # registers the real ones, or they would come after ours
    before = dict(interfaces.device_interfaces)
    with contextlib.ExitStack() as stack:
        stack.callback(forget_answers)
        stack.callback(interfaces.device_interfaces.update, before)
        stack.callback(interfaces.device_interfaces.clear)
        interface = _interface(device)
        for name in ("cuda", "cuda:0"):
            interfaces.register_interface_for_device(name, interface)
        stack.enter_context(_guard_without_driver())
        # A graph whose random numbers are drawn again in the backward takes the state as an input, of a GPU's size.
        stack.enter_context(
            patched(torch.cuda, "get_rng_state", lambda *_: torch.zeros(16, dtype=torch.uint8))
        )
        if device.backend == "cuda":
            stack.enter_context(patched(torch._C, "_conv_determine_backend_memory_format", _memory_format))
        if names.is_missing():
            stack.enter_context(triton_standing_in(device))
        else:
            target = names.gpu_target(device.backend, device.triton_arch, device.warp)
            stack.enter_context(patched(names.driver(), "_active", CompileOnlyDriver(target)))
        yield


@contextlib.contextmanager
def answering(device: Device) -> Iterator[None]:
    """Have `torch.cuda` answer for `device`: around code generation only, as autograd would believe it too."""
    answers: dict[str, Any] = {
        "is_available": True,
        "current_device": 0,
        "device_count": 1,
        "get_device_properties": cuda_properties(device),
        "get_device_capability": device.capability,
        "get_device_name": device.name,
        "synchronize": None,
        "is_bf16_supported": device.capability >= (8, 0),
        "_is_compiled": True,
    }
    with contextlib.ExitStack() as stack:
        for name, value in answers.items():
            stack.enter_context(patched(torch.cuda, name, _constant(value)))
        for name in ("device", "_DeviceGuard"):
            stack.enter_context(patched(torch.cuda, name, lambda *_, **__: contextlib.nullcontext()))
        if device.backend == "hip":
            stack.enter_context(patched(torch.version, "hip", torch.version.hip or "6.4"))
        else:
            stack.enter_context(patched(torch.version, "cuda", torch.version.cuda or "13.0"))
        yield


def _memory_format(image: torch.Tensor, weight: torch.Tensor, backend: Any) -> Any:
    """The layout of a convolution's result, which a fake tensor asks for by the library that would compute it.

    Without a GPU none is chosen that runs there. cuDNN's rule is ATen's cudnn_conv_suggest_memory_format.
    """
    if image.device.type != "cuda":
        return _REAL_FORMAT(image, weight, backend)
    if torch.float64 in {image.dtype, weight.dtype}:
        return torch.contiguous_format
    wanted = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.dim())
    either = wanted in {torch._prims_common.suggest_memory_format(tensor) for tensor in (image, weight)}
    return wanted if either else torch.contiguous_format


def _constant(value: Any) -> Any:
    return lambda *_args, **_named: value


def _interface(device: Device) -> type:
    values = {
        "set_device": None,
        "current_device": 0,
        "device_count": 1,
        "is_available": True,
        "is_triton_capable": True,
        "is_bf16_supported": device.capability >= (8, 0),
        "raise_if_triton_unavailable": None,
        "synchronize": None,
        "get_device_properties": cuda_properties(device),
        "get_compute_capability": device.triton_arch,
        "get_raw_stream": 0,
        "exchange_device": 0,
        "maybe_exchange_device": 0,
    }
    answers: dict[str, Any] = {name: staticmethod(_constant(value)) for name, value in values.items()}
    of_worker = ("set_device", "current_device", "get_device_properties")
    answers["Worker"] = type("Worker", (), {name: answers[name] for name in of_worker})
    return type("VirtualCuda", (torch._dynamo.device_interface.CudaInterface,), answers)


@contextlib.contextmanager
def _guard_without_driver() -> Iterator[None]:
    """Give CUDA's slot the CPU's device guard, which does nothing: fake CUDA tensors can then be indexed.

    Without it a CPU build throws where C++ asks for the guard.
    """
    library = Path(torch.__file__).parent / "lib" / "libc10.so"
    try:
        slots = (ctypes.c_void_p * 2).in_dll(ctypes.CDLL(str(library)), _GUARDS)
    except (OSError, ValueError):  # no such library here: whatever needs the guard will say so
        yield
        return
    before = slots[1]
    if not before:
        slots[1] = slots[0]
    try:
        yield
    finally:
        slots[1] = before

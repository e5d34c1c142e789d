# ruff: noqa: SLF001 - private names are this package's business
"""Answers questions about GPUs without the driver, for a process that others are forked from.

After CUDA was initialized, or NVML opened NVIDIA's device files, no process that is forked later can use CUDA
("initialization error" on an H200, torch 2.11). Invariant: between `leave_driver_alone` and `use_driver`,
`torch.cuda.is_available` and `device_count` are answered from the names of the device files; they themselves are not
replaced, for Dynamo and users' modules keep references to them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo.device_interface
import torch.utils._triton

from fuselight.adapters.torch_api.patching import forget, patched

_DEVICE_FILE = re.compile(r"nvidia\d+$")


@dataclass
class _Replaced:
    """What this process asks instead of NVML."""

    real: Callable[[], int] | None = None
    """torch's own question, while it is replaced."""
    by_count: Callable[[], bool] | None = None
    """torch's own word on whether `is_available` asks for the count, while it is replaced."""
    unseen: bool = False


_replaced = _Replaced()


def is_cpu_only() -> bool:
    """Whether this torch was built without any other device, and no extension has registered one."""
    compiled: Any = torch._C
    if any(getattr(compiled, name, True) for name in ("_has_cuda", "_has_mps", "_has_xpu")):
        return False
    has_mtia = getattr(compiled, "_mtia_isBuilt", lambda: True)()  # a name that this torch lacks says nothing
    return not has_mtia and compiled._get_privateuse1_backend_name() == "privateuseone"


def leave_driver_alone() -> None:
    """From now on, answer questions about GPUs without the driver and without NVML.

    `is_available` asks for the count, and not the CUDA runtime, whatever PYTORCH_NVML_BASED_CUDA_CHECK says: a fork has
    the user's own variables again, and may be one that others are forked from.
    """
    if _replaced.real is None:
        _replaced.real = torch.cuda._device_count_nvml
        _replaced.by_count = torch.cuda._nvml_based_avail
        torch.cuda._device_count_nvml = _count
        torch.cuda._nvml_based_avail = lambda: True


def leaves_driver_alone() -> bool:
    """Whether this process answers for the driver, so that nobody here may ask it anything."""
    return _replaced.real is not None


def use_driver() -> None:
    """Make torch ask the driver again and forget earlier answers. For a fork of such a process."""
    if _replaced.real is not None and _replaced.by_count is not None:
        torch.cuda._device_count_nvml = _replaced.real
        torch.cuda._nvml_based_avail = _replaced.by_count
        _replaced.real = _replaced.by_count = None
        forget_answers()


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """While `leave_driver_alone` holds, let torch see no GPU until the block ends.

    With a GPU, each trace saves CUDA's random state (convert_frame.preserve_global_state), which initializes CUDA.
    Without one, fake tensors install a CUDA device guard that does nothing, which counts the devices first.
    """
    if _replaced.real is None:
        yield
        return
    with (
        patched(torch._C, "_ensureCUDADeviceGuardSet", lambda: None),
        patched(_replaced, "unseen", value=True),
    ):
        try:
            yield
        finally:
            forget_answers()


def start_no_autograd_thread() -> None:
    """Where torch sees no GPU, let this process run backward without a thread, so that its forks can run it, too.

    In a build for CUDA, the guard that fake tensors install counts as one device, and the first backward starts a
    thread for it. After that, torch refuses backward in each fork.
    """
    if not torch.cuda.is_available():
        torch._C._ensureCUDADeviceGuardSet = lambda: None


def hide() -> None:
    """Let torch see no GPU in this process from now on, and in those forked from it."""
    leave_driver_alone()
    torch._C._ensureCUDADeviceGuardSet = lambda: None
    _replaced.unseen = True
    forget_answers()


def _count() -> int:
    return 0 if _replaced.unseen else count_devices(os.listdir("/dev"))


def count_devices(device_files: list[str]) -> int:
    """How many GPUs CUDA would show, of the names in `/dev` and of CUDA_VISIBLE_DEVICES."""
    if torch.version.cuda is None:
        return 0
    present = sum(_DEVICE_FILE.match(name) is not None for name in device_files)
    visible = torch.cuda._parse_visible_devices()
    if visible and isinstance(visible[0], str):  # of several slices (MIG) CUDA shows one
        return min(present, 1 if visible[0].startswith("MIG-") else len(visible))
    ordinals = (int(ordinal) for ordinal in visible)
    return next((index for index, ordinal in enumerate(ordinals) if ordinal >= present), len(visible))


def forget_answers() -> None:
    """Drop what torch keeps of earlier answers, which were not the driver's."""
    torch._dynamo.device_interface._device_initialized = False
    for module in (torch._dynamo.device_interface, torch.utils._triton):
        forget(vars(module).values())

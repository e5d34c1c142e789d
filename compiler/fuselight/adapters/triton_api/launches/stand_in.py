"""Has a process without a GPU run the launches of the user's Triton kernels, until a block ends.

Invariant: nothing happens before Triton is imported, and nothing at all where a driver of Triton's may be active.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import FunctionType
from typing import Any

import torch

from fuselight.adapters.torch_api.absent_gpu import answers_for_kernels
from fuselight.adapters.torch_api.inductor.own_kernels import graphs_with_kernels_as_captured
from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.launches.absent_driver import AbsentDriver
from fuselight.adapters.triton_api.launches.launcher import Launcher
from fuselight.adapters.triton_api.launches.record import LaunchLog
from fuselight.adapters.triton_api.launches.specializations import (
    LaunchRecord,
    recording_launches,
    recording_tuners,
)
from fuselight.adapters.triton_api.launches.tuning_on_gpu import trying_tuned_launches
from fuselight.adapters.triton_api.launches.tuning_trial import autotuner_run
from fuselight.shared.import_hooks import AfterImport
from fuselight.shared.kernel_files import is_of_kernel_library
from fuselight.shared.report import Device, TuningChange

_OTHERS = ("torch", "triton", "fuselight")
"""Packages whose kernels are none of the user's."""


@contextlib.contextmanager
def standing_in(device: Device, log: LaunchLog, is_users: Callable[[str], bool]) -> Iterator[None]:
    """Answer for `device` and compute launches on the CPU; `is_users(path)` says whether a file is the user's."""
    with _with_triton(lambda: _installed(device, log, is_users)):
        yield


def has_kernels() -> bool:
    """Whether the program has imported Triton kernels of its own or of a library; those of torch do not count."""
    module = sys.modules.get("triton.runtime.jit")
    kernels = getattr(module, "_triton_jit_function_registry", {})
    return any(
        str(getattr(kernel, "module", "")).partition(".")[0] not in _OTHERS
        for kernel in list(kernels.values())
    )


@contextlib.contextmanager
def refusing_launches(refusal: Callable[[str], Exception]) -> Iterator[None]:
    """Have launches raise `refusal(name)`, with the name of the kernel, and answer nothing else: for measurements."""
    with _with_triton(lambda: _refusing(refusal)):
        yield


@contextlib.contextmanager
def recording_on_gpu(
    device: Device, record: LaunchRecord, on_change: Callable[[TuningChange], None]
) -> Iterator[None]:
    """Note launches on a machine with a GPU, as they would be compiled for `device`; they run on the GPU.

    `on_change` gets what the timed runs of an autotuner change in its first result.
    """

    @contextlib.contextmanager
    def installed() -> Iterator[None]:
        target = names.gpu_target(device.backend, device.triton_arch, device.warp)
        with trying_tuned_launches(on_change), recording_launches(record, target):
            yield

    with _with_triton(installed, with_gpu=True):
        yield


@contextlib.contextmanager
def _with_triton(
    installed: Callable[[], AbstractContextManager[None]], *, with_gpu: bool = False
) -> Iterator[None]:
    """Enter `installed()` once Triton is imported, unless a driver of its may be active: it must be one `with_gpu`."""
    with contextlib.ExitStack() as stack:

        def install() -> None:
            try:
                is_active = names.driver()._active is not None  # noqa: SLF001 - reading `active` would look for a GPU
                may_stand_in = _is_known() and (with_gpu or (not is_active and "cpu" not in names.backends()))
            except (
                ImportError,
                AttributeError,
            ):  # a Triton that is broken, or another than those that are known
                return
            if may_stand_in:
                stack.enter_context(installed())

        if "triton.runtime.jit" in sys.modules:
            install()
            yield
            return
        hook = AfterImport("triton", install)
        sys.meta_path.insert(0, hook)
        stack.callback(hook.withdraw)
        yield


def _is_known() -> bool:
    """Whether launches have the parts that are replaced: those of Triton 3.3 and newer."""
    parts = ("create_function_from_signature", "mangle_type")
    return all(hasattr(names.runtime_jit(), name) for name in parts)


@contextlib.contextmanager
def _refusing(refusal: Callable[[str], Exception]) -> Iterator[None]:
    def run(self: Any, *_: Any, **__: Any) -> None:
        kernel = self
        while not hasattr(kernel, "__name__") and hasattr(kernel, "fn"):  # an autotuner's is inside of it
            kernel = kernel.fn
        raise refusal(str(getattr(kernel, "__name__", "?")))

    disabled = torch.compiler.disable(run)  # type: ignore[no-untyped-call]
    with (
        patched(names.runtime_jit().JITFunction, "run", disabled),
        patched(names.autotuner().Autotuner, "run", disabled),
    ):
        yield


@contextlib.contextmanager
def _installed(device: Device, log: LaunchLog, is_users: Callable[[str], bool]) -> Iterator[None]:
    jit, autotuner = names.runtime_jit(), names.autotuner().Autotuner
    launcher = Launcher(log)

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        named["debug"] = named.get("debug", getattr(self, "debug", None))
        return launcher.launch(self, args, named, grid, warmup=warmup)

    def check_disk_cache(_self: Any, _key: Any, _configs: Any, benchmark: Callable[[], None]) -> bool:
        benchmark()  # which times nothing: a file with that would decide on a GPU
        return False

    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        target = names.gpu_target(device.backend, device.triton_arch, device.warp)
        enter(patched(names.driver(), "_active", AbsentDriver(device, target)))
        # Disabled, or Dynamo would compile our code where an eager launch begins.
        enter(patched(jit.JITFunction, "run", torch.compiler.disable(run)))  # type: ignore[no-untyped-call]
        enter(patched(autotuner, "_bench", lambda *_, **__: [0.0, 0.0, 0.0]))
        if hasattr(autotuner, "check_disk_cache"):
            enter(patched(autotuner, "check_disk_cache", check_disk_cache))
        # Disabled, as a launch is.
        tried = torch.compiler.disable(autotuner_run(launcher.tuning_trials))  # type: ignore[no-untyped-call]
        enter(patched(autotuner, "run", tried))
        if log.record is not None:
            enter(recording_tuners(log.record))
        code = KernelCode(jit, is_users)
        enter(answers_for_kernels(device, code, code.is_library))
        enter(graphs_with_kernels_as_captured(_is_absent, log.note_uncompiled))
        yield


def _is_absent() -> bool:
    """Whether Triton would launch: not while code is generated for a GPU that is not there."""
    return isinstance(names.driver()._active, AbsentDriver)  # noqa: SLF001 - as above


class KernelCode:
    """Whether a module launches Triton kernels: it uses Triton itself, or belongs to a library with kernels.

    Of the user's own files, all are, once one of them has a kernel. A library may import its kernels only when it
    launches one: then the files of its folders say so.
    """

    def __init__(self, jit: Any, is_users: Callable[[str], bool]) -> None:
        self._kernels: Mapping[str, Any] = getattr(jit, "_triton_jit_function_registry", {})
        self._is_users = is_users
        self._count = -1
        self._packages: tuple[str, ...] = ()
        self._has_own = False

    def __call__(self, module: Mapping[str, Any]) -> bool:
        """`module` has the names of a module."""
        name = str(module.get("__name__", ""))
        if name.partition(".")[0] in _OTHERS:
            return False
        if _uses_triton(module):
            return True
        self._update()
        if self._has_own and self._is_users(str(module.get("__file__", ""))):
            return True
        if any(name == package or name.startswith(package + ".") for package in self._packages):
            return True
        return is_of_kernel_library(name, str(module.get("__file__") or ""))

    def is_library(self, module: Mapping[str, Any]) -> bool:
        """Whether a module of an installed package uses Triton itself."""
        name = str(module.get("__name__", "")).partition(".")[0]
        is_users = name == "__main__" or self._is_users(str(module.get("__file__", "")))
        return name not in _OTHERS and _uses_triton(module) and not is_users

    def _update(self) -> None:
        if len(self._kernels) == self._count:
            return
        self._count = len(self._kernels)
        packages = set()
        for kernel in list(self._kernels.values()):
            name = str(kernel.module)
            if name.partition(".")[0] in _OTHERS:
                continue
            packages.add(name.rpartition(".")[0] or name)
            function = kernel.fn
            self._has_own |= isinstance(function, FunctionType) and self._is_users(
                function.__code__.co_filename
            )
        self._packages = tuple(packages)


def _uses_triton(module: Mapping[str, Any]) -> bool:
    return any(getattr(module.get(alias), "__name__", "").startswith("triton") for alias in ("triton", "tl"))

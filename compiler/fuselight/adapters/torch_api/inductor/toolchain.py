"""The tools that Inductor would compile with, and its cache folder.

Invariant: a query compiles nothing and starts no thread. A name that this torch lacks gives None.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import inspect
import os
import re
import sys
import warnings
from typing import Any

import torch

ASSEMBLER = "TRITON_PTXAS_PATH"
"""The variable that names the ptxas of all of them."""

TRITON_OF_TORCH = {
    "2.6": "3.2.0",
    "2.7": "3.3.1",
    "2.8": "3.4.0",
    "2.9": "3.5.1",
    "2.10": "3.6.0",
    "2.11": "3.6.0",
    "2.12": "3.7.0",
    "2.13": "3.7.1",
    "2.14": "3.8.0",
}
"""The release of Triton that torch's CUDA builds of PyPI require, by torch's release."""
_TRITON = re.compile(r"(?:triton|pytorch-triton|pytorch-triton-rocm)\s*(?:==|~=)\s*([\w.+]+)")


def cpp_compiler() -> str | None:
    """The C++ compiler that Inductor would call, as it would be called; None where it finds none or asks otherwise."""
    builder = _module("torch._inductor.cpp_builder")
    get = getattr(builder, "get_cpp_compiler", None)
    if get is None:
        return None
    try:
        return str(get())
    except Exception:  # noqa: BLE001 - torch has an exception of its own for "none found", at another place in each release
        return None


def matching_triton() -> str | None:
    """The release of Triton that belongs to this torch; None for a torch that is not known here.

    CUDA builds name it in their metadata. CPU builds name none, though the same release serves them.
    """
    try:
        required = importlib.metadata.requires("torch") or []
    except importlib.metadata.PackageNotFoundError:
        required = []
    named = next((match[1] for text in required if (match := _TRITON.match(text))), None)
    return named or TRITON_OF_TORCH.get(".".join(str(torch.__version__).split(".")[:2]))


def cache_folder() -> str | None:
    """Where Inductor keeps what it compiles. The folder is made if it is missing, as Inductor does."""
    utils = _module("torch._inductor.runtime.cache_dir_utils")
    get = getattr(utils, "cache_dir", None)
    return str(get()) if get is not None else None


def driver_version() -> str | None:
    """The newest CUDA that the driver serves, as `12.4`; None without a driver or on ROCm.

    Asked of the driver's library itself: not every torch has a name for it. That needs no `cuInit`, so that it
    answers where the driver is too old for torch as well.
    """
    if torch.version.cuda is None:
        return None
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        version = ctypes.c_int(0)
        driver.cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    served = version.value
    return f"{served // 1000}.{served % 1000 // 10}" if served else None


def workers_assembler() -> str | None:
    """The ptxas that Inductor's compile workers choose by themselves; None where they take what the program takes."""
    tasks = _module("torch._inductor.runtime.compile_tasks")
    choose = getattr(tasks, "_set_triton_ptxas_path", None)
    if choose is None or ASSEMBLER in os.environ:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of one that does not start: the workers warn of it
            inspect.unwrap(choose)()  # it may answer once in a process
        return os.environ.get(ASSEMBLER)
    finally:
        os.environ.pop(ASSEMBLER, None)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None

"""Checks that Python, torch and Triton are installed, and in which version.

Invariant: a missing or broken package is a result, not an error; versions are compared as numbers.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

from fuselight.doctor.check import Check, Status
from fuselight.environment import versions
from fuselight.version import OLDEST_TORCH, release, untested_torch

TESTED_PYTHON = ((3, 10), (3, 14))
_COMPILES = "it is what compiles"


def python() -> Check:
    """Check this Python."""
    here = sys.version_info[:2]
    found = f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    meaning = "Fuselight's worker runs in the Python that has your torch"
    if platform.python_implementation() != "CPython":
        return Check(
            "python",
            "Python",
            Status.FAILED,
            found,
            meaning,
            "torch.compile needs CPython: use one that has torch",
        )
    oldest, newest = TESTED_PYTHON
    if oldest <= here <= newest:
        return Check("python", "Python", Status.OK, found, meaning)
    return Check(
        "python",
        "Python",
        Status.WARNING,
        found,
        meaning,
        f"Fuselight is tested with Python {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}: "
        "what it reports here may lack columns",
    )


def torch_itself() -> Check:
    """Check that torch can be imported, is PyTorch, and of a release that Fuselight knows."""
    meaning = _COMPILES
    try:
        import torch  # noqa: PLC0415 - its absence is a result
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return Check(
                "torch",
                "torch",
                Status.FAILED,
                f"not installed in {sys.executable}",
                meaning,
                "pip install torch there, or choose the interpreter that has it",
            )
        return _broken_torch(error)
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return _broken_torch(error)
    return _this_torch(torch)


def _this_torch(torch: Any) -> Check:
    meaning = _COMPILES
    version = str(getattr(torch, "__version__", ""))
    number = release(version)
    if not number:  # a folder of that name, or a file
        where = getattr(torch, "__file__", None) or next(iter(getattr(torch, "__path__", ["?"])))
        return Check(
            "torch", "torch", Status.FAILED, f"`import torch` finds {where}, which is not PyTorch", meaning,
            "Rename that file or folder, or start elsewhere",
        )  # fmt: skip
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "for the CPU"
    built = f"ROCm {torch.version.hip}" if getattr(torch.version, "hip", None) else built
    found = f"{version}, built {'with ' if built[0] != 'f' else ''}{built}"
    if number < OLDEST_TORCH:
        fix = f"Fuselight needs torch {'.'.join(map(str, OLDEST_TORCH))} or newer: pip install -U torch"
        return Check("torch", "torch", Status.FAILED, found, meaning, fix)
    untested = untested_torch(version)
    if untested is not None:
        return Check("torch", "torch", Status.WARNING, found, meaning, untested)
    return Check("torch", "torch", Status.OK, found, meaning)


def _broken_torch(error: BaseException) -> Check:
    return Check(
        "torch",
        "torch",
        Status.FAILED,
        f"cannot be imported: {type(error).__name__}: {error}"[:300],
        _COMPILES,
        "Reinstall it in that environment: pip install --force-reinstall torch",
    )


def triton() -> Check:
    """Check that Triton is installed, in the release that belongs to this torch."""
    from fuselight.torch_api import toolchain  # noqa: PLC0415 - needs torch

    meaning = "it compiles kernels for GPUs, also for a GPU that is absent; kernels for the CPU do without it"
    wanted = toolchain.matching_triton()
    version = versions().triton
    install = f"pip install triton{f'=={wanted}' if wanted else ''}"
    if version is None:
        return Check(
            "triton", "Triton", Status.WARNING, "not installed", meaning,
            "Kernels are generated and shown, without registers, occupancy and assembly. "
            f"For those, run: {install}",
        )  # fmt: skip
    if wanted and release(version) != release(wanted):
        return Check(
            "triton",
            "Triton",
            Status.WARNING,
            f"{version}; this torch was built for {wanted}",
            meaning,
            install,
        )
    return Check("triton", "Triton", Status.OK, version, meaning)

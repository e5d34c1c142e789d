"""Checks that Python, torch and Triton are installed, and in which version.

Invariant: a missing or broken package is a result, not an error; versions are compared as numbers.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

from fuselight.adapters.environment import versions
from fuselight.doctor.check import CheckResult, Status
from fuselight.shared.version import OLDEST_TORCH, release, untested_torch

TESTED_PYTHON = ((3, 10), (3, 13))


def python() -> CheckResult:
    """Check this Python."""
    here = sys.version_info[:2]
    text = f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    if platform.python_implementation() != "CPython":
        return CheckResult(Status.FAILED, text, "torch.compile needs CPython: use one that has torch")
    oldest, newest = TESTED_PYTHON
    if oldest <= here <= newest:
        return CheckResult(Status.OK, text)
    tested = f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    fix = f"Fuselight is tested with Python {tested}: what it reports here may lack columns"
    return CheckResult(Status.WARNING, text, fix)


def torch_itself() -> CheckResult:
    """Check that torch can be imported, is PyTorch, and of a release that Fuselight knows."""
    try:
        import torch  # noqa: PLC0415 - its absence is a result
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return CheckResult(
                Status.FAILED,
                f"not installed in {sys.executable}",
                "pip install torch there, or choose the interpreter that has it",
            )
        return _broken_torch(error)
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return _broken_torch(error)
    return _this_torch(torch)


def _this_torch(torch: Any) -> CheckResult:
    version = str(getattr(torch, "__version__", ""))
    number = release(version)
    if not number:  # a folder of that name, or a file
        where = getattr(torch, "__file__", None) or next(iter(getattr(torch, "__path__", ["?"])))
        return CheckResult(
            Status.FAILED,
            f"`import torch` finds {where}, which is not PyTorch",
            "Rename that file or folder, or start elsewhere",
        )
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "for the CPU"
    built = f"ROCm {torch.version.hip}" if getattr(torch.version, "hip", None) else built
    text = f"{version}, built {'with ' if built[0] != 'f' else ''}{built}"
    if number < OLDEST_TORCH:
        fix = f"Fuselight needs torch {'.'.join(map(str, OLDEST_TORCH))} or newer: pip install -U torch"
        return CheckResult(Status.FAILED, text, fix)
    untested = untested_torch(version)
    if untested is not None:
        return CheckResult(Status.WARNING, text, untested)
    return CheckResult(Status.OK, text)


def _broken_torch(error: BaseException) -> CheckResult:
    return CheckResult(
        Status.FAILED,
        f"cannot be imported: {type(error).__name__}: {error}"[:300],
        "Reinstall it in that environment: pip install --force-reinstall torch",
    )


def triton() -> CheckResult:
    """Check that Triton is installed, in the release that belongs to this torch."""
    from fuselight.adapters.torch_api.inductor import toolchain  # noqa: PLC0415 - needs torch

    wanted = toolchain.matching_triton()
    version = versions().triton
    install = f"pip install triton{f'=={wanted}' if wanted else ''}"
    if version is None:
        return CheckResult(
            Status.WARNING,
            "not installed",
            "Kernels are generated and shown, without registers, occupancy and assembly. "
            f"For those, run: {install}",
        )
    if wanted and release(version) != release(wanted):
        return CheckResult(Status.WARNING, f"{version}; this torch was built for {wanted}", install)
    return CheckResult(Status.OK, version)

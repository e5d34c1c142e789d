"""Checks of the tools that compile kernels, of the folder that holds the results, and of the GPUs and their driver.

Inductor's compile workers and the program should assemble kernels with the same ptxas, because the keys of Triton's
cache contain its version. If the versions differ, the program cannot use what the workers compiled: nothing fails, but
max-autotune compiles its candidates a second time, one after the other.

Invariant: nothing is compiled here. CUDA is initialized in this process only, and the process ends after the checks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator

from fuselight.doctor.check import Check, CheckResult, Status
from fuselight.shared.devices.drivers import SMALLEST_CAPABILITY, limited, serves, update_driver

_SPACE = 2**30
"""Free bytes below which the check warns: a day of compiling may fill them."""
_SECONDS = 20.0
"""Seconds that a compiler or an assembler gets to print its version."""
_RELEASE = re.compile(r"release (\d+\.\d+)")
_NEWER = (10, 0)
"""Capabilities for which Triton has another assembler, which the workers do not change."""
MEANING = (
    "kernels that max-autotune tries are compiled by Inductor's workers, side by side; the program finds them only if "
    "it assembles with the same ptxas"
)


def cpp_compiler() -> CheckResult:
    """Check that the C++ compiler that Inductor would call starts."""
    from fuselight.adapters.torch_api.inductor import toolchain  # noqa: PLC0415 - needs torch

    compiler = toolchain.cpp_compiler()
    path = shutil.which(compiler) if compiler else None
    if path is None:
        # torch passes over a compiler that the user names but that does not start.
        asked = f" (CXX={os.environ['CXX']})" if os.environ.get("CXX") else ""
        return CheckResult(
            Status.FAILED,
            f"{compiler} is not there" if compiler else f"none that starts was found{asked}",
            "Install g++ or clang++ (Debian: apt install g++; macOS: xcode-select --install), or name one in CXX",
        )
    reported = subprocess.run(  # noqa: S603 - the compiler that torch would start, too
        [path, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    first = (reported.stdout or reported.stderr).strip().partition("\n")[0]
    if reported.returncode != 0:
        fix = "Reinstall it, or name another in CXX"
        return CheckResult(Status.FAILED, f"{path} does not start: {first}", fix)
    return CheckResult(Status.OK, f"{path}: {first}")


def headers() -> CheckResult:
    """Check that C can be compiled against this Python."""
    folder = sysconfig.get_path("include")
    if os.path.exists(os.path.join(folder, "Python.h")):
        return CheckResult(Status.OK, folder)
    version = ".".join(map(str, sys.version_info[:2]))
    fix = f"Install them (Debian: apt install python{version}-dev), or use a Python that has them, as conda's"
    return CheckResult(Status.WARNING, f"no Python.h in {folder}", fix)


def cache() -> CheckResult:
    """Check that Inductor's folder can be written, has room and may hold programs."""
    from fuselight.adapters.torch_api.inductor import toolchain  # noqa: PLC0415 - needs torch

    try:
        folder = toolchain.cache_folder()
    except OSError as error:
        fix = "Name a folder that you may write to in TORCHINDUCTOR_CACHE_DIR"
        return CheckResult(Status.FAILED, f"cannot be made: {error}", fix)
    if folder is None:
        return CheckResult(Status.SKIPPED, "this torch does not tell")
    os.makedirs(folder, exist_ok=True)
    problem = _unusable(folder)
    if problem:
        fix = (
            "Name another folder in TORCHINDUCTOR_CACHE_DIR, on a disk with room that allows programs to run"
        )
        return CheckResult(Status.FAILED, f"{folder}: {problem}", fix)
    free = shutil.disk_usage(folder).free
    status = Status.OK if free >= _SPACE else Status.WARNING
    fix = "" if free >= _SPACE else "Make room, or name another folder in TORCHINDUCTOR_CACHE_DIR"
    return CheckResult(status, f"{folder}, {free / 1e9:.1f} GB free", fix)


def _unusable(folder: str) -> str | None:
    if not os.access(folder, os.W_OK | os.X_OK):
        return "cannot be written"
    flags = getattr(os, "ST_NOEXEC", 0)
    if flags and os.statvfs(folder).f_flag & flags:
        return "is on a disk mounted noexec: what is compiled there cannot be loaded"
    return None


def driver() -> CheckResult:
    """Check that the driver supports the CUDA version that torch was built with."""
    import torch  # noqa: PLC0415 - checked before

    from fuselight.adapters.torch_api.inductor import toolchain  # noqa: PLC0415 - needs torch

    if getattr(torch.version, "hip", None):
        return CheckResult(Status.SKIPPED, "torch was built for ROCm")
    if torch.version.cuda is None:
        return CheckResult(
            Status.SKIPPED, "torch was built for the CPU; GPU kernels are still generated, none is measured"
        )
    served = toolchain.driver_version()
    if served is None:
        status = Status.WARNING if shutil.which("nvidia-smi") else Status.SKIPPED
        fix = "nvidia-smi is there: if it lists a GPU, reinstall the driver; in a container, start it with the GPU"
        return CheckResult(status, "none answers", fix if status is Status.WARNING else "")
    built = str(torch.version.cuda)
    text = f"serves CUDA {served}; torch was built with {built}"
    if not serves(served, built):
        return CheckResult(Status.FAILED, text, update_driver(served, built))
    return CheckResult(Status.OK, text)


def devices() -> Iterator[Check]:
    """Check each GPU that torch sees, or report that it sees none."""
    import torch  # noqa: PLC0415 - checked before

    meaning = "what is measured is measured on it"
    visible = limited(os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not torch.cuda.is_available():
        yield Check("device", "GPU", Status.SKIPPED, f"torch sees none{visible}", meaning)
        return
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        capability = (properties.major, properties.minor)
        memory = f"{properties.total_memory / 2**30:.0f} GiB"
        text = f"{properties.name}, {memory}, capability {capability[0]}.{capability[1]}"
        old = not getattr(torch.version, "hip", None) and capability < SMALLEST_CAPABILITY
        fix = (
            "Triton compiles for capability 7.0 and newer: on this GPU torch.compile gives no kernels"
            if old
            else ""
        )
        status = Status.FAILED if old else Status.OK
        yield Check(f"device_{index}", f"GPU {index}", status, text + visible, meaning, fix)


def one_assembler() -> CheckResult:
    """Check that both would call an assembler of the same version, on a GPU that is there."""
    import torch  # noqa: PLC0415 - checked before

    from fuselight.adapters import triton_api  # noqa: PLC0415 - need torch
    from fuselight.adapters.torch_api.inductor import toolchain  # noqa: PLC0415 - need torch

    if torch.version.cuda is None or not torch.cuda.is_available():
        return CheckResult(Status.SKIPPED, "there is no NVIDIA GPU to assemble for")
    if torch.cuda.get_device_capability() >= _NEWER:
        return CheckResult(Status.SKIPPED, "Triton has one of its own for this GPU")
    program, workers = triton_api.ptxas(), toolchain.workers_assembler()
    if program is None:
        return CheckResult(Status.SKIPPED, "this Triton names none")
    version = _version(program)
    if workers is None or version == _version(workers):
        return CheckResult(Status.OK, f"one for all: {program}{_release(version)}")
    text = (
        f"the workers take {workers}{_release(_version(workers))}, the program {program}{_release(version)}: "
        "max-autotune compiles each kernel that it tries twice, the second time one after the other"
    )
    fix = f"Set TRITON_PTXAS_PATH={workers}, where your editor or terminal is started"
    return CheckResult(Status.WARNING, text, fix)


def _version(path: str) -> str:
    """The full version text of an assembler, as it appears in Triton's cache keys."""
    reported = subprocess.run(  # noqa: S603 - the assembler that torch would start, too
        [path, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=True
    )
    return reported.stdout


def _release(message: str) -> str:
    match = _RELEASE.search(message)
    return f" (CUDA {match[1]})" if match is not None else ""

"""Checks that Inductor's compile workers and the program assemble GPU kernels with the same ptxas.

The keys of Triton's cache contain the version of ptxas. If the versions differ, the program cannot use what the
workers compiled. Nothing fails, but max-autotune compiles its candidates a second time, one after the other.

Invariant: nothing is compiled here.
"""

from __future__ import annotations

import re
import subprocess

from fuselight.doctor.check import CheckResult, Status

_SECONDS = 20.0
"""Seconds that an assembler gets to print its version."""
_RELEASE = re.compile(r"release (\d+\.\d+)")
_NEWER = (10, 0)
"""Capabilities for which Triton has another assembler, which the workers do not change."""
MEANING = (
    "kernels that max-autotune tries are compiled by Inductor's workers, side by side; the program finds them only if "
    "it assembles with the same ptxas"
)


def one_assembler() -> CheckResult:
    """Check that both would call an assembler of the same version, on a GPU that is there."""
    import torch  # noqa: PLC0415 - checked before

    from fuselight import triton_api  # noqa: PLC0415 - need torch
    from fuselight.torch_api import toolchain  # noqa: PLC0415 - need torch

    if torch.version.cuda is None or not torch.cuda.is_available():
        return CheckResult(Status.SKIPPED, "there is no NVIDIA GPU to assemble for")
    if torch.cuda.get_device_capability() >= _NEWER:
        return CheckResult(Status.SKIPPED, "Triton has one of its own for this GPU")
    program, workers = triton_api.ptxas(), toolchain.workers_assembler()
    if program is None:
        return CheckResult(Status.SKIPPED, "this Triton names none")
    said = _version(program)
    if workers is None or said == _version(workers):
        return CheckResult(Status.OK, f"one for all: {program}{_release(said)}")
    found = (
        f"the workers take {workers}{_release(_version(workers))}, the program {program}{_release(said)}: "
        "max-autotune compiles each kernel that it tries twice, the second time one after the other"
    )
    fix = f"Set TRITON_PTXAS_PATH={workers}, where your editor or terminal is started"
    return CheckResult(Status.WARNING, found, fix)


def _version(path: str) -> str:
    """The full version text of an assembler, as it appears in Triton's cache keys."""
    reported = subprocess.run(  # noqa: S603 - the assembler that torch would start, too
        [path, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=True
    )
    return reported.stdout


def _release(said: str) -> str:
    found = _RELEASE.search(said)
    return f" (CUDA {found[1]})" if found is not None else ""

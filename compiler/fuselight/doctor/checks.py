"""All quick checks, in the order in which the doctor reports them, and the checks of the process itself.

Invariant: a check reports what it observed and draws no conclusion about anything else.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator

from fuselight.doctor import compiling, tools, versions
from fuselight.doctor.check import Check, CheckResult, Status
from fuselight.shared.worker_launch import worker_command

_OFF = {
    "TORCHDYNAMO_DISABLE": "torch.compile does nothing at all",
    "TORCH_COMPILE_DISABLE": "torch.compile does nothing at all",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "every start compiles everything again",
    "TORCHDYNAMO_SUPPRESS_ERRORS": "what fails to compile runs in eager mode without a message",
    "TORCHINDUCTOR_COMPILE_THREADS": "kernels are compiled with so many processes, whatever the machine has",
    "CUDA_LAUNCH_BLOCKING": "each launch waits for its end: measured times mean little",
    "PYTORCH_JIT": "TorchScript, which some libraries use, is off",
    "TRITON_INTERPRET": "Triton kernels are interpreted in Python, not compiled",
}
"""Variables that change what torch.compile does, with what they do."""
_NOTHING = {"", "0", "false", "no", "off"}


def quick() -> Iterator[Check]:
    """Yield the checks that compile nothing. Imports torch."""
    meaning = "Fuselight's worker runs in the Python that has your torch"
    yield _done("python", "Python", meaning, versions.python)
    torch = _done("torch", "torch", "it is what compiles", versions.torch_itself)
    yield torch
    if torch.status is Status.FAILED:
        return
    for check in _BEFORE_GPUS:
        yield _done(*check)
    yield from tools.devices()
    for check in _AFTER_GPUS:
        yield _done(*check)


def compiles(seconds: float) -> Iterator[Check]:
    """Compile for real on each device, within `seconds` on each."""
    command = worker_command(sys.executable, job=["doctor"])
    meaning = "a small model is compiled, forward and backward, and compared to eager"
    for device in compiling.devices():
        compile_on_it = functools.partial(compiling.compile_on, device, command, seconds)
        yield _done(f"compile_{device}", f"A compile on {device}", meaning, compile_on_it)


def _done(key: str, title: str, meaning: str, check: Callable[[], CheckResult]) -> Check:
    """Do one check; what it raises is its result."""
    try:
        check_result = check()
    except Exception as error:  # noqa: BLE001 - an environment may be broken in any way, and the other checks still run
        words = f"could not be checked: {type(error).__name__}: {error}"[:300]
        meaning = "this check could not come to an end"
        fix = "If torch works for you otherwise, report this check to Fuselight"
        check_result = CheckResult(Status.FAILED, words, fix)
    return Check(key, title, check_result.status, check_result.found, meaning, check_result.fix)


def _variables() -> CheckResult:
    reported = [
        f"{name}={os.environ[name]}: {effect}"
        for name, effect in _OFF.items()
        if os.environ.get(name, "").strip().lower() not in _NOTHING
        or (name == "PYTORCH_JIT" and name in os.environ)
    ]
    if reported:
        fix = "Unset those that you do not want, where your editor or terminal is started"
        return CheckResult(Status.WARNING, "; ".join(reported), fix)
    return CheckResult(Status.OK, "none that changes what torch.compile does")


def _fork() -> CheckResult:
    if hasattr(os, "fork") and sys.platform.startswith("linux"):
        return CheckResult(Status.OK, "forks")
    return CheckResult(Status.OK, "starts a process ahead of each run, as there is no safe fork here")


_BEFORE_GPUS = (
    (
        "triton",
        "Triton",
        "it compiles kernels for GPUs, also for a GPU that is absent; kernels for the CPU do without it",
        versions.triton,
    ),
    (
        "cpp_compiler",
        "C++ compiler",
        "Inductor compiles kernels for the CPU with it, and Triton its launchers",
        tools.cpp_compiler,
    ),
    (
        "python_headers",
        "Python's headers",
        "Triton's launchers and Inductor's C++ kernels are compiled against them",
        tools.headers,
    ),
    ("cache", "Cache folder", "Inductor keeps there what it has compiled", tools.cache),
    (
        "driver",
        "GPU driver",
        "kernels run through it, and it must be as new as the CUDA that torch was built with",
        tools.driver,
    ),
)
"""Key, title, what needs it, and the check."""
_AFTER_GPUS = (
    ("assembler", "Assembler", tools.MEANING, tools.one_assembler),
    ("variables", "Variables", "torch reads them, and some change what a compile does", _variables),
    (
        "fork",
        "Worker",
        "on Linux a run is a fork of a process that has torch loaded, which makes it quick",
        _fork,
    ),
)

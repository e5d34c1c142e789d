"""All quick checks, in the order in which the doctor reports them, and the checks of the process itself.

Invariant: a check reports what it observed and draws no conclusion about anything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

from fuselight.doctor import assembler, tools, versions
from fuselight.doctor.check import Check, Status

_OFF = {
    "TORCHDYNAMO_DISABLE": "torch.compile does nothing at all",
    "TORCH_COMPILE_DISABLE": "torch.compile does nothing at all",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "every start compiles everything again",
    "TORCHDYNAMO_SUPPRESS_ERRORS": "what fails to compile runs in eager without a word",
    "TORCHINDUCTOR_COMPILE_THREADS": "kernels are compiled with so many processes, whatever the machine has",
    "CUDA_LAUNCH_BLOCKING": "each launch waits for its end: measured times mean little",
    "PYTORCH_JIT": "TorchScript, which some libraries use, is off",
    "TRITON_INTERPRET": "Triton kernels are interpreted in Python, not compiled",
}
"""Variables that change what torch.compile does, with what they do."""
_NOTHING = {"", "0", "false", "no", "off"}


def quick() -> Iterator[Check]:
    """Yield the checks that compile nothing. Imports torch."""
    yield versions.python()
    torch = versions.torch_itself()
    yield torch
    if torch.status is Status.FAILED:
        return
    yield _guarded("triton", "Triton", versions.triton)
    yield _guarded("cpp_compiler", "C++ compiler", tools.cpp_compiler)
    yield _guarded("python_headers", "Python's headers", tools.headers)
    yield _guarded("cache", "Cache folder", tools.cache)
    yield _guarded("driver", "GPU driver", tools.driver)
    yield from tools.devices()
    yield _guarded("assembler", "Assembler", assembler.one_assembler)
    yield _guarded("variables", "Variables", _variables)
    yield _guarded("fork", "Worker", _fork)


def _guarded(key: str, title: str, check: Callable[[], Check]) -> Check:
    """Do one check; what it raises is its result."""
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - an environment may be broken in any way, and the other checks still run
        return Check(
            key,
            title,
            Status.FAILED,
            f"could not be checked: {type(error).__name__}: {error}"[:300],
            "this check could not come to an end",
            "If torch works for you otherwise, report this check to Fuselight",
        )


def _variables() -> Check:
    meaning = "torch reads them, and some change what a compile does"
    reported = [
        f"{name}={os.environ[name]}: {effect}"
        for name, effect in _OFF.items()
        if os.environ.get(name, "").strip().lower() not in _NOTHING
        or (name == "PYTORCH_JIT" and name in os.environ)
    ]
    if reported:
        fix = "Unset those that you do not want, where your editor or terminal is started"
        return Check("variables", "Variables", Status.WARNING, "; ".join(reported), meaning, fix)
    return Check("variables", "Variables", Status.OK, "none that changes what torch.compile does", meaning)


def _fork() -> Check:
    meaning = "on Linux a run is a fork of a process that has torch loaded, which makes it quick"
    if hasattr(os, "fork") and sys.platform.startswith("linux"):
        return Check("fork", "Worker", Status.OK, "forks", meaning)
    return Check(
        "fork",
        "Worker",
        Status.OK,
        "starts a process ahead of each run, as there is no safe fork here",
        meaning,
    )

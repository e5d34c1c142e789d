"""Imports torch and loads what a first trace needs, so that every run starts with that done.

Invariant: after `warm_up` the fork rules hold, and no user code has run. Only this module imports torch for the host:
if torch is missing or too old, it reports a Failure before anything else is tried.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from dataclasses import dataclass

from fuselight.adapters.environment import versions
from fuselight.shared.report import Culprit, Failure, Versions
from fuselight.shared.version import OLDEST_TORCH, release
from fuselight.shared.worker_launch import missing_torch
from fuselight.worker.processes import fork_rules


class Unusable(Exception):  # noqa: N818 - an answer: this interpreter cannot run anything
    """No run can work in this interpreter; `failure` says why and what to do."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True)
class Warm:
    """A process that is ready to run targets, or to fork others that are."""

    versions: Versions
    baseline: int
    """Threads of this process (fork_rules.baseline)."""
    threads: int
    """Threads that torch uses by itself; a host runs with one."""
    violations: tuple[str, ...] = ()


def warm_up(*, forks: bool) -> Warm:
    """Import torch, the recorder and what a trace needs. Raises Unusable."""
    gc.disable()  # what is imported lives for good: to look for garbage in it is a tenth of the start
    try:
        return _warm_up(forks=forks)
    finally:
        gc.enable()


def _warm_up(*, forks: bool) -> Warm:
    if forks:
        os.environ.update(fork_rules.HOST_VARIABLES)
        for name in fork_rules.HOST_UNSET:
            os.environ.pop(name, None)
    version = _import_torch()
    if release(version) < OLDEST_TORCH:
        raise Unusable(
            Failure(
                Culprit.ENVIRONMENT,
                "old_torch",
                f"torch {version} is too old: Fuselight needs {'.'.join(map(str, OLDEST_TORCH))} or newer",
                f"upgrade torch in {sys.executable}, or choose another interpreter",
            )
        )
    torch = sys.modules["torch"]
    threads: int = torch.get_num_threads()
    if forks:
        torch.set_num_threads(1)  # before anything parallel: a pool of threads does not survive a fork
    baseline = fork_rules.baseline() if forks else 0
    try:
        if forks:
            from fuselight.adapters.torch_api import devices  # noqa: PLC0415 - loads torch

            devices.leave_driver_alone()
        from fuselight.worker.host import jobs  # noqa: PLC0415 - the same

        jobs.warm_up()
    except Exception as error:
        raise Unusable(_broken(error)) from error
    if forks:
        # The collector of a child would write to every page that it shares with us. What is garbage by now stays: it is
        # little, and to find it costs a quarter of a second.
        gc.freeze()
    violations = fork_rules.violations(baseline) if forks else ()
    return Warm(versions(), baseline, threads, violations)


def _import_torch() -> str:
    try:
        torch = importlib.import_module("torch")
        return str(torch.__version__)
    except Exception as error:
        raise Unusable(_broken(error)) from error


def _broken(error: Exception) -> Failure:
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return missing_torch(sys.executable)
    first = (str(error).splitlines() or [""])[0]
    return Failure(
        Culprit.ENVIRONMENT,
        "no_torch",
        f"torch cannot be imported by {sys.executable}: {type(error).__name__}: {first}"[:500],
        "repair this environment (the log has the traceback), or choose another interpreter",
        exception=type(error).__name__,
        traceback=traceback.format_exc(),
    )

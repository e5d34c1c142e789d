"""What a run does with launches of Triton kernels: computed and checked without a GPU, recorded on one, or refused.

Invariant: what a launch shows is in `RunState.kernel_launches`; kernels are compiled once the run has ended.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch

from fuselight.adapters.torch_api.absent_gpu import device_guards
from fuselight.adapters.torch_api.cuda_operators import cuda_operators_on_cpu
from fuselight.adapters.torch_api.device_questions import answered_questions
from fuselight.adapters.triton_api.launches.specializations import LaunchRecord
from fuselight.adapters.triton_api.launches.stand_in import recording_on_gpu, refusing_launches, standing_in
from fuselight.capture.calls.kernel_devices import libraries_of_kernels_on_cpu
from fuselight.capture.dynamo import stacks
from fuselight.shared.devices import FALLBACK, find
from fuselight.shared.protocol import AssembleRequest, GenerateRequest
from fuselight.shared.report import Device, Problem
from fuselight.worker.child.own_kernels import device_of, plan_of
from fuselight.worker.child.state import RunState

_COMPILERS = tuple(
    os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), name, "") for name in ("torch", "triton")
)
"""Folders of packages that launch kernels of their own making."""


@contextlib.contextmanager
def without_gpu(state: RunState) -> Iterator[None]:
    """Have the code of a run select devices and launch Triton kernels as on a machine with a GPU."""
    request = state.job.request
    if isinstance(request, AssembleRequest):  # no user code runs
        yield
        return
    plan = plan_of(state.job.request)
    asked = request if isinstance(request, GenerateRequest) else plan
    device = asked.device if asked is not None else None
    state.kernel_launches.log.record = _record(state)
    is_users = state.sources.is_users
    with (
        device_guards(),
        answered_questions(_gpu(device), lambda names: is_users(str(names.get("__file__", "")))),
        cuda_operators_on_cpu(),
        libraries_of_kernels_on_cpu(),
        standing_in(_gpu(device), state.kernel_launches.log, is_users),
    ):
        yield


@contextlib.contextmanager
def with_gpu(state: RunState) -> Iterator[None]:
    """Note the launches of a run whose kernels run on this machine's GPU."""
    plan, record = plan_of(state.job.request), _record(state)
    if plan is None or record is None:
        yield
        return
    state.kernel_launches.log.record = record
    record.keeps_arguments = True
    with recording_on_gpu(device_of(plan), record, state.kernel_launches.note_tuning):
        yield


def _record(state: RunState) -> LaunchRecord | None:
    """Gets the launches, where their kernels are compiled after the run."""
    if plan_of(state.job.request) is None:
        return None
    return LaunchRecord(is_wanted=_is_installed_or_users, stack_of=stacks.running_lines)


def _is_installed_or_users(path: str) -> bool:
    """Whether a file is of the user or of a package that the user chose: not of torch or Triton."""
    return not path.startswith(_COMPILERS)


def compile_own_kernels(state: RunState) -> None:
    """Compile what the run has launched, once it has ended; a fault of ours costs what is missing, not the report."""
    plan, record = plan_of(state.job.request), state.kernel_launches.log.record
    if plan is None or record is None or not record.specializations:
        return
    own = state.kernel_launches.own
    try:
        with state.step("assemble", "Triton kernels"):
            own.compile(
                record,
                plan,
                directory=state.job.directory,
                roots=state.job.request.roots,
                progress=state.progress,
            )
    except Exception as error:  # noqa: BLE001 - private parts of Triton
        own.problems.append(
            Problem(
                "own_kernels",
                "what the program's Triton kernels compile to",
                f"{type(error).__name__}: {error}"[:300],
            )
        )


def measured_without_gpu() -> AbstractContextManager[None]:
    """Have a launch fail in a run that is timed: on the CPU it takes a thousand times as long."""

    def refusal(name: str) -> Exception:
        from fuselight.measure.machine.conditions import DeviceError  # noqa: PLC0415 - a capture measures nothing

        return DeviceError(
            f"the program launches the Triton kernel `{name}`, and this machine has no GPU to measure it on",
            "Measure it on a machine with a GPU.",
        )

    return refusing_launches(refusal)


def _gpu(asked: Device | None) -> Device:
    """The device that answers: the one that was asked for, unless that is a CPU."""
    return asked if asked is not None and asked.backend != "cpu" else find(FALLBACK)

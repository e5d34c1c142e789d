"""Checks the user's Triton kernels beyond what a capture computes, on a machine without a GPU.

A captured graph that launches a kernel runs no launch on fake tensors. The call is therefore made once more in eager
mode, where each launch is seen with its arguments. Invariant: only calls that can be made again are, and whatever the
further call raises changes nothing: the capture has reported what is wrong with the call itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from fuselight.adapters.torch_api.uninitialized import UninitializedMemory
from fuselight.adapters.triton_api.launches.record import LaunchSummary
from fuselight.adapters.triton_api.launches.stand_in import has_kernels
from fuselight.capture.calls.calls import PlannedCall
from fuselight.capture.calls.rungs import DirectiveFault, Ladder
from fuselight.shared.codec import decode, encode
from fuselight.shared.protocol import DirectiveLine, InputsPlan
from fuselight.shared.report import Location, Note, Rung, is_user_file
from fuselight.worker.child import run_failures
from fuselight.worker.child.forked_answer import forked_answer
from fuselight.worker.child.kernel_calls import eager_call, mismatches_of
from fuselight.worker.child.kernel_launches import VariedResult
from fuselight.worker.child.reference_comparison import NoReferenceError
from fuselight.worker.child.state import RunState
from fuselight.worker.child.varied_launches import HARD_SECONDS, VariedLaunches

MAX_REAL_BYTES = 1 << 30
"""Tensors of a directive that take more get no memory where the program has Triton kernels: they are fake."""
MAX_SECONDS = 5.0
"""Of the launches of a run: after more, none is made once more."""
MAX_VARIED_SECONDS = 0.5
"""Of the launches of a call whose values are computed with other sizes, too; of longer ones, addresses are checked."""
_perf_counter = time.perf_counter  # bound before any user code runs


def reason_for_fake(planned: PlannedCall) -> str | None:
    """Why a call is made on fake tensors though its directive does not ask for it; None for real ones."""
    if planned.tensor_bytes <= MAX_REAL_BYTES or torch.cuda.is_available() or not has_kernels():
        return None
    size = planned.tensor_bytes / 1e9
    return f"the tensors of the directive take {size:.1f} GB, and launches of Triton kernels are checked by address"


def check_launches(state: RunState, planned: PlannedCall, names: Mapping[str, Any], *, is_fake: bool) -> None:
    """Make a call that has launched kernels once more in eager mode: there each launch is seen with its arguments.

    On fake tensors its addresses are checked; on real ones what it leaves unwritten, and its results where the
    directive names a reference. `names` are those of the user's file.
    """
    launches = state.kernel_launches
    if state.rung is not Rung.DIRECTIVE or torch.cuda.is_available() or not has_kernels():
        return
    if not is_fake and not 0 < launches.log.seconds < MAX_SECONDS:
        return
    start = _perf_counter()
    memory = None if is_fake else UninitializedMemory(launches.note_unwritten)
    launches.log.uninitialized = memory
    record = launches.log.record
    if not is_fake:
        launches.log.record = None  # it has these launches already
    summaries: list[LaunchSummary] = []
    launches.log.summaries = summaries
    computed = launches.log.seconds
    try:
        prepared, outputs = eager_call(planned, memory, launches.note_unchecked)
        if memory is not None and prepared.options.reference is not None:
            _compare(state, planned, names, outputs, memory.last_launch)
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        text = f"the launches of Triton kernels were checked up to an exception in eager mode: {error}"
        state.notes.append(Note("kernel_check_ended", text[:500], planned.location))
    finally:
        launches.log.uninitialized, launches.log.record, launches.log.summaries = None, record, None
        state.phases["kernel check"] = state.phases.get("kernel check", 0.0) + _perf_counter() - start
    computed = launches.log.seconds - computed
    start = _perf_counter()
    _vary(state, planned, names, _Checked(summaries, is_fake=is_fake, is_slow=computed > MAX_VARIED_SECONDS))
    state.phases["varied sizes"] = state.phases.get("varied sizes", 0.0) + _perf_counter() - start


class _Checked(NamedTuple):
    """The further call of a directive that was made."""

    launched: list[LaunchSummary]
    is_fake: bool
    is_slow: bool


def _vary(state: RunState, planned: PlannedCall, names: Mapping[str, Any], checked: _Checked) -> None:
    """Make calls with other sizes and strides in a fork, and take what they show."""
    launches, target = state.kernel_launches, state.job.request.target
    known = launches.faults[launches.shrunk :]
    own = [launch for launch in checked.launched if is_user_file(launch.path, launches.roots)]
    discovers = bool(own) and not launches.varied
    if not hasattr(os, "fork") or not (known or discovers):
        return
    device = "cpu" if state.sources.redirect else None

    def planned_of(text: str) -> PlannedCall:
        line = planned.location.line if planned.location is not None else target.line
        plan = InputsPlan((DirectiveLine(line, 0, text),))
        answered, _ = Ladder(target, plan, names, device).climb()
        if answered is None:
            raise ValueError(text)
        return answered.calls[0]

    is_fake = checked.is_fake or checked.is_slow

    def work() -> Any:
        torch.set_num_threads(1)  # the threads of a pool are not in a fork
        launches.log.record = None
        varied = VariedLaunches(
            launches, planned_of, names, is_fake=is_fake, enters_fake=is_fake and not checked.is_fake
        )
        return encode(varied.vary(planned.text, known, checked.launched, discovers=discovers))

    answer = forked_answer(work, HARD_SECONDS)
    launches.shrunk = len(launches.faults)
    if answer is not None:
        launches.accept_varied(known, decode(VariedResult, answer), planned.location)


def _compare(
    state: RunState, planned: PlannedCall, names: Mapping[str, Any], outputs: Any, last_launch: Any
) -> None:
    """Compare the results of a call with the reference that its directive names."""
    unknown = state.kernel_launches.unknown
    if unknown:
        text = f"results are not compared with the reference: {unknown}"
        state.notes.append(Note("reference_not_compared", text, planned.location))
        return
    try:
        state.kernel_launches.mismatches.extend(mismatches_of(planned, names, outputs, last_launch))
    except NoReferenceError as why:
        target = state.job.request.target
        fault = DirectiveFault(str(why), planned.location or Location(target.path, target.line))
        failure = run_failures.directive_failure(
            fault, call=state.call_index, next_step=run_failures.CORRECT_REFERENCE
        )
        state.failures.append(failure)

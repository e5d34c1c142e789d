"""Checks the user's Triton kernels beyond what a capture computes, on a machine without a GPU.

A captured graph that launches a kernel runs no launch on fake tensors. The call is therefore made once more in eager
mode, where each launch is seen with its arguments. Invariant: only calls that can be made again are, and whatever the
further call raises changes nothing: the capture has reported what is wrong with the call itself.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import torch

from fuselight.adapters.torch_api.uninitialized import UninitializedMemory
from fuselight.adapters.triton_api.launches.stand_in import has_kernels
from fuselight.capture.calls.calls import PlannedCall, call_mode, call_outputs
from fuselight.capture.calls.random_fill import quick_random
from fuselight.capture.calls.tensors import set_seeds, tensors_in
from fuselight.shared.report import Note, Rung

if TYPE_CHECKING:
    from fuselight.worker.child.state import RunState

MAX_REAL_BYTES = 1 << 30
"""Tensors of a directive that take more get no memory where the program has Triton kernels: they are fake."""
MAX_SECONDS = 5.0
"""Of the launches of a run: after more, none is made once more."""
_perf_counter = time.perf_counter  # bound before any user code runs


def reason_for_fake(planned: PlannedCall) -> str | None:
    """Why a call is made on fake tensors though its directive does not ask for it; None for real ones."""
    if planned.tensor_bytes <= MAX_REAL_BYTES or torch.cuda.is_available() or not has_kernels():
        return None
    size = planned.tensor_bytes / 1e9
    return f"the tensors of the directive take {size:.1f} GB, and launches of Triton kernels are checked by address"


def check_launches(state: RunState, planned: PlannedCall, *, is_fake: bool) -> None:
    """Make a call that has launched kernels once more in eager mode: there each launch is seen with its arguments.

    On fake tensors its addresses are checked, on real ones what it leaves unwritten.
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
    try:
        eager_call(planned, memory)
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        text = f"the launches of Triton kernels were checked up to an exception in eager mode: {error}"
        state.notes.append(Note("kernel_check_ended", text[:500], planned.location))
    finally:
        launches.log.uninitialized, launches.log.record = None, record
        state.phases["kernel check"] = state.phases.get("kernel check", 0.0) + _perf_counter() - start


def eager_call(planned: PlannedCall, memory: UninitializedMemory | None) -> None:
    """Make a call in eager mode. `memory` follows what is allocated without values. Raises what the call raises."""
    set_seeds()
    with quick_random():
        prepared = planned.build()
    with call_mode(prepared), torch.compiler.set_stance("force_eager"), memory or contextlib.nullcontext():
        outputs, _ = call_outputs(prepared, prepared.function)
    if memory is not None:
        for tensor in tensors_in(outputs):
            memory.note_use(tensor)

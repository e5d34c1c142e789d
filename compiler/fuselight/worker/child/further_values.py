"""Makes the likely changes of a forecast, in a fork each, and counts what each value compiles.

Invariant: the run goes on as if nothing had been made: a fork has its own objects, prints nowhere, and ends after its
calls. Where no fork can run the target, as after CUDA has begun, nothing is tried, and nothing is said of it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from fuselight.adapters.torch_api import devices
from fuselight.capture.calls.calls import Prepared, call_mode, call_outputs
from fuselight.capture.calls.changed_calls import ChangeError, changed_call
from fuselight.shared.protocol import CaptureRequest
from fuselight.shared.report import CallChange, ChangeKind, Forecast, FrameForecast, Outcome, TriedValue
from fuselight.worker.child.forked_answer import forked_answer
from fuselight.worker.child.state import RunState

_VALUES = 4
"""Values of one change that are tried: the first compiles what it recompiles, the next may need no compile."""
_MAX_CHANGES = 12
_SECONDS = 20.0
"""For one change."""
_ALL_SECONDS = 60.0


def prepare_to_try(state: RunState) -> None:
    """Before the run: a fork has no other threads. torch's guards check how many there are, and so does backward."""
    request = state.job.request
    if isinstance(request, CaptureRequest) and request.tries_forecasts:
        torch.set_num_threads(1)
        devices.start_no_autograd_thread()


def with_tried_values(
    state: RunState, prepared: Prepared, function: Callable[..., Any], names: Mapping[str, Any]
) -> tuple[FrameForecast, ...]:
    """The forecasts, with what calls with changed values compiled, if the request asks for that."""
    request = state.job.request
    if not isinstance(request, CaptureRequest) or not request.tries_forecasts:
        return state.forecasts
    is_cuda_used: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if not hasattr(os, "fork") or is_cuda_used or not state.forecasts:
        return state.forecasts
    first, *others = state.forecasts
    if first.resumes_at is not None:
        return state.forecasts
    again = {_key(change) for frame in state.forecasts for change in frame.changes if change.recompiles}
    wanted = sorted(
        (change for change in first.changes if _key(change) in again and further_values(change)),
        key=lambda change: (not change.is_likely, len(further_values(change)) == 1),
    )
    tried: dict[int, tuple[TriedValue, ...]] = {}
    ends = time.monotonic() + _ALL_SECONDS
    for change in wanted[:_MAX_CHANGES]:
        left = min(_SECONDS, ends - time.monotonic())
        if left > 0:
            work = functools.partial(_try, state, prepared, function, names, change)
            entries = forked_answer(work, left) or ()
            tried[id(change)] = tuple(TriedValue(**entry) for entry in entries)
    changes = tuple(replace(change, tried=tried.get(id(change), ())) for change in first.changes)
    return (replace(first, changes=changes), *others)


def _key(change: Forecast) -> tuple[object, ...]:
    return change.kind, change.subject, change.was, change.now


def further_values(change: Forecast) -> tuple[str, ...]:
    """The values to try, that of the forecast first; empty where a change has no further ones."""
    was, now = change.was, change.now
    values: Sequence[object] = ()
    if change.kind is ChangeKind.SIZE:
        sizes = [int(now), *range(int(was) + 1, int(was) + _VALUES), *range(int(was) - 1, 1, -1)]
        values = list(dict.fromkeys(sizes))
    elif change.kind is ChangeKind.LENGTH:
        values = [int(was) + 1 + step for step in range(_VALUES)]
    elif change.kind in {ChangeKind.NUMBER, ChangeKind.ATTRIBUTE, ChangeKind.VALUE}:
        values = list(_values(was, now))
    elif change.kind in {ChangeKind.SIZE_ONE, ChangeKind.DTYPE}:
        values = [now]  # whether the call raises with it
    return tuple(map(str, values[:_VALUES]))


def _values(was: str, now: str) -> Iterator[str]:
    if was in {"True", "False"}:
        return
    if was[:1] in "'\"":
        yield from (f"{now[:-1]}{'_' * count}{now[-1]}" for count in range(_VALUES))
        return
    with contextlib.suppress(ValueError, OverflowError):
        if was.lstrip("-").isdecimal():
            step = int(now) - int(was)
            yield from (str(int(was) + step * (count + 1)) for count in range(_VALUES))
        else:
            number, is_share = float(now), 0 < float(was) < 1 and float(now) < 1
            for _ in range(_VALUES):
                yield repr(number)
                # A probability stays one.
                number = round((number + 1) / 2 if is_share else number * 1.5 + 0.25, 4)


def _try(
    state: RunState,
    prepared: Prepared,
    function: Callable[..., Any],
    names: Mapping[str, Any],
    change: Forecast,
) -> list[dict[str, Any]]:
    """In the fork: the calls, one after the other, as a program makes them.

    Nothing is known of them where the unchanged call fails or compiles, as one that can be made once.
    """
    before = _compiles(state)
    with call_mode(prepared):
        call_outputs(prepared, function)
    if _compiles(state) != before:
        return []
    entries: list[dict[str, Any]] = []
    for value in further_values(change):
        before, raised = _compiles(state), ""
        try:
            changed = changed_call(prepared, CallChange(change.kind, change.subject, value), names)
            with call_mode(changed):
                call_outputs(changed, function)
        except ChangeError:
            break
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            raised = type(error).__name__
        entries.append({"value": value, "compiles": _compiles(state) - before, "raised": raised})
    return entries


def _compiles(state: RunState) -> int:
    return sum(record.outcome is Outcome.COMPILED for record in state.recorder.parts().compiles)

"""Builds the answer of a run that has ended, from the files in its folder and its exit status.

Invariant: `answer` always returns exactly one message. The run's own report is inserted without parsing, because it may
be large. Only if a run did not end by itself, its last report is parsed to add the failure.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from typing import Any

from fuselight.shared import wire
from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.protocol import MeasureRequest, Partial, Refused, TuneRequest, to_json
from fuselight.shared.report import Failure, Location, Report, Stack, TargetRef, Versions
from fuselight.worker.child import run_failures
from fuselight.worker.processes import children
from fuselight.worker.processes.children import RunningChild


def answer(running: RunningChild, status: int, versions: Versions) -> bytes:
    """Make the payload that answers the run; `status` is its exit status, below 0 for a signal."""
    if running.ending == "cancelled":
        return wire.dump(to_json(Refused(running.request.id, "cancelled")))
    report = running.read("answer.json")
    if report is not None and running.ending is None:
        return _splice(running, report)
    data = _json(report) or _json(running.read("partial.json")) or _empty(running, versions)
    data["failures"] = [*data.get("failures", []), encode(_failure(running, status))]
    return _splice(running, wire.dump(data))


def retrace_answer(running: RunningChild, data: dict[str, Any]) -> bytes:
    """Make the payload that answers a `Retrace`; `data` is what the live run says of it."""
    number = data["id"]
    report = running.read(f"retrace-{number}.report")
    for name in ("request", "early", "report"):
        with contextlib.suppress(OSError):
            os.unlink(running.path(f"retrace-{number}.{name}"))
    reason = data.get("reason")
    if reason is None and report is not None:
        return wire.dump({"type": "Answer", "id": number})[:-1] + b',"report":' + report + b"}"
    try:
        failure = decode(Failure, data.get("failure"))
    except DecodeError:
        failure = None
    return wire.dump(to_json(Refused(number, str(reason or "failed"), failure)))


def early_retrace(running: RunningChild, number: int) -> bytes | None:
    """Make the payload with what the trace of a `Retrace` has found so far, None if it has written nothing."""
    report = running.read(f"retrace-{number}.early")
    if report is None:
        return None
    return wire.dump({"type": Partial.__name__, "id": number})[:-1] + b',"report":' + report + b"}"


def lost_retrace(running: RunningChild, number: int, status: int) -> Refused:
    """The answer to a `Retrace` whose live run has ended."""
    reason = {"cancelled": "cancelled", "timeout": "timeout"}.get(running.ending or "", "crashed")
    return Refused(number, reason, None if reason == "cancelled" else _failure(running, status))


ENDED = "Ended"
"""Message of a run that cannot write its answer: why."""
EARLY = "Early"
"""Message of a live run: what the trace of a request has found so far is in its file."""
GROWS = frozenset({"kernels", "measured"})
"""Phases of progress that follow a new partial report; the host then sends that report."""


def partial(running: RunningChild) -> bytes | None:
    """Make the payload with everything that the run has recorded so far, None if it has written nothing."""
    report = running.read("partial.json")
    return None if report is None else _splice(running, report, "Partial")


def wants_fake_tensors(running: RunningChild, status: int) -> bool:
    """Whether the run needed more memory than available to build the target, so that it is repeated on fake tensors."""
    if running.fake is not None or run_failures.needs_values(running.request):
        return False
    if status == run_failures.OUT_OF_MEMORY:
        return True
    return running.ending == "memory" and _phase(running, _stopped(running)) == "build"


def _splice(running: RunningChild, report: bytes, kind: str = "Answer") -> bytes:
    head = {"type": kind, "id": running.request.id}
    output = encode(running.output())
    body = report[1:] if report[1:2] == b"}" else b"," + report[1:]
    return wire.dump(head)[:-1] + b',"report":{"output":' + wire.dump(output) + body + b"}"


def _failure(running: RunningChild, status: int) -> Failure:
    limits = running.request.limits
    stopped, seen = _stopped(running), running.last
    last = Location(seen.path, seen.line) if seen and seen.path and seen.line else None
    stack, phase = _stack(running, stopped), _phase(running, stopped)
    call = stopped.call if stopped else None
    if running.ending == "timeout":
        request = running.request
        setting = "fuselight.limits.seconds"
        if isinstance(request, (MeasureRequest, TuneRequest)):
            setting = f"fuselight.{'tune' if isinstance(request, TuneRequest) else 'bench'}.timeLimit"
        failure = run_failures.timeout_failure(limits.seconds, stack, phase, last, setting=setting)
        return replace(failure, call=call)
    if running.ending == "memory":
        if stopped is None and stack and phase == "trace":
            phase = None  # the last message, of a trace that may have ended long before
        failure = run_failures.memory_failure(running.request, stack, phase, last)
        return replace(failure, call=call, holders=stopped.holders if stopped else ())
    if running.was_killed_by_system(status):
        return run_failures.system_memory_failure(running.request, phase, stack[-1] if stack else last)
    if status < 0:
        return run_failures.signal_failure(-status, running.request, stack, phase, last)
    if running.ended is not None:
        return replace(running.ended, call=call, phase=phase)
    return _without_answer(running, status, stack, phase)


def _without_answer(running: RunningChild, status: int, stack: Stack, phase: str | None) -> Failure:
    """A run that ended by itself and has not said why."""
    internal = running.read("internal.txt")
    if internal is not None:
        return run_failures.internal_failure(internal.decode("utf-8", "replace"))
    if status == run_failures.INTERNAL or not os.path.isdir(running.directory):
        return run_failures.lost_failure()
    return run_failures.exit_failure(status, stack, call=None, phase=phase or "")


def _stopped(running: RunningChild) -> Failure | None:
    try:
        return decode(Failure, _json(running.read("stopped.json")))
    except DecodeError:
        return None


def _stack(running: RunningChild, stopped: Failure | None) -> Stack:
    """Find where the run was when it ended, from its own record or from `faulthandler`; empty if there is neither."""
    if stopped is not None and stopped.stack:
        return stopped.stack
    stack, roots = children.read_stack(running.read("faults.txt")), running.request.roots
    return tuple(place for place in stack if run_failures.is_shown(place.path, roots))


def _phase(running: RunningChild, stopped: Failure | None) -> str | None:
    if stopped is not None:
        return stopped.phase
    return running.last.phase if running.last else None


def _empty(running: RunningChild, versions: Versions) -> dict[str, Any]:
    request = running.request
    target = request.target
    report = Report(
        versions=versions,
        target=TargetRef(target.path, target.name, target.line, target.kind),
        tier=request.tier,
        generation=request.generation,
        roots=request.roots,
    )
    data: dict[str, Any] = encode(report)
    return data


def _json(data: bytes | None) -> dict[str, Any] | None:
    try:
        value = json.loads(data or b"")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None

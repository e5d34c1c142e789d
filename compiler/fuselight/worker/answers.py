"""Builds the answer of a run that has ended, from the files in its folder and its exit status.

Invariant: `answer` always returns exactly one message. The run's own report is inserted without parsing, because it may
be large. Only if a run did not end by itself, its last report is parsed to add the failure.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

from fuselight.codec import DecodeError, decode, encode
from fuselight.protocol import MeasureRequest, Refused, to_json
from fuselight.report import Failure, Location, Report, Stack, TargetRef, Versions
from fuselight.worker import children, run_failures, wire
from fuselight.worker.children import RunningChild


def answer(running: RunningChild, status: int, versions: Versions) -> bytes:
    """Make the payload that answers the run; `status` is what `waitpid` gave."""
    if running.ending == "cancelled":
        return wire.dump(to_json(Refused(running.request.id, "cancelled")))
    report = _read(running.path("answer.json"))
    if report is not None and running.ending is None:
        return _splice(running, report)
    data = _json(report) or _json(_read(running.path("partial.json"))) or _empty(running, versions)
    failure = _failure(running, status)
    data["failures"] = [*data.get("failures", []), encode(failure)]
    return _splice(running, wire.dump(data))


GROWS = frozenset({"kernels", "measured"})
"""Phases of progress that follow a new partial report; the host then sends that report."""


def partial(running: RunningChild) -> bytes | None:
    """Make the payload with everything that the run has recorded so far, None if it has written nothing."""
    report = _read(running.path("partial.json"))
    return None if report is None else _splice(running, report, "Partial")


def wants_fake_tensors(running: RunningChild, status: int) -> bool:
    """Whether the run needed more memory than available to build the target, so that it is repeated on fake tensors."""
    if running.fake is not None or isinstance(running.request, MeasureRequest):  # nothing fake can be timed
        return False
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == run_failures.OUT_OF_MEMORY:
        return True
    return running.ending == "memory" and _phase(running) == "build"


def _splice(running: RunningChild, report: bytes, kind: str = "Answer") -> bytes:
    head = {"type": kind, "id": running.request.id}
    output = encode(running.output())
    body = report[1:] if report[1:2] == b"}" else b"," + report[1:]
    return wire.dump(head)[:-1] + b',"report":{"output":' + wire.dump(output) + body + b"}"


def _failure(running: RunningChild, status: int) -> Failure:
    limits = running.request.limits
    stack, phase, last = _stack(running), _phase(running), _place(running)
    stopped = _stopped(running)
    call = stopped.call if stopped else None
    if running.ending == "timeout":
        measured = isinstance(running.request, MeasureRequest)
        failure = run_failures.timeout_failure(limits.seconds, stack, phase, last, measured=measured)
        return replace(failure, call=call)
    if running.ending == "memory":
        return replace(run_failures.memory_failure(limits.memory_mb, stack, phase, last), call=call)
    if os.WIFSIGNALED(status):
        return run_failures.signal_failure(os.WTERMSIG(status), stack, phase, last)
    internal = _read(running.path("internal.txt"))
    if internal is not None:
        return run_failures.internal_failure(internal.decode("utf-8", "replace"))
    if os.WEXITSTATUS(status) == run_failures.INTERNAL or not os.path.isdir(running.directory):
        return run_failures.lost_failure()
    return run_failures.exit_failure(os.WEXITSTATUS(status), stack, call=None, phase=phase or "")


def _stopped(running: RunningChild) -> Failure | None:
    data = _json(_read(running.path("stopped.json")))
    if data is None:
        return None
    try:
        return decode(Failure, data)
    except DecodeError:
        return None


def _stack(running: RunningChild) -> Stack:
    """Find where the run was when it ended, from its own record or from `faulthandler`; empty if there is neither."""
    stopped = _stopped(running)
    if stopped is not None and stopped.stack:
        return stopped.stack
    dumps = (_read(running.path("faults.txt")) or b"").decode("utf-8", "replace")
    roots = running.request.roots
    return tuple(place for place in children.read_stack(dumps) if run_failures.is_shown(place.path, roots))


def _phase(running: RunningChild) -> str | None:
    stopped = _stopped(running)
    if stopped is not None:
        return stopped.phase
    return running.last.phase if running.last else None


def _place(running: RunningChild) -> Location | None:
    last = running.last
    return Location(last.path, last.line) if last and last.path and last.line else None


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


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _json(data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def describe_status(status: int) -> str:
    """Say in the log how a process ended."""
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"status {os.WEXITSTATUS(status)}"

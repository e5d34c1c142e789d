"""The one answer of a run that has ended, from what it left in its folder and how it ended.

Invariant: `answer` always returns exactly one message. The run's own report is spliced in as it is, not parsed: it
may be large; only a run that did not end by itself has its last report read, to add the failure that ended it.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

from fuselight.codec import DecodeError, decode, encode
from fuselight.protocol import Refused, to_json
from fuselight.report import Failure, Location, Report, Stack, TargetRef, Tier, Versions
from fuselight.worker import endings, faults, wire
from fuselight.worker.children import Running


def answer(running: Running, status: int, versions: Versions) -> bytes:
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
"""Phases of progress before which a run has kept more than it had: it is then sent as far as it goes."""


def partial(running: Running) -> bytes | None:
    """Make the payload that tells what the run has learnt so far, None where it has kept nothing."""
    report = _read(running.path("partial.json"))
    return None if report is None else _splice(running, report, "Partial")


def wants_fake_tensors(running: Running, status: int) -> bool:
    """Whether building the target needed more memory than there is: the run is then done again on fake tensors."""
    if running.fake is not None or running.request.measure is not None:  # nothing fake can be timed
        return False
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == endings.OUT_OF_MEMORY:
        return True
    return running.ending == "memory" and _phase(running) == "build"


def _splice(running: Running, report: bytes, kind: str = "Answer") -> bytes:
    head = {"type": kind, "id": running.request.id}
    output = encode(running.output())
    body = report[1:] if report[1:2] == b"}" else b"," + report[1:]
    return wire.dump(head)[:-1] + b',"report":{"output":' + wire.dump(output) + body + b"}"


def _failure(running: Running, status: int) -> Failure:
    limits = running.request.limits
    stack, phase, last = _stack(running), _phase(running), _place(running)
    stopped = _stopped(running)
    call = stopped.call if stopped else None
    if running.ending == "timeout":
        measured = running.request.measure is not None
        failure = endings.timeout_failure(limits.seconds, stack, phase, last, measured=measured)
        return replace(failure, call=call)
    if running.ending == "memory":
        return replace(endings.memory_failure(limits.memory_mb, stack, phase, last), call=call)
    if os.WIFSIGNALED(status):
        return endings.signal_failure(os.WTERMSIG(status), stack, phase, last)
    internal = _read(running.path("internal.txt"))
    if internal is not None:
        return endings.internal_failure(internal.decode("utf-8", "replace"))
    if os.WEXITSTATUS(status) == endings.INTERNAL or not os.path.isdir(running.directory):
        return endings.lost_failure()
    return endings.exit_failure(os.WEXITSTATUS(status), stack, call=None, phase=phase or "")


def _stopped(running: Running) -> Failure | None:
    data = _json(_read(running.path("stopped.json")))
    if data is None:
        return None
    try:
        return decode(Failure, data)
    except DecodeError:
        return None


def _stack(running: Running) -> Stack:
    """Say where it was when it ended: it said so itself, or `faulthandler` did; empty where neither could."""
    stopped = _stopped(running)
    if stopped is not None and stopped.stack:
        return stopped.stack
    dumps = (_read(running.path("faults.txt")) or b"").decode("utf-8", "replace")
    roots = running.request.roots
    return tuple(place for place in faults.read_stack(dumps) if endings.is_shown(place.path, roots))


def _phase(running: Running) -> str | None:
    stopped = _stopped(running)
    if stopped is not None:
        return stopped.phase
    return running.last.phase if running.last else None


def _place(running: Running) -> Location | None:
    last = running.last
    return Location(last.path, last.line) if last and last.path and last.line else None


def _empty(running: Running, versions: Versions) -> dict[str, Any]:
    request = running.request
    target = request.target
    report = Report(
        versions=versions,
        target=TargetRef(target.path, target.name, target.line, target.kind),
        tier=Tier.CAPTURE,
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

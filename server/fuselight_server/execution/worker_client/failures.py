"""What came of a run, read and completed, and the words for an answer that never came.

Invariant: nothing here knows of processes or of the event loop; every failure names the next step.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuselight.shared import wire
from fuselight.shared.codec import DecodeError
from fuselight.shared.protocol import Answer, Message, Progress, Refused, from_json
from fuselight.shared.report import Culprit, Failure, Location, Stack, innermost_user_frame


@dataclass(frozen=True)
class Unreadable:
    """A message of a known type whose fields do not fit."""

    data: Any
    error: DecodeError


def read_message(payload: bytes) -> Message | Unreadable | None:
    """Read one payload. Raises WireError for what is no JSON."""
    data = wire.load(payload)
    try:
        return from_json(data)
    except DecodeError as error:
        return Unreadable(data, error)


def with_stack(answer: Answer | Refused, sampled: Stack | None, roots: tuple[str, ...]) -> Answer | Refused:
    """Give a time limit's failure the sampled stack, where the run itself could not say where it was."""
    if sampled is None or not isinstance(answer, Answer) or innermost_user_frame(sampled, roots) is None:
        return answer
    failures = tuple(
        replace(failure, stack=sampled)
        if failure.kind == "timeout" and innermost_user_frame(failure.stack, roots) is None
        else failure
        for failure in answer.report.failures
    )
    return replace(answer, report=replace(answer.report, failures=failures))


def damaged(why: str) -> Failure:
    """Describe a worker that died, or sent what cannot be read."""
    return Failure(
        Culprit.FUSELIGHT,
        "damaged_answer",
        f"the worker gave no answer: {why}",
        "run it again: a new worker is started; if it stays, use Fuselight: Report a Problem",
    )


def killed(number: int, last: Progress | None) -> Failure:
    """Describe a worker that a signal ended during a run, at the last known position of that."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    place = Location(last.path, last.line) if last is not None and last.path and last.line else None
    where = f" at {Path(place.path).name}:{place.line}" if place is not None else ""
    return Failure(
        Culprit.USER,
        "signal",
        f"the process that started the run was ended by {name} while the code ran{where}",
        "let the code not end its parent process; if the system ran out of memory, use smaller inputs",
        stack=(place,) if place is not None else (),
    )


def failure_of_ours(message: str, next_step: str) -> Failure:
    """Describe what went wrong between server and worker."""
    return Failure(Culprit.FUSELIGHT, "internal", message, next_step)


def not_ready(message: str, next_step: str, printed: str) -> Failure:
    """Describe an interpreter in which the worker ended, or said nothing, before it was ready."""
    return Failure(Culprit.ENVIRONMENT, "no_torch", message[:500], next_step, traceback=printed)


def platform_problem(platform: str) -> Failure | None:
    """Say why nothing can run on this system, None where it can: a run needs process groups and signals."""
    if platform != "win32":
        return None
    return Failure(
        Culprit.ENVIRONMENT,
        "platform",
        "runs need Linux or macOS; on Windows itself there are static features alone",
        "open the folder in WSL: VS Code's extension for it starts Fuselight there",
    )

"""A client's side of the protocol, without I/O: messages from bytes, bytes of messages, what a worker's end means.

Invariant: nothing here starts, reads, writes, waits or looks at a clock. The drivers (asyncio in the server, blocking
in a sweep) pass on what they read, so they agree on which worker can serve and why a run has no answer.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fuselight.shared import wire
from fuselight.shared.codec import DecodeError, decode
from fuselight.shared.protocol import PROTOCOL, Message, Progress, from_json, to_json
from fuselight.shared.report import Culprit, Failure, Location

PRINTED_BYTES = 20_000
"""How much is kept of the end of what a worker prints on stderr."""
_LARGE = 200_000
"""Bytes."""
_PARTIAL = b'{"type":"Partial"'
_LAST_LINE = 300
_BY_ITSELF = "it ended by itself"


@dataclass(frozen=True)
class Unreadable:
    """A message of a known type whose fields do not fit."""

    data: Any
    error: DecodeError


def read_message(payload: bytes) -> Message | Unreadable | None:
    """Read one payload; None for a type that this version does not know. Raises WireError for what is no JSON."""
    data = wire.load(payload)
    try:
        return from_json(data)
    except DecodeError as error:
        return Unreadable(data, error)


@dataclass(frozen=True)
class Incoming:
    """One message as it came; a driver decides when and where it is decoded."""

    payload: bytes

    @property
    def is_large(self) -> bool:
        """Whether to decode it takes so long that an event loop should not wait for it."""
        return len(self.payload) > _LARGE

    @property
    def is_partial(self) -> bool:
        """Whether it is a Partial, which a driver that needs the answer alone need not decode."""
        return self.payload.startswith(_PARTIAL)

    def message(self) -> Message | Unreadable | None:
        """Decode it. Raises WireError."""
        return read_message(self.payload)

    def data(self) -> dict[str, Any]:
        """Return it as JSON values; empty if it is no object. Raises WireError."""
        data = wire.load(self.payload)
        return data if isinstance(data, dict) else {}


class Conversation:
    """What one worker process has sent and printed."""

    def __init__(self, executable: str) -> None:
        """Begin with the process of this interpreter."""
        self._executable = executable
        self._reader = wire.FrameReader()
        self._printed = bytearray()

    def receive(self, data: bytes) -> Iterator[Incoming]:
        """Give the messages that bytes of its stdout complete. Raises WireError where they are damaged."""
        return map(Incoming, self._reader.feed(data))

    def end_output(self) -> None:
        """Take the end of its stdout. Raises WireError if that is inside a message."""
        self._reader.end()

    def note(self, data: bytes) -> list[str]:
        """Keep the end of what it prints on stderr, and return the lines of `data`."""
        self._printed += data
        del self._printed[:-PRINTED_BYTES]
        return _text(data).splitlines()

    @property
    def printed(self) -> str:
        """The end of what it printed."""
        return _text(bytes(self._printed))

    def silent_start(self, seconds: float) -> Failure:
        """Describe a process that sent no hello for so long."""
        message = f"{self._executable} did not get ready within {seconds:g} s"
        step = "see whether `import torch` ends in that interpreter; the log has what it printed"
        return not_ready(message, step, self.printed)

    def end(self, why: str = "", status: int | None = None) -> WorkerEnd:
        """Describe its end. `why`: what the driver ended it for, empty if it ended by itself, with this exit status."""
        return WorkerEnd(self._executable, why, status, self.printed)


@dataclass(frozen=True)
class WorkerEnd:
    """The end of a worker process: what it means for its start and for its runs."""

    executable: str
    why: str
    """What the driver ended it for; empty if it ended by itself."""
    status: int | None
    """Exit status, negative for a signal; None if unknown."""
    printed: str

    @property
    def by_itself(self) -> bool:
        """Whether the driver did not end it."""
        return not self.why

    def loses(self, *, has_process: bool) -> bool:
        """Whether a run goes to another worker: it had no process yet, so user code did not end this one."""
        return self.by_itself and not has_process

    def start_failure(self) -> Failure:
        """Say why a process that has not sent its hello cannot serve."""
        message = f"{self.executable} ended before it was ready: {self._last_line() or 'it printed nothing'}"
        step = "choose another interpreter, or repair this one; the log has what it printed"
        return not_ready(message, step, self.printed)

    def run_failure(self, last: Progress | None, *, has_process: bool) -> Failure:
        """Say why a run has no answer. `last`: its last position."""
        if has_process and self.by_itself and self.status is not None and self.status < 0:
            return _killed(-self.status, last)
        return replace(no_answer(self.why or _BY_ITSELF), traceback=self.printed)

    def sentence(self) -> str:
        """Say in one line how it ended, with the last line that it printed."""
        if self.why:
            return no_answer(self.why).message
        last = self._last_line()
        return f"the worker {ended_how(self.status)}" + (f": {last[:_LAST_LINE]}" if last else "")

    def _last_line(self) -> str:
        return (self.printed.strip().splitlines() or [""])[-1]


def message_bytes(message: Message | Mapping[str, Any]) -> bytes:
    """The bytes to write for a message, or for one that is JSON already. Raises WireError if it is too large."""
    data = message if isinstance(message, Mapping) else to_json(message)
    return wire.frame(wire.dump(dict(data)))


def hello_problem(hello: Mapping[str, Any]) -> Failure | None:
    """Say why the worker that sent this Hello (as JSON) cannot serve; None if it can."""
    if hello.get("problem") is not None:
        try:
            return decode(Failure, hello["problem"])
        except DecodeError as error:
            return no_answer(f"its hello cannot be read: {error}")
    if hello.get("protocol") != PROTOCOL:
        return failure_of_ours(
            f"the worker speaks protocol {hello.get('protocol')}, the client {PROTOCOL}",
            "two versions of Fuselight are mixed: reload the window, or install the same version on each machine",
        )
    return None


def deadline(now: float, seconds: float | None, overtime: float) -> float | None:
    """When a run that may take `seconds` from now on must have answered; 0 and None: there is no limit.

    `overtime`: how long after its limit a worker itself counts as stuck.
    """
    return now + seconds + overtime if seconds else None


def damage(error: Exception) -> str:
    """Why a worker must be ended whose bytes cannot be understood."""
    if isinstance(error, wire.WireError):
        return f"its answer is damaged: {error}"
    return f"its answer could not be read: {type(error).__name__}: {error}"


def ended_how(status: int | None) -> str:
    """An exit status in words, as `was killed by SIGKILL`."""
    if status is None or status >= 0:
        return f"ended with status {status}"
    return f"was killed by {signal_name(-status)}"


def no_answer(why: str) -> Failure:
    """Describe a worker that died, or sent what cannot be read."""
    return Failure(
        Culprit.FUSELIGHT,
        "damaged_answer",
        f"the worker gave no answer: {why}",
        "run it again: a new worker is started; if it stays, use Fuselight: Report a Problem",
    )


def failure_of_ours(message: str, next_step: str) -> Failure:
    """Describe what went wrong between client and worker."""
    return Failure(Culprit.FUSELIGHT, "internal", message, next_step)


def not_ready(message: str, next_step: str, printed: str) -> Failure:
    """Describe an interpreter in which the worker ended, or sent nothing, before it was ready."""
    return Failure(Culprit.ENVIRONMENT, "no_torch", message[:500], next_step, traceback=printed)


def _killed(number: int, last: Progress | None) -> Failure:
    """Describe a worker that a signal ended during a run, at the last known position of that."""
    place = Location(last.path, last.line) if last is not None and last.path and last.line else None
    where = f" at {os.path.basename(place.path)}:{place.line}" if place is not None else ""
    return Failure(
        Culprit.USER,
        "signal",
        f"the process that started the run was ended by {signal_name(number)} while the code ran{where}",
        "let the code not end its parent process; if the system ran out of memory, use smaller inputs",
        stack=(place,) if place is not None else (),
    )


def signal_name(number: int) -> str:
    """`SIGKILL`; of a number that this system has no name for, `signal 77`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")

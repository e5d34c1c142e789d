"""One configuration and its process, from the coordinator's side.

Invariant: a configuration's time limit starts when it gets an order, even while the coordinator waits for others. It is
charged only for the time that the coordinator waited for its own answers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fuselight.codec import decode
from fuselight.report import Failure, MeasuredConfiguration

_LEAST_SECONDS = 1.0
"""Minimum wait for an answer, whatever time is left: it may have arrived already."""


class EndedError(Exception):
    """The process will not answer any more; the message says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RemoteConfiguration(Protocol):
    """The process of one configuration, from the coordinator's side."""

    def ask(self, what: str, /, **details: Any) -> None:
        """Send an order. Answers arrive in the order of the requests. Raises EndedError."""
        ...

    def answer(self, what: str, seconds: float, /) -> dict[str, Any]:
        """Wait up to `seconds` (0: without limit) for the answer to an order. Raises EndedError."""
        ...

    def end(self) -> None:
        """End the process and everything that it has started."""
        ...


@dataclass
class ResultRow:
    """One configuration and its process."""

    other: RemoteConfiguration
    measured: MeasuredConfiguration
    us: float = 0.0
    """Time of one steady call, after warm-up."""
    left: float = 0.0
    """Seconds that it may still use; 0 means no limit."""
    imported: bool = False
    """Whether the process is ready for its first order."""
    _due: float = 0.0
    """Clock time at which its limit expires if it works on the current order."""

    def ask(self, what: str, details: Mapping[str, Any]) -> None:
        """Send an order. Raises EndedError."""
        self.other.ask(what, **details)
        self._due = time.perf_counter() + self.left

    def answer(self, what: str) -> dict[str, Any]:
        """Wait for the answer, and store its measurements. Raises EndedError."""
        began = time.perf_counter()
        said = self.other.answer(what, max(_LEAST_SECONDS, self._due - began) if self.left else 0.0)
        if self.left:
            self.left = max(_LEAST_SECONDS, self.left - (time.perf_counter() - began))
        self.take(said)
        return said

    def take(self, said: Mapping[str, Any]) -> None:
        """Store the measurements in an answer, if it has any."""
        if "row" in said:
            self.measured = replace(decode(MeasuredConfiguration, said["row"]), alone=self.measured.alone)

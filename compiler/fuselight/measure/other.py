"""One configuration and its process, as their coordinator sees them.

Invariant: a configuration's time passes from when it is asked, also while others are waited for; it is charged for no
more than its own answers were waited for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fuselight.codec import decode
from fuselight.report import Failure, MeasuredConfiguration

_LEAST_SECONDS = 1.0
"""For an answer, whatever is left: it may be there already."""


class EndedError(Exception):
    """A process gives no answer any more; says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Other(Protocol):
    """The process of one configuration, as its coordinator sees it."""

    def ask(self, what: str, /, **details: Any) -> None:
        """Have it do something. It answers in the order in which it is asked. Raises EndedError."""
        ...

    def answer(self, what: str, seconds: float, /) -> dict[str, Any]:
        """Wait for its answer to what it was asked, for `seconds` at the most (0: for ever). Raises EndedError."""
        ...

    def end(self) -> None:
        """End it, and whatever it has started."""
        ...


@dataclass
class Row:
    """One configuration and its process."""

    other: Other
    measured: MeasuredConfiguration
    us: float = 0.0
    """What one steady call takes, once it is warm."""
    left: float = 0.0
    """Seconds that it may still take; 0 where there is no limit."""
    imported: bool = False
    """Whether it waits for its first order."""
    _due: float = 0.0
    """By the clock: when its time is over, if it has worked since it was asked."""

    def ask(self, what: str, details: Mapping[str, Any]) -> None:
        """Have it do something. Raises EndedError."""
        self.other.ask(what, **details)
        self._due = time.perf_counter() + self.left

    def answer(self, what: str) -> dict[str, Any]:
        """Wait for its answer, and take in what it has measured. Raises EndedError."""
        began = time.perf_counter()
        said = self.other.answer(what, max(_LEAST_SECONDS, self._due - began) if self.left else 0.0)
        if self.left:
            self.left = max(_LEAST_SECONDS, self.left - (time.perf_counter() - began))
        self.take(said)
        return said

    def take(self, said: Mapping[str, Any]) -> None:
        """Take in what it has measured, if it says anything of that."""
        if "row" in said:
            self.measured = replace(decode(MeasuredConfiguration, said["row"]), alone=self.measured.alone)

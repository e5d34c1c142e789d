"""The process of one configuration, as its coordinator sees it."""

from __future__ import annotations

from typing import Any, Protocol

from fuselight.report import Failure


class EndedError(Exception):
    """A process gives no answer any more; says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Other(Protocol):
    """The process of one configuration, as its coordinator sees it."""

    def order(self, what: str, seconds: float, /, **details: Any) -> dict[str, Any]:
        """Have it do something and wait for its answer, for `seconds` at the most (0: for ever). Raises EndedError."""
        ...

    def ask(self, what: str, /, **details: Any) -> None:
        """Have it do something. Raises EndedError."""
        ...

    def answer(self, what: str, seconds: float, /) -> dict[str, Any]:
        """Wait for its answer to what it was asked, as `order` does."""
        ...

    def end(self) -> None:
        """End it, and whatever it has started."""
        ...

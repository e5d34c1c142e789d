"""What a conversation needs of tools: their list, a call, and the answer to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class UnknownToolError(Exception):
    """There is no tool of this name; the message names those that there are."""


@dataclass(frozen=True)
class ToolResult:
    """The answer to a call."""

    text: str
    """For a model, and for clients that do not know structured content: it has what the data has, in short."""
    data: dict[str, Any] | None = None
    """By the tool's output schema; None for an error."""
    is_error: bool = False


class Caller(Protocol):
    """The client of one call, as a tool sees it."""

    def show(self, text: str) -> None:
        """Report progress, if the client wants it."""
        ...

    async def ask(self, question: str) -> bool | None:
        """Ask the user to allow something; None if the client cannot ask.

        Raises an exception that the conversation takes where the answer comes with a second call: a tool asks before
        it does anything.
        """
        ...


class Toolbox(Protocol):
    """The tools of a server."""

    @property
    def instructions(self) -> str:
        """When to use which tool, for a model."""
        ...

    def descriptions(self) -> Sequence[dict[str, Any]]:
        """Each tool as `tools/list` has it."""
        ...

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller) -> ToolResult:
        """Call a tool. Raises UnknownToolError; whatever else is wrong is an answer."""
        ...

    async def close(self) -> None:
        """End all work."""
        ...

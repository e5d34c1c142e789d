"""What a tool is: its declaration, and the function that answers a call.

Invariant: an answer's data fits the schema of the tool, and its text has all that a model needs of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuselight_server.agents.arguments import Argument, input_schema

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fuselight_server.agents.answers import ToolAnswer
    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession


@dataclass(frozen=True)
class Effects:
    """What a call does, for the annotations of its tool."""

    runs_code: bool = False
    """Whether it imports and calls the user's code, which may do anything."""
    writes: bool = False
    """Whether Fuselight itself writes into the project, apart from its caches under `.fuselight/`."""


@dataclass(frozen=True)
class Tool:
    """A tool of the server."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    properties: dict[str, Any]
    """JSON schemas of what its data has, besides the state."""
    effects: Effects
    run: Callable[[AgentSession, dict[str, Any], Caller], Awaitable[ToolAnswer]]

    def description_data(self) -> dict[str, Any]:
        """The tool as `tools/list` has it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": input_schema(self.arguments),
            "outputSchema": {
                "type": "object",
                "properties": {**STATE, **self.properties},
                "required": ["state"],
            },
            "annotations": {
                "title": self.title,
                # User code can do anything: a tool that runs it is not read-only, whatever it does by itself.
                "readOnlyHint": not (self.effects.runs_code or self.effects.writes),
                "destructiveHint": False,
                "idempotentHint": not self.effects.writes,
                "openWorldHint": False,
            },
        }


def text_schema(description: str) -> dict[str, Any]:
    """The schema of a text."""
    return {"type": "string", "description": description}


def list_schema(description: str, items: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schema of a list; `items`: that of an element, an object by default."""
    return {"type": "array", "description": description, "items": items or {"type": "object"}}


STATE: dict[str, Any] = {
    "state": {
        "type": "string",
        "enum": ["done", "queued", "running", "canceled"],
        "description": "`queued` and `running`: call `result` with the handle; the other fields come with the answer",
    },
    "handle": text_schema("Names work that is queued or running"),
    "progress": text_schema("What the work does"),
    "seconds": {"type": "number", "description": "How long it has been queued or running"},
    "notices": list_schema("What is worth knowing besides the answer", {"type": "string"}),
}
"""Fields that every answer may have."""
WAIT = Argument(
    "wait_seconds",
    "number",
    "Seconds to wait for the answer; after that you get a handle to poll with `result`. Many clients give up after 60",
    default=25.0,
    least=0.0,
    most=50.0,
)
TARGETS = Argument(
    "targets",
    "strings",
    "Only these classes or functions (or `__main__`); default: all that the files compile or call in a directive",
    default=(),
)

"""What a tool is: its declaration, and the function that answers a call.

`tool.json` has the declarations: all that an agent reads of the tools, in one place.
Invariant: an answer's data fits the schema of the tool, and its text has all that a model needs of the data.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import read_table
from fuselight_server.agents.arguments import Argument, input_schema

if TYPE_CHECKING:
    from fuselight_server.agents.answers import ToolAnswer
    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession


@dataclass(frozen=True)
class _Declaration:
    """What clients get to read of a tool."""

    title: str
    description: str
    arguments: tuple[str | Argument, ...]
    """One that several tools have is there by its name among the shared ones."""
    answer: dict[str, Any] = field(default_factory=dict)
    """JSON schemas of what its data has, besides the state."""
    runs_code: bool = False
    """Whether it imports and calls the user's code, which may do anything."""
    writes: bool = False
    """Whether Fuselight itself writes into the project, apart from its caches under `.fuselight/`."""


@dataclass(frozen=True)
class _Declarations:
    tools: dict[str, _Declaration]
    shared_arguments: dict[str, Argument]
    state: dict[str, Any]
    """Schemas of the fields that every answer may have."""
    schemas: dict[str, Any]
    """Of the items of lists; that of a verdict is of the rows that `commands/verdict_rows.py` makes."""


_DECLARED = read_table(_Declarations, __file__)


@dataclass(frozen=True)
class Tool:
    """A tool of the server."""

    name: str
    declaration: _Declaration
    arguments: tuple[Argument, ...]
    run: Callable[[AgentSession, dict[str, Any], Caller], Awaitable[ToolAnswer]]

    def description_data(self) -> dict[str, Any]:
        """The tool as `tools/list` has it."""
        declared = self.declaration
        return {
            "name": self.name,
            "title": declared.title,
            "description": declared.description,
            "inputSchema": input_schema(self.arguments),
            "outputSchema": {
                "type": "object",
                "properties": {**_DECLARED.state, **_with_items(declared.answer)},
                "required": ["state"],
            },
            "annotations": {
                "title": declared.title,
                # User code can do anything: a tool that runs it is not read-only, whatever it does by itself.
                "readOnlyHint": not (declared.runs_code or declared.writes),
                "destructiveHint": False,
                "idempotentHint": not declared.writes,
                "openWorldHint": False,
            },
        }


def declared_tool(
    name: str,
    run: Callable[[AgentSession, dict[str, Any], Caller], Awaitable[ToolAnswer]],
    options: Sequence[Argument] = (),
    **known: dict[str, Any],
) -> Tool:
    """The tool of this name that `run` answers.

    `options`: arguments that a table of the command declares. `known`: by argument, fields that the code knows, as the
    values of an enumeration.
    """
    declared = _DECLARED.tools[name]
    arguments = [
        _DECLARED.shared_arguments[item] if isinstance(item, str) else item for item in declared.arguments
    ]
    filled = [replace(argument, **known.get(argument.name, {})) for argument in arguments]
    return Tool(name, declared, (*filled, *options), run)


def _with_items(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with the named schemas of items in their places."""
    return {
        key: _DECLARED.schemas[part]
        if key == "items" and isinstance(part, str)
        else _with_items(part)
        if isinstance(part, dict)
        else part
        for key, part in schema.items()
    }

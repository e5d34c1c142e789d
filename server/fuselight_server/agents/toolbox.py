"""The tools of a server, as a conversation calls them.

Invariant: a call has an answer or an error in words that a model can act on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight_server.agents.answers import RefusedCallError
from fuselight_server.agents.arguments import ArgumentError, read_arguments
from fuselight_server.agents.bounds import bounded_message
from fuselight_server.agents.catalog import TOOLS
from fuselight_server.agents.instructions import INSTRUCTIONS
from fuselight_server.agents.option_names import data_for_agents, for_agents
from fuselight_server.agents.protocol.toolbox import Caller, ToolResult, UnknownToolError
from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.options import suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuselight_server.agents.session import AgentSession

_TOOLS = {tool.name: tool for tool in TOOLS}


class AgentToolbox:
    """The tools over one session. Several conversations may share it, as those of an editor do."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session

    @property
    def instructions(self) -> str:
        """When to use which tool."""
        return INSTRUCTIONS

    def descriptions(self) -> Sequence[dict[str, Any]]:
        """Each tool as `tools/list` has it."""
        return [tool.description_data() for tool in TOOLS]

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller) -> ToolResult:
        """Call a tool. Raises UnknownToolError; whatever else is wrong is an answer."""
        tool = _TOOLS.get(name)
        if tool is None:
            known = ", ".join(f"`{name}`" for name in _TOOLS)
            raise UnknownToolError(
                f"there is no tool `{name}`{suggestion(name, _TOOLS) or '.'} The tools are {known}"
            )
        try:
            answer = await tool.run(self._session, read_arguments(tool.arguments, arguments), caller)
        except (ArgumentError, RefusedCallError, CommandError, OSError) as error:
            return ToolResult(bounded_message(for_agents(str(error))), is_error=True)
        return ToolResult(for_agents(answer.text), {"state": "done", **data_for_agents(answer.data)})

    async def close(self) -> None:
        """End all work and every process."""
        await self._session.close()

"""`result` and `cancel`: work that took longer than the client waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight_server.agents.answers import ToolAnswer
from fuselight_server.agents.tool import declared_tool

if TYPE_CHECKING:
    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession


async def _result(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    return await session.work.result(arguments["handle"], arguments["wait_seconds"], caller)


async def _cancel(session: AgentSession, arguments: dict[str, Any], _caller: Caller) -> ToolAnswer:
    work = session.work.cancel(arguments["handle"])
    if work.has_ended:
        text = f"`{work.handle}` had ended before: it is {work.state.value}."
        return ToolAnswer(text, {"state": work.state.value, "handle": work.handle})
    text = f"`{work.handle}` is being canceled. `result` says when it has ended; of `tune`, it has the best so far."
    return ToolAnswer(text, {"state": work.state.value, "handle": work.handle})


RESULT = declared_tool("result", _result)
CANCEL = declared_tool("cancel", _cancel)

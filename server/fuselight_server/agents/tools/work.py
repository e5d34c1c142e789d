"""`result` and `cancel`: work that took longer than the client waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight_server.agents.answers import ToolAnswer
from fuselight_server.agents.arguments import Argument
from fuselight_server.agents.tool import WAIT, Effects, Tool

if TYPE_CHECKING:
    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession

_HANDLE = Argument("handle", "string", "The handle that a tool answered with", is_required=True)


async def _result(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    return await session.work.result(arguments["handle"], arguments["wait_seconds"], caller)


async def _cancel(session: AgentSession, arguments: dict[str, Any], _caller: Caller) -> ToolAnswer:
    work = session.work.cancel(arguments["handle"])
    if work.has_ended:
        text = f"`{work.handle}` had ended before: it is {work.state.value}."
        return ToolAnswer(text, {"state": work.state.value, "handle": work.handle})
    text = f"`{work.handle}` is being canceled. `result` says when it has ended; of `tune`, it has the best so far."
    return ToolAnswer(text, {"state": work.state.value, "handle": work.handle})


RESULT = Tool(
    "result",
    "Result of long work",
    "Wait for work that a tool answered with a handle for, and return its answer, or its progress after "
    "`wait_seconds`. The answer has the fields of that tool.",
    (_HANDLE, WAIT),
    {},
    Effects(),
    _result,
)
CANCEL = Tool(
    "cancel",
    "Cancel long work",
    "Cancel work that is queued or running, by its handle.",
    (_HANDLE,),
    {},
    Effects(),
    _cancel,
)

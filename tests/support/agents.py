"""A client of the Model Context Protocol in the same process: it speaks to a conversation, without pipes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from fuselight_server.agents.catalog import TOOLS
from fuselight_server.agents.host import AgentHost
from fuselight_server.agents.permissions import FlagPermission
from fuselight_server.agents.protocol.conversation import AgentConversation
from fuselight_server.agents.protocol.revisions import CAPABILITIES_KEY, VERSION_KEY
from fuselight_server.agents.protocol.toolbox import Toolbox
from fuselight_server.agents.session import AgentSession
from fuselight_server.agents.toolbox import AgentToolbox

STATELESS = "2026-07-28"
PATIENCE = 60.0
SCHEMAS = {tool.name: tool.description_data()["outputSchema"] for tool in TOOLS}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class MemoryClient:
    """A client, and what the server has sent it."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.sent: list[dict[str, Any]] = []
        """Every message of the server."""
        self._news = asyncio.Event()
        self.conversation = AgentConversation(toolbox, self._take)
        self._number = 0

    def _take(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        self.sent.append(json.loads(line))
        self._news.set()

    def send(self, message: dict[str, Any]) -> None:
        self.conversation.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def start(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request; returns its id."""
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params or {}})
        return self._number

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that is wanted."""
        while (message := next(filter(wanted, self.sent), None)) is None:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), PATIENCE)
        return message

    async def answer(self, identity: object) -> dict[str, Any]:
        """The answer to a request, a result or an error."""
        return await self.until(lambda message: message.get("id") == identity and "method" not in message)

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of a request."""
        answer = await self.answer(self.start(method, params))
        result: dict[str, Any] = answer["result"]
        return result

    async def call(
        self, tool: str, *, meta: dict[str, Any] | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """The result of a tool."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments, "_meta": meta or {}})

    async def data(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool that succeeds."""
        result = await self.call(tool, **arguments)
        assert not result["isError"], result
        data: dict[str, Any] = result["structuredContent"]
        return data

    async def refusal(self, tool: str, **arguments: Any) -> str:
        """The text of a tool that does not succeed."""
        result = await self.call(tool, **arguments)
        assert result["isError"], result
        text: str = result["content"][0]["text"]
        return text


def stateless_meta(**capabilities: Any) -> dict[str, Any]:
    """The `_meta` of a request without a handshake."""
    return {VERSION_KEY: STATELESS, CAPABILITIES_KEY: capabilities}


def talk(toolbox: Callable[[], Toolbox], script: Callable[[MemoryClient], Coroutine[Any, Any, None]]) -> None:
    """Run a conversation."""

    async def run() -> None:
        client = MemoryClient(toolbox())
        try:
            await script(client)
        finally:
            await client.conversation.close()

    asyncio.run(run())


def toolbox_of(folder: Path, *, allowed: bool = True, **host: Any) -> AgentToolbox:
    """The tools as a terminal starts them in a folder."""
    return AgentToolbox(session_of(folder, allowed=allowed, **host))


def session_of(folder: Path, *, allowed: bool = True, **host: Any) -> AgentSession:
    """The state of a server in a folder."""
    permission = FlagPermission([folder] if allowed else [], [folder])
    return AgentSession(AgentHost(folders=lambda: [folder], permission=permission, **host))


def check_schema(data: Any, schema: dict[str, Any], where: str = "answer") -> None:
    """A part of JSON Schema that is enough for the schemas of the tools."""
    kinds = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type", "object")]
    assert isinstance(data, tuple(kind for name in kinds for kind in _PYTHON_TYPES[name])), (
        where,
        data,
        kinds,
    )
    if "enum" in schema:
        assert data in schema["enum"], where
    if isinstance(data, list):
        for number, item in enumerate(data):
            check_schema(item, schema.get("items", {}), f"{where}[{number}]")
    if isinstance(data, dict):
        assert set(schema.get("required", ())) <= data.keys(), where
        for name, inner in schema.get("properties", {}).items():
            if name in data:
                check_schema(data[name], inner, f"{where}.{name}")


async def ask(client: MemoryClient, tool: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    """The data and the text of an answer, which fits the tool's schema."""
    result = await client.call(tool, **arguments)
    assert not result["isError"], result
    data = result["structuredContent"]
    check_schema(data, SCHEMAS[tool])
    assert data["state"] == "done"
    return data, result["content"][0]["text"]

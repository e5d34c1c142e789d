"""Where agents attach to this server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuselight_server.editor.handlers.protocol import FolderParams
    from fuselight_server.editor.handlers.server import Server


async def agent_address(server: Server, _params: FolderParams) -> dict[str, Any]:
    """Answer `fuselight/agentAddress`: the folder that `fuselight mcp --attach` takes; empty where none can attach."""
    return {"address": await server.analysis.agents.apply()}

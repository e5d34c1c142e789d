"""Where agents attach to this server."""

from __future__ import annotations

from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.answers import AttachmentAddress
from fuselight_server.editor.messages.params import FolderParams


async def agent_address(server: Server, _params: FolderParams) -> AttachmentAddress:
    """Answer `fuselight/agentAddress`: the folder that `fuselight mcp --attach` takes; empty where none can attach."""
    return {"address": await server.analysis.agents.apply()}

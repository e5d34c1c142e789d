"""The tools of the server, in the order in which an agent needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.agents.tools import check, work

if TYPE_CHECKING:
    from fuselight_server.agents.tool import Tool

TOOLS: tuple[Tool, ...] = (check.TARGETS_TOOL, check.CHECK, work.RESULT, work.CANCEL)

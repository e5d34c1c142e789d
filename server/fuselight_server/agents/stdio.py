"""A server for agents on stdin and stdout, which ends with its client.

Invariant: stdout belongs to the protocol. Closed stdin, Ctrl-C and SIGTERM end the server and its workers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import BinaryIO, NoReturn

from fuselight_server.agents.protocol.conversation import AgentConversation
from fuselight_server.agents.protocol.lines import converse
from fuselight_server.agents.protocol.toolbox import Toolbox
from fuselight_server.base.interrupts import INTERRUPTED, STOPPED
from fuselight_server.base.pipes import ThreadedWriter, own_pipes

_LAST_WORDS = 2.0
"""Seconds that a client has to read the last messages."""


def serve(make_toolbox: Callable[[], Toolbox]) -> NoReturn:
    """Serve the client on stdin and stdout until it leaves, then end the process."""
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    stdin, stdout = own_pipes()
    code = 0
    try:
        asyncio.run(_serve(make_toolbox(), stdin, stdout))
    except KeyboardInterrupt:
        sys.stderr.write(STOPPED)
        code = INTERRUPTED
    sys.stderr.flush()
    os._exit(code)  # not sys.exit: a thread may still wait for stdin, and would be waited for


async def _serve(toolbox: Toolbox, stdin: BinaryIO, stdout: BinaryIO) -> None:
    writer = ThreadedWriter(stdout)
    conversation = AgentConversation(toolbox, writer.write)
    try:
        await converse(conversation, stdin)
    finally:
        await conversation.close()
        writer.drain(_LAST_WORDS)

"""Lines of a pipe, read in a thread: bounded, so that no client can fill the memory.

Invariant: a line that is too long costs that line alone.
"""

from __future__ import annotations

import asyncio
import threading
from typing import BinaryIO

from fuselight_server.agents.protocol.conversation import AgentConversation
from fuselight_server.agents.protocol.messages import MESSAGE_BYTES

_MAX_WAITING = 256
"""Lines that are read before they are taken: a client that sends faster waits."""
_TOO_LONG = f"skipped a line of more than {MESSAGE_BYTES:,} bytes"


def read_line(pipe: BinaryIO, most: int = MESSAGE_BYTES) -> bytes | None:
    """The next line; empty at the end of the pipe, None for one that is too long and is skipped."""
    line = pipe.readline(most + 1)
    if len(line) <= most or line.endswith(b"\n"):
        return line
    while (rest := pipe.readline(most)) and not rest.endswith(b"\n"):
        pass
    return None


async def converse(conversation: AgentConversation, pipe: BinaryIO) -> None:
    """Give a conversation the lines of a pipe until it ends."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_WAITING)

    def read() -> None:
        line: bytes | None = b"\n"
        while line != b"":
            try:
                line = read_line(pipe)
            except (OSError, ValueError):  # the pipe was closed
                line = b""
            try:
                asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
            except (RuntimeError, asyncio.CancelledError):  # the server ends
                return

    threading.Thread(target=read, name="reader", daemon=True).start()
    while (line := await lines.get()) != b"":
        if line is None:
            conversation.refuse(_TOO_LONG)
        else:
            conversation.receive(line)

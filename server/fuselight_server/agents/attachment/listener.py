"""Serves agents on a socket, in the loop of a process that does other work, too.

Invariant: nothing that a client sends ends another client's conversation or the process; a line that is too long costs
that line alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace

from fuselight.shared.owned_folders import new_folder
from fuselight_server.agents.attachment.addresses import PURPOSE, AgentAddress
from fuselight_server.agents.protocol.conversation import AgentConversation
from fuselight_server.agents.protocol.messages import MESSAGE_BYTES
from fuselight_server.agents.protocol.toolbox import Toolbox

_SECRET_SECONDS = 10.0
_TOO_LONG = f"skipped a line of more than {MESSAGE_BYTES:,} bytes"


class AgentListener:
    """The socket of one process, and the conversations on it."""

    def __init__(self, make_toolbox: Callable[[], Toolbox]) -> None:
        """`make_toolbox`: called for each connection, whose end closes the toolbox."""
        self._make_toolbox = make_toolbox
        self._server: asyncio.Server | None = None
        self._conversations: set[asyncio.Task[None]] = set()
        self.address: AgentAddress | None = None
        """Where it listens; None before `start` and after `close`."""

    async def start(self, workspace: Sequence[str], *, on_loopback: bool = False) -> AgentAddress:
        """Listen, and publish the address; once it listens, only the workspace changes. Raises OSError.

        `on_loopback`: on a port with a secret, as on systems without Unix sockets.
        """
        if self.address is None:
            self.address = await self._listen(on_loopback or not hasattr(socket, "AF_UNIX"))
        self.address = replace(self.address, workspace=tuple(workspace))
        self.address.write()
        return self.address

    async def close(self) -> None:
        """End all conversations, and stop listening."""
        server, address = self._server, self.address
        self._server = self.address = None
        if server is not None:
            server.close()
        for task in self._conversations:
            task.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)
        if address is not None:
            shutil.rmtree(address.folder, ignore_errors=True)

    async def _listen(self, on_loopback: bool) -> AgentAddress:  # noqa: FBT001 - private
        address = AgentAddress(new_folder(PURPOSE), ())
        if not on_loopback:
            with contextlib.suppress(
                OSError
            ):  # a path that is too long for a socket, or a file system without them
                self._server = await asyncio.start_unix_server(
                    self._serve, address.socket_path, limit=MESSAGE_BYTES
                )
                return address
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MESSAGE_BYTES)
        port = int(self._server.sockets[0].getsockname()[1])
        return replace(address, port=port, secret=secrets.token_urlsafe(32))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._conversations.add(task)
        try:
            if await self._is_known(reader):
                await self._converse(reader, writer)
        except (asyncio.CancelledError, OSError):
            pass  # the client is gone, or the process ends; asyncio would log it
        finally:
            writer.close()
            if task is not None:
                self._conversations.discard(task)

    async def _is_known(self, reader: asyncio.StreamReader) -> bool:
        address = self.address
        if address is None or not address.port:
            return address is not None
        try:
            line = await asyncio.wait_for(reader.readline(), _SECRET_SECONDS)
        except (ValueError, OSError, asyncio.TimeoutError):
            return False
        return hmac.compare_digest(line.strip(), address.secret.encode())

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = AgentConversation(self._make_toolbox(), writer.write)
        try:
            while (line := await _next_line(reader)) != b"":
                if line is None:
                    conversation.refuse(_TOO_LONG)
                else:
                    conversation.receive(line)
                await writer.drain()  # a client that does not read its answers is not read, either
        finally:
            await conversation.close()


async def _next_line(reader: asyncio.StreamReader) -> bytes | None:
    """The next line; empty at the end of the connection, None for one that is too long and is skipped."""
    is_too_long = False
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            is_too_long = True
            with contextlib.suppress(asyncio.IncompleteReadError):
                await reader.readexactly(error.consumed)
        except (asyncio.IncompleteReadError, OSError):  # an unfinished line has no reader any more
            return b""
        else:
            return None if is_too_long else line

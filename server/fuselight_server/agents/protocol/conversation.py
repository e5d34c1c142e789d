"""A conversation with one client: its requests, their answers, progress and cancellation.

Invariant: it does not know what carries its messages, nor what the tools do. Each request gets one answer, except one
that the client has canceled; nothing that a client sends ends the conversation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from fuselight.shared.version import version
from fuselight_server.agents.protocol.callers import ConversationCaller, InputRequiredError, OpenQuestions
from fuselight_server.agents.protocol.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Identity,
    MessageError,
    Notification,
    Request,
    Response,
    encode_line,
    error_message,
    read_message,
    result_message,
)
from fuselight_server.agents.protocol.revisions import (
    SERVER_KEY,
    STATELESS,
    ProtocolClient,
    client_of,
    greeted_client,
    meta_of,
)
from fuselight_server.agents.protocol.toolbox import Toolbox, ToolResult, UnknownToolError

_CAPABILITIES: dict[str, Any] = {"tools": {"listChanged": False}}
_MAX_REQUESTS = 64
"""Requests that are answered at the same time."""
_CACHED_MS = 3_600_000
"""How long a client may keep the list of tools."""


def _server_info() -> dict[str, str]:
    return {"name": "fuselight", "title": "Fuselight", "version": version()}


class AgentConversation:
    """What one client has asked, and what it is asked."""

    def __init__(self, toolbox: Toolbox, write: Callable[[bytes], None]) -> None:
        """`write` sends a line to the client; it may raise OSError once the client is gone."""
        self._toolbox = toolbox
        self._write = write
        self._greeted = ProtocolClient(is_stateless=False)
        self._running: dict[Identity, asyncio.Task[None]] = {}
        self._asked: dict[Identity, asyncio.Future[dict[str, Any] | None]] = {}
        self._questions = OpenQuestions()
        self._number = 0

    def receive(self, line: bytes) -> None:
        """Take a line of the client."""
        if not line.strip():
            return
        try:
            message = read_message(line)
            if isinstance(message, Request):
                self._start(message)
            elif isinstance(message, Notification):
                self._note(message)
            else:
                self._take_response(message)
        except MessageError as error:
            self._send(error_message(error))

    def refuse(self, why: str) -> None:
        """Answer what could not be read as a line."""
        self._send(error_message(MessageError(INVALID_REQUEST, why)))

    async def close(self) -> None:
        """End all requests and all work."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._toolbox.close()

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(
            OSError
        ):  # the client is gone; the end of its messages ends the conversation
            self._write(encode_line(message))

    # Messages of the client

    def _start(self, request: Request) -> None:
        identity = request.identity
        if identity in self._running:
            raise MessageError(INVALID_REQUEST, f"a request with the id {identity!r} is running", identity)
        if len(self._running) >= _MAX_REQUESTS:
            raise MessageError(INVALID_REQUEST, f"{_MAX_REQUESTS} requests are running already", identity)
        if request.method == "initialize":  # before what follows it on the pipe
            self._send(result_message(identity, self._greet(request.params)))
            return
        task = asyncio.get_running_loop().create_task(self._answer(request))
        self._running[identity] = task
        task.add_done_callback(lambda _task: self._running.pop(identity, None))

    def _note(self, notification: Notification) -> None:
        if notification.method == "notifications/cancelled":
            identity = notification.params.get("requestId")
            task = self._running.get(identity) if isinstance(identity, (str, int)) else None
            if task is not None:
                task.cancel()

    def _take_response(self, response: Response) -> None:
        waiting = self._asked.pop(response.identity, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(response.result)

    # Answers

    async def _answer(self, request: Request) -> None:
        identity = request.identity
        try:
            client = client_of(request.params, self._greeted)
            result = await self._result(request, client)
        except MessageError as error:
            error.identity = identity
            self._send(error_message(error))
        except InputRequiredError as error:
            self._send(result_message(identity, {"resultType": "input_required", **error.result}))
        except asyncio.CancelledError:
            raise  # by the client, which waits for no answer, or at the end
        except Exception as error:
            logging.getLogger(__name__).exception("%s failed", request.method)
            text = f"Fuselight failed: {type(error).__name__}: {error}"
            self._send(error_message(MessageError(INTERNAL_ERROR, text, identity)))
        else:
            self._send(result_message(identity, result))

    async def _result(self, request: Request, client: ProtocolClient) -> dict[str, Any]:
        if request.method == "ping":
            return {}
        if request.method == "server/discover":
            return self._discovered()
        if request.method == "tools/list":
            tools = {"tools": list(self._toolbox.descriptions())}
            return {**tools, **_cached()} if client.is_stateless else tools
        if request.method == "tools/call":
            return await self._called(request, client)
        raise MessageError(METHOD_NOT_FOUND, f"there is no method `{request.method}`")

    def _greet(self, params: dict[str, Any]) -> dict[str, Any]:
        revision, self._greeted = greeted_client(params)
        return {
            "protocolVersion": revision,
            "capabilities": _CAPABILITIES,
            "serverInfo": _server_info(),
            "instructions": self._toolbox.instructions,
        }

    def _discovered(self) -> dict[str, Any]:
        return {
            **_cached(),
            "supportedVersions": list(STATELESS),
            "capabilities": _CAPABILITIES,
            "instructions": self._toolbox.instructions,
            "_meta": {SERVER_KEY: _server_info()},
        }

    async def _called(self, request: Request, client: ProtocolClient) -> dict[str, Any]:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            raise MessageError(INVALID_PARAMS, "`name` is not the name of a tool")
        if arguments is not None and not isinstance(arguments, dict):
            raise MessageError(INVALID_PARAMS, "`arguments` is not an object")
        try:
            result = await self._toolbox.call(name, arguments or {}, self._caller(request, client))
        except UnknownToolError as error:
            raise MessageError(INVALID_PARAMS, str(error)) from None
        wire = _as_wire(result)
        return {"resultType": "complete", **wire} if client.is_stateless else wire

    def _caller(self, request: Request, client: ProtocolClient) -> ConversationCaller:
        token = meta_of(request.params).get("progressToken")
        is_token = isinstance(token, (str, int)) and not isinstance(token, bool)
        return ConversationCaller(
            client=client,
            params=request.params,
            notify=self._send,
            request=self._ask_client,
            questions=self._questions,
            progress_token=token if is_token else None,
        )

    async def _ask_client(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Send a request to the client, and wait for its answer."""
        self._number += 1
        identity = f"fuselight-{self._number}"
        answer: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._asked[identity] = answer
        try:
            self._send({"id": identity, "method": method, "params": params})
            return await answer
        finally:
            self._asked.pop(identity, None)


def _cached() -> dict[str, Any]:
    return {"resultType": "complete", "ttlMs": _CACHED_MS, "cacheScope": "private"}


def _as_wire(result: ToolResult) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "content": [{"type": "text", "text": result.text}],
        "isError": result.is_error,
    }
    return wire if result.data is None else {**wire, "structuredContent": result.data}

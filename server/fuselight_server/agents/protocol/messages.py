"""JSON-RPC 2.0 as the Model Context Protocol has it: one message on each line.

Invariant: what a client sends is a message or a `MessageError`, never another exception. What is sent can be read by
any JSON parser: some stop at a lone surrogate, which Python accepts.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fuselight.shared.foreign_data import parse_json

MESSAGE_BYTES = 16 * 1024 * 1024
"""The longest line that is read."""
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\ud[89a-f]")
"""In JSON that is ASCII: half of a character outside of the basic plane, or a lone surrogate."""

Identity: TypeAlias = "str | int"
"""What tells a request from others."""


class MessageError(Exception):
    """A request that cannot be answered, and the error that answers it."""

    def __init__(
        self, code: int, message: str, identity: Identity | None = None, data: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.identity = identity
        self.data = data


@dataclass(frozen=True)
class Request:
    """A message that is answered."""

    identity: Identity
    method: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Notification:
    """A message that is not answered."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Response:
    """The client's answer to a request of the server."""

    identity: Identity
    result: dict[str, Any] | None
    """None: the client answered with an error."""


Message: TypeAlias = "Request | Notification | Response"


def read_message(line: bytes) -> Message:
    """The message of a line. Raises MessageError."""
    if len(line) > MESSAGE_BYTES:
        raise MessageError(INVALID_REQUEST, f"the message is longer than {MESSAGE_BYTES:,} bytes")
    try:
        data = parse_json(line.decode())
    except (ValueError, RecursionError) as error:
        raise MessageError(PARSE_ERROR, f"the line is not JSON: {error}") from None
    if isinstance(data, list):
        raise MessageError(INVALID_REQUEST, "batches are not supported: send each message on its own line")
    if not isinstance(data, dict):
        raise MessageError(INVALID_REQUEST, "the message is not a JSON object")
    return _message(data)


def _message(data: dict[str, Any]) -> Message:
    identity = data.get("id")
    is_identity = isinstance(identity, (str, int)) and not isinstance(identity, bool)
    if isinstance(identity, str) and has_lone_surrogate(identity):  # it cannot be sent back
        raise MessageError(INVALID_REQUEST, "`id` has a lone surrogate, which is no text")
    known: Identity | None = identity if is_identity else None
    method, params = data.get("method"), data.get("params")
    if method is None and known is not None and ("result" in data or "error" in data):
        result = data.get("result")
        return Response(known, result if isinstance(result, dict) else None)
    if not isinstance(method, str):
        raise MessageError(INVALID_REQUEST, "the message has no `method`", known)
    if params is not None and not isinstance(params, dict):
        raise MessageError(INVALID_PARAMS, "`params` is not an object", known)
    if "id" not in data:
        return Notification(method, params or {})
    if known is None:
        raise MessageError(INVALID_REQUEST, "`id` is neither a string nor a whole number")
    return Request(known, method, params or {})


def result_message(identity: Identity, result: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    return {"id": identity, "result": result}


def error_message(error: MessageError) -> dict[str, Any]:
    """The error that answers a request; of a message whose id is not known, it has none."""
    data = {} if error.data is None else {"data": error.data}
    return {"id": error.identity, "error": {"code": error.code, "message": error.message, **data}}


def encode_line(message: dict[str, Any]) -> bytes:
    """The message as a line. Only ASCII, so that no client sees a line end where none is."""
    whole = {"jsonrpc": "2.0", **message}
    try:
        text = json.dumps(whole, allow_nan=False, separators=(",", ":"))
    except ValueError:  # JSON has no infinity
        text = json.dumps(_sendable(whole), allow_nan=False, separators=(",", ":"))
    if _ESCAPED_SURROGATE.search(text):
        text = json.dumps(_sendable(whole), allow_nan=False, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def has_lone_surrogate(text: str) -> bool:
    """Whether a text cannot be encoded: half of a character, or a byte of a file name that is no text."""
    return _LONE_SURROGATE.search(text) is not None


def _sendable(value: Any) -> Any:
    """The value with null for what is no number of JSON, and a replacement character for what is no text."""
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(item) for item in value]
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    return None if isinstance(value, float) and not math.isfinite(value) else value

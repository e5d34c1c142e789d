"""Fuselight's additions to LSP, and its changes to the protocol class of pygls.

Invariant: every request is answered, even one that cannot be read, and no answer carries a traceback or a link.
Parameters of custom methods are typed, because pygls turns untyped ones into namedtuples that lose keys.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import attrs
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest
from pygls.protocol import LanguageServerProtocol, lsp_method

from fuselight.shared.codec import encode
from fuselight.shared.foreign_data import MAX_DEPTH
from fuselight.shared.report.visible import visible, visible_json
from fuselight_server.editor.handlers.notebook_messages import CellMessages
from fuselight_server.editor.messages.params import (
    CloseJobParams,
    FolderParams,
    GraphsParams,
    JobParams,
    KernelDocumentParams,
    KernelLinesParams,
    KernelsAtParams,
    MeasuredExportParams,
    MeasuredParams,
    OpenJobParams,
    ReportTreeParams,
    TargetAtParams,
    TrustParams,
    TunedParams,
)

PREFIX = "fuselight/"
"""Of the methods that are no part of LSP."""
STATUS = "fuselight/status"
CONFIRM_RUN = "fuselight/confirmRun"
REPORT_CHANGED = "fuselight/reportChanged"
REPORT_TREE = "fuselight/reportTree"
TARGET_AT = "fuselight/targetAt"
KERNELS_AT = "fuselight/kernelsAt"
KERNEL_DOCUMENT = "fuselight/kernelDocument"
KERNEL_LINES = "fuselight/kernelLines"
GRAPHS = "fuselight/graphs"
MEASURED = "fuselight/measured"
MEASURED_EXPORT = "fuselight/measuredExport"
MEASURED_CHANGED = "fuselight/measuredChanged"
TUNED = "fuselight/tuned"
TUNED_CHANGED = "fuselight/tunedChanged"
DOCTOR = "fuselight/doctor"
TRUST = "fuselight/trust"
INTERPRETER_CHANGED = "fuselight/interpreterChanged"
LOOK_AGAIN = "fuselight/lookAgain"
PREVIEW_FIX = "fuselight/previewFix"
OPEN_JOB = "fuselight/openJob"
CLOSE_JOB = "fuselight/closeJob"
JOB = "fuselight/job"
JOBS_CHANGED = "fuselight/jobsChanged"
AGENT_ADDRESS = "fuselight/agentAddress"
NOTIFICATIONS = frozenset({STATUS, REPORT_CHANGED, MEASURED_CHANGED, TUNED_CHANGED, JOBS_CHANGED})
"""What the server sends without a request: to clients that ask for it at the start."""


def without_links(text: str) -> str:
    """Return text that a client shows as it is: VS Code makes links of `[words](command:...)` in its messages."""
    return visible(text).replace("](", "] (")


class Encoded:
    """A list in JSON, encoded piece by piece: at a stretch, a large one would hold up the event loop."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def extend(self, items: list[Any]) -> None:
        """Append `items`, which are of JSON's own types."""
        if items:
            self._pieces.append(json.dumps(items)[1:-1])

    @property
    def text(self) -> str:
        """The whole list; ASCII."""
        return f"[{', '.join(self._pieces)}]"


@dataclass(frozen=True)
class Written:
    """An answer that is JSON already."""

    text: str


_PIECES = 4
"""How deep a value is taken apart before it is encoded: the encoder lets no other thread run until it is done."""


def written(value: Any, depth: int = _PIECES) -> str:
    """Return JSON of a large value, in ASCII, made piece by piece: for a thread."""
    if isinstance(value, str):
        return json.dumps(visible(value))
    if depth and isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)}: {written(item, depth - 1)}' for key, item in value.items())}}}"
    if depth and isinstance(value, list):
        return f"[{', '.join(written(item, depth - 1) for item in value)}]"
    return visible_json(json.dumps(value))


def written_page(page: object) -> str:
    """Return JSON of a page, which is a dataclass: for a thread."""
    return written(encode(page))


def _message(method: str, params: type[Any], *, answered: bool = True) -> type[Any]:
    """Make the type of a message: a request, or a notification where nothing is answered."""
    number: Any = int | str
    identity = {"id": attrs.field(type=number)} if answered else {}
    fields = {
        "params": attrs.field(type=params),
        "method": attrs.field(type=str, default=method),
        "jsonrpc": attrs.field(type=str, default="2.0"),
    }
    return attrs.make_class(f"{params.__name__}Message", {**identity, **fields})


_OURS: dict[str, type[Any]] = {
    REPORT_TREE: _message(REPORT_TREE, ReportTreeParams),
    TARGET_AT: _message(TARGET_AT, TargetAtParams),
    KERNELS_AT: _message(KERNELS_AT, KernelsAtParams),
    KERNEL_DOCUMENT: _message(KERNEL_DOCUMENT, KernelDocumentParams),
    KERNEL_LINES: _message(KERNEL_LINES, KernelLinesParams),
    GRAPHS: _message(GRAPHS, GraphsParams),
    MEASURED: _message(MEASURED, MeasuredParams),
    MEASURED_EXPORT: _message(MEASURED_EXPORT, MeasuredExportParams),
    TUNED: _message(TUNED, TunedParams),
    DOCTOR: _message(DOCTOR, FolderParams),
    TRUST: _message(TRUST, TrustParams, answered=False),
    INTERPRETER_CHANGED: _message(INTERPRETER_CHANGED, FolderParams, answered=False),
    LOOK_AGAIN: _message(LOOK_AGAIN, FolderParams),
    OPEN_JOB: _message(OPEN_JOB, OpenJobParams),
    CLOSE_JOB: _message(CLOSE_JOB, CloseJobParams),
    JOB: _message(JOB, JobParams),
    AGENT_ADDRESS: _message(AGENT_ADDRESS, FolderParams),
}


def _left_to_feature(method: str) -> Any:
    """Make the handler of a notification that hands it to the feature and does nothing else."""

    def handle(self: Protocol, params: Any) -> Any:
        yield self.fm.features[method], (params,), None

    return lsp_method(method)(handle)


_NOT_INITIALIZED = -32002
"""The error code of LSP for a request before `initialize`."""
_INVALID_REQUEST, _INVALID_PARAMS = -32600, -32602
_SHOWN = 100
"""Characters of a method's name in an error."""


class Protocol(LanguageServerProtocol):
    """pygls' protocol with typed custom methods, short errors, and documents left to our own state."""

    _is_initialized = False
    cell_messages: CellMessages
    """Set by the server, before the first message."""

    def get_message_type(self, method: str) -> type[Any] | None:  # type: ignore[override]  # theirs is cached
        """Return the type of a message; responses stay with pygls."""
        return _OURS.get(method) or super().get_message_type(method)

    def _handle_cancel_notification(self, msg_id: Any) -> None:
        """Cancel a request; one that has been answered meanwhile needs no warning."""
        if msg_id in self._request_futures:
            super()._handle_cancel_notification(msg_id)

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Read a message. A request that cannot be read is answered with an error before the error goes on."""
        try:
            return super().structure_message(self.cell_messages.incoming(data))
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                self._send_response(data["id"], error=error.to_response_error())
            raise

    def handle_message(self, message: Any) -> None:
        """Answer a message; before `initialize`, a request gets an error and a notification nothing, but `exit`."""
        method = getattr(message, "method", None)
        if not hasattr(message, "jsonrpc"):
            raise JsonRpcInvalidRequest(message="it is no message of JSON-RPC 2.0")
        if method == types.INITIALIZE:
            self._is_initialized = True
        if self._shutdown and method not in {None, types.EXIT} and hasattr(message, "id"):
            text = f"`{str(method)[:_SHOWN]}` came after `shutdown`. Send `exit`"
            self._send_response(message.id, error=types.ResponseError(code=_INVALID_REQUEST, message=text))
        elif method is None or self._is_initialized or method == types.EXIT:
            super().handle_message(message)
        elif hasattr(message, "id"):
            text = f"`{str(method)[:_SHOWN]}` came before `initialize`. Send `initialize` first"
            self._send_response(message.id, error=types.ResponseError(code=_NOT_INITIALIZED, message=text))

    def refuse_deep(self, msg_id: int | str) -> None:
        """Answer a request that is nested too deeply to be parsed."""
        text = f"the parameters are nested more than {MAX_DEPTH} deep"
        self._send_response(msg_id, error=types.ResponseError(code=_INVALID_PARAMS, message=text))

    def _send_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        """Send an answer; an error goes without pygls' traceback, which belongs in the log."""
        if error is not None:
            error.data = None
            error.message = without_links(str(error.message))
        elif isinstance(result, (Encoded, Written)) and self.cell_messages.is_active:
            self._result_types.pop(msg_id, None)
            self._send_data({"id": msg_id, "jsonrpc": self.VERSION, "result": json.loads(result.text)})
            return
        elif isinstance(result, (Encoded, Written)):
            self._result_types.pop(msg_id, None)
            body = f'{{"id": {json.dumps(msg_id)}, "jsonrpc": "{self.VERSION}", "result": {result.text}}}'
            if self.writer is not None:
                self.writer.write(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
            return
        super()._send_response(msg_id, result, error)

    def _send_data(self, data: Any) -> None:
        """Send a message; one about a notebook as those of its cells."""
        if not self.cell_messages.is_active:
            super()._send_data(data)
            return
        message = json.loads(json.dumps(data, default=self._serialize_message))
        self.send_all(self.cell_messages.outgoing(message))

    def send_all(self, messages: list[Any]) -> None:
        """Send messages that are of JSON's own types, as they are."""
        for message in messages:
            super()._send_data(message)

    # pygls keeps its own copy of every document and applies each change to it, at a cost that grows with the file.
    # Ours are incremental (state.py), so these keep the order of events and nothing else. Of a canceled progress, pygls
    # would warn that it did not make the token.

    lsp_text_document__did_open = _left_to_feature(types.TEXT_DOCUMENT_DID_OPEN)
    lsp_text_document__did_change = _left_to_feature(types.TEXT_DOCUMENT_DID_CHANGE)
    lsp_text_document__did_close = _left_to_feature(types.TEXT_DOCUMENT_DID_CLOSE)
    lsp_notebook_document__did_open = _left_to_feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    lsp_notebook_document__did_change = _left_to_feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    lsp_notebook_document__did_close = _left_to_feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    lsp_work_done_progress_cancel = _left_to_feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)

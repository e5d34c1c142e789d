"""Editors by what they say at their start, from `tests/recordings/clients`, and what LSP lets a server send them.

Invariant: a message that a client's capabilities do not allow is named, whatever the client would do with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "recordings" / "clients"

_ALWAYS = frozenset(
    {
        *("$/progress", "window/logMessage", "window/showMessage", "window/showMessageRequest"),
        "textDocument/publishDiagnostics",
    }
)
_NEEDED = {
    "workspace/configuration": "workspace.configuration",
    "workspace/applyEdit": "workspace.applyEdit",
    "workspace/codeLens/refresh": "workspace.codeLens.refreshSupport",
    "workspace/inlayHint/refresh": "workspace.inlayHint.refreshSupport",
    "workspace/diagnostic/refresh": "workspace.diagnostics.refreshSupport",
    "workspace/textDocumentContent/refresh": "workspace.textDocumentContent",
    "window/workDoneProgress/create": "window.workDoneProgress",
    "window/showDocument": "window.showDocument.support",
}
_REGISTERED = {
    "workspace/didChangeWatchedFiles": "workspace.didChangeWatchedFiles.dynamicRegistration",
    "workspace/textDocumentContent": "workspace.textDocumentContent.dynamicRegistration",
}


@dataclass(frozen=True)
class RecordedClient:
    """What a client sends at its start, and what it answers when it is asked for settings."""

    name: str
    title: str
    source: str
    """Where the capabilities are from."""
    capabilities: Json
    options: Json | None = None
    configuration: Json = field(default_factory=dict)
    root_only: bool = False
    """Whether it names a root and no folders."""

    def has(self, path: str) -> bool:
        """Whether a capability is there, as `window.showDocument.support`."""
        value: Any = self.capabilities
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value is not None and value is not False

    def not_allowed(self, message: Json) -> str:
        """Why a message of the server must not be sent to this client; empty for one that may."""
        method = message.get("method")
        if method is None or method in _ALWAYS:
            return ""
        if method == "client/registerCapability":
            methods = [registration["method"] for registration in message["params"]["registrations"]]
            refused = [method for method in methods if not self.has(_REGISTERED[method])]
            return f"registration of {', '.join(refused)}" if refused else ""
        needed = _NEEDED.get(method)
        if needed is None:
            return f"`{method}` is no message that it knows"
        return "" if self.has(needed) else f"`{method}` without `{needed}`"


def recorded_clients() -> list[RecordedClient]:
    """All recorded clients, by name."""
    clients = []
    for path in sorted(FOLDER.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        clients.append(
            RecordedClient(
                path.stem,
                data["client"],
                data["source"],
                data["capabilities"],
                options=data.get("initializationOptions"),
                configuration=data.get("configuration", {}),
                root_only=data.get("rootOnly", False),
            )
        )
    return clients

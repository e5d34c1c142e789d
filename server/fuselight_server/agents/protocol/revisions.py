"""The revisions of the protocol, and what a request says of the client that sent it.

Invariant: the revision of a request is known from the request alone, or from the handshake before it. Each request of
2026-07-28 carries its revision and the client's capabilities; older clients send both once, in `initialize`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fuselight_server.agents.protocol.messages import UNSUPPORTED_VERSION, MessageError

STATELESS = ("2026-07-28",)
"""Revisions without a handshake."""
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions that begin with `initialize`, the newest first."""
_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = f"{_PREFIX}protocolVersion"
CAPABILITIES_KEY = f"{_PREFIX}clientCapabilities"
SERVER_KEY = f"{_PREFIX}serverInfo"


@dataclass(frozen=True)
class ProtocolClient:
    """What is known of the client that sent a request."""

    is_stateless: bool
    capabilities: dict[str, Any] = field(default_factory=dict)

    @property
    def can_ask(self) -> bool:
        """Whether it shows the user a form."""
        forms = self.capabilities.get("elicitation")
        return isinstance(forms, dict) and (not forms or "form" in forms)


def client_of(params: dict[str, Any], greeted: ProtocolClient) -> ProtocolClient:
    """The client of a request; `greeted`: that of the handshake. Raises MessageError for a revision of the future."""
    meta = meta_of(params)
    version = meta.get(VERSION_KEY)
    if version is None:
        return greeted
    if version not in STATELESS:
        requested = version if isinstance(version, str) else repr(version)
        raise MessageError(
            UNSUPPORTED_VERSION,
            f"the revision `{requested}` of the protocol is not supported without a handshake",
            data={"supported": list(STATELESS), "requested": requested},
        )
    return ProtocolClient(is_stateless=True, capabilities=_dictionary(meta.get(CAPABILITIES_KEY)))


def greeted_client(params: dict[str, Any]) -> tuple[str, ProtocolClient]:
    """The revision that answers `initialize`, and the client that asked: its own revision where it is known."""
    asked = params.get("protocolVersion")
    version = asked if asked in HANDSHAKE else HANDSHAKE[0]
    return str(version), ProtocolClient(
        is_stateless=False, capabilities=_dictionary(params.get("capabilities"))
    )


def meta_of(params: dict[str, Any]) -> dict[str, Any]:
    """The `_meta` of a request."""
    return _dictionary(params.get("_meta"))


def _dictionary(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

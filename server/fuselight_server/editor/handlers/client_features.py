"""Reads what a client can do, from its capabilities and its `initializationOptions`.

Invariant: a client that says nothing gets what LSP 3.0 has, and no message that only Fuselight knows. Options of
another type than expected count as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability

from fuselight_server.editor.handlers.protocol import NOTIFICATIONS, PREFIX
from fuselight_server.editor.messages.client_features import ClientFeatures
from fuselight_server.editor.results.lens_facts import SHOW_KERNEL

_RESOLVED = frozenset({"edit", "command"})
"""What choosing a fix fills in: its edit, or the command that goes on with its verification."""


def client_features(capabilities: types.ClientCapabilities, options: Mapping[str, Any]) -> ClientFeatures:
    """Decide what the client can do."""

    def can(name: str) -> bool:
        return bool(get_capability(capabilities, name))

    document = capabilities.text_document
    action = "text_document.code_action"
    properties = get_capability(capabilities, f"{action}.resolve_support.properties") or ()
    return ClientFeatures(
        push=document is None or document.publish_diagnostics is not None or document.diagnostic is None,
        configuration=can("workspace.configuration"),
        progress=can("window.work_done_progress"),
        lens_refresh=can("workspace.code_lens.refresh_support"),
        hint_refresh=can("workspace.inlay_hint.refresh_support"),
        watch=can("workspace.did_change_watched_files.dynamic_registration"),
        diagnostic_refresh=can("workspace.diagnostics.refresh_support"),
        confirm_run=options.get("confirmRun") is True,
        resolves_actions=can(f"{action}.data_support") and set(properties) >= _RESOLVED,
        actions=can(action),
        action_literals=can(f"{action}.code_action_literal_support"),
        markdown=_prefers_markdown(get_capability(capabilities, "text_document.hover.content_format")),
        applies_edits=can("workspace.apply_edit"),
        document_changes=can("workspace.workspace_edit.document_changes"),
        change_annotations=can("workspace.workspace_edit.change_annotation_support"),
        show_document=can("window.show_document.support"),
        text_content=can("workspace.text_document_content.dynamic_registration")
        and SHOW_KERNEL not in _names(options.get("clientCommands")),
        lenses=can("text_document.code_lens"),
        previews_fixes=options.get("previewFix") is True,
        disabled_actions=can(f"{action}.disabled_support"),
        text_lenses=options.get("textLenses") is True,
        long_commands=options.get("longCommands") is True,
        commands=_names(options.get("clientCommands")),
        notifications=_notifications(options.get("notifications"))
        | _notifications(_experimental(capabilities.experimental)),
    )


def _prefers_markdown(formats: Sequence[types.MarkupKind | str] | None) -> bool:
    """Whether Markdown is the first format of hovers; a client that names none gets it, too."""
    return not formats or formats[0] == types.MarkupKind.Markdown


def _names(value: object) -> frozenset[str]:
    items = value if isinstance(value, (list, tuple)) else ()
    return frozenset(item for item in items if isinstance(item, str))


def _notifications(asked: object) -> frozenset[str]:
    """`true` asks for all of them, a list for some: `status` or `fuselight/status`."""
    if asked is True:
        return NOTIFICATIONS
    return frozenset(f"{PREFIX}{name.removeprefix(PREFIX)}" for name in _names(asked)) & NOTIFICATIONS


def _experimental(value: object) -> object:
    """The `notifications` of `experimental.fuselight`."""
    for name in ("fuselight", "notifications"):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return value

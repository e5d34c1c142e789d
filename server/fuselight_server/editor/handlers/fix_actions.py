"""Fixes as code actions: what a menu shows of the fixes of some lines, and all exact fixes of a file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from lsprotocol import types

from fuselight.shared.report.visible import visible
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_target
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.results.target_lens import RUN
from fuselight_server.editor.session.fix_menu import FixMenu, MenuEntry
from fuselight_server.editor.session.fix_offers import FixOffer

FindingDiagnostic: TypeAlias = "tuple[Finding, types.Diagnostic]"
APPLY = "fuselight.server.applyFix"
APPLY_ALL = "fuselight.server.applyAllFixes"
FIX_ALL = "source.fixAll.fuselight"
"""Kind of the action that applies all exact fixes of a file."""


def menu_of(server: Server) -> FixMenu:
    """Return the fixes of the session as a menu shows them."""
    return FixMenu(server.state, server.analysis.fixes, server.analysis.permissions.runs_on_request)


async def fix_actions(
    server: Server, document: Document, params: types.CodeActionParams, shown: Sequence[FindingDiagnostic]
) -> list[types.CodeAction]:
    """Offer the fixes of the lines; a run where none can be chosen because a target has changed."""
    menu, is_menu = menu_of(server), not _is_automatic(params)
    first, last = params.range.start.line + 1, params.range.end.line + 1
    entries = await menu.entries(document.path, first, last, is_menu=is_menu)
    actions = [_action(server, menu, entry, shown) for entry in entries]
    if any(entry.offer is not None for entry in entries):
        return actions
    runs = server.analysis.runs
    active = {*runs.in_flight, *runs.queue.waiting}
    for name, key, findings in menu.outdated(document.path, (finding for finding, _ in shown), active):
        given = {"uri": server.uri_of(key.path), "target": name}
        words = format_target(name)
        command = types.Command(title=f"Run {words}", command=RUN, arguments=[given])
        title = f"Run {words} to look for fixes: its code has changed since the last run"
        mine = [diagnostic for finding, diagnostic in shown if finding in findings]
        kind = types.CodeActionKind.QuickFix
        actions.append(types.CodeAction(title=title, kind=kind, diagnostics=mine, command=command))
    return actions


def _action(
    server: Server, menu: FixMenu, entry: MenuEntry, shown: Collection[FindingDiagnostic]
) -> types.CodeAction:
    """An action that is resolved to an edit, or else a command that verifies and applies, or cannot be chosen."""
    # The diagnostics of the finding, of all targets that have it.
    same = [
        diagnostic
        for known, diagnostic in shown
        if known.identity_in_target == entry.finding.identity_in_target
    ]
    action = types.CodeAction(
        title=visible(entry.title), kind=types.CodeActionKind.QuickFix, diagnostics=same or None
    )
    action.is_preferred = entry.is_preferred or None
    if entry.offer is None:
        action.disabled = types.CodeActionDisabled(reason=visible(entry.reason))
    elif entry.is_resolved:
        action.data = _argument(server, entry.offer)
    else:
        action.command = command_of(server, menu, entry.offer)
    return action


def _argument(server: Server, offer: FixOffer) -> dict[str, str]:
    return {"uri": server.uri_of(offer.key.path), "fix": offer.id}


def command_of(server: Server, menu: FixMenu, offer: FixOffer) -> types.Command:
    """Return the command that verifies a fix, for as long as that takes, and applies it."""
    return types.Command(menu.verify_title(offer), APPLY, arguments=[_argument(server, offer)])


def _is_automatic(params: types.CodeActionParams) -> bool:
    return params.context.trigger_kind is types.CodeActionTriggerKind.Automatic


async def fix_all_action(
    server: Server, document: Document, params: types.CodeActionParams
) -> list[types.CodeAction]:
    """Offer to apply all exact fixes of a file, where there may be one."""
    if not await menu_of(server).may_fix_all(document.path, document.source.line_count):
        return []
    action = types.CodeAction(title="Apply all exact fixes that pass verification", kind=FIX_ALL)
    data = {"uri": document.uri, "all": "on save" if _is_automatic(params) else "asked"}
    if server.state.client.resolves_actions:
        action.data = data
    else:
        action.command = types.Command(title=action.title, command=APPLY_ALL, arguments=[data])
    return [action]

"""Verified fixes as code actions: what a menu shows of them, resolved to an edit, or applied later by a command.

Invariant: an edit leaves this module only for a fix that `FixMenu` lets pass; each file of it carries its version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fuselight.shared.report.visible import visible
from fuselight_server.editor.handlers.protocol import PREVIEW_FIX
from fuselight_server.editor.presenters.text_edits import previewed_file, workspace_edit
from fuselight_server.editor.results.target_lens import RUN
from fuselight_server.editor.session.fix_menu import CHANGED, FixMenu, title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from fuselight_server.base.finding import Finding
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.messages.answers import FixPreview
    from fuselight_server.editor.results.snapshot import Document
    from fuselight_server.editor.session.fix_menu import MenuEntry
    from fuselight_server.editor.session.fix_offers import FixOffer
    from fuselight_server.fixes.verification.attempts import Attempt

FindingDiagnostic: TypeAlias = "tuple[Finding, types.Diagnostic]"
APPLY = "fuselight.server.applyFix"
APPLY_ALL = "fuselight.server.applyAllFixes"
FIX_ALL = "source.fixAll.fuselight"
"""Kind of the action that applies all exact fixes of a file."""
_RESOLVE_SECONDS = 5.0
"""How long a chosen fix may take before its verification goes on as a command."""


def _menu(server: Server) -> FixMenu:
    return FixMenu(server.state, server.analysis.fixes)


async def fix_actions(
    server: Server, document: Document, params: types.CodeActionParams, shown: Sequence[FindingDiagnostic]
) -> list[types.CodeAction]:
    """Offer the fixes of the lines; a run where none can be chosen because a target has changed."""
    menu, is_menu = _menu(server), not _is_automatic(params)
    first, last = params.range.start.line + 1, params.range.end.line + 1
    entries = await menu.entries(document.path, first, last, is_menu=is_menu)
    actions = [_action(server, menu, entry, shown) for entry in entries]
    if any(entry.offer is not None for entry in entries):
        return actions
    runs = server.analysis.runs
    active = {*runs.in_flight, *runs.queue.waiting}
    for name, key, findings in menu.outdated(document.path, (finding for finding, _ in shown), active):
        given = {"uri": server.uri_of(key.path), "target": name}
        command = types.Command(title=f"Run {name}", command=RUN, arguments=[given])
        title = f"Run {name} to look for fixes: its code has changed since the last run"
        mine = [diagnostic for finding, diagnostic in shown if finding in findings]
        kind = types.CodeActionKind.QuickFix
        actions.append(types.CodeAction(title=title, kind=kind, diagnostics=mine, command=command))
    return actions


def _action(
    server: Server, menu: FixMenu, entry: MenuEntry, shown: Collection[FindingDiagnostic]
) -> types.CodeAction:
    """An action that is resolved to an edit, or else a command that verifies and applies, or cannot be chosen."""
    # The diagnostics of the finding, of all targets that have it.
    same = [diagnostic for known, diagnostic in shown if known.place == entry.finding.place]
    action = types.CodeAction(
        title=visible(entry.title), kind=types.CodeActionKind.QuickFix, diagnostics=same or None
    )
    action.is_preferred = entry.is_preferred or None
    if entry.offer is None:
        action.disabled = types.CodeActionDisabled(reason=visible(entry.reason))
    elif entry.is_resolved:
        action.data = _argument(server, entry.offer)
    else:
        action.command = _command(server, menu, entry.offer)
    return action


def _argument(server: Server, offer: FixOffer) -> dict[str, str]:
    return {"uri": server.uri_of(offer.key.path), "fix": offer.id}


def _command(server: Server, menu: FixMenu, offer: FixOffer) -> types.Command:
    return types.Command(menu.verify_title(offer), APPLY, arguments=[_argument(server, offer)])


def _is_automatic(params: types.CodeActionParams) -> bool:
    return params.context.trigger_kind is types.CodeActionTriggerKind.Automatic


async def resolve(server: Server, action: types.CodeAction) -> types.CodeAction:
    """Answer `codeAction/resolve`: the edit of a fix that passes within the budget, else a command that goes on."""
    data = action.data if isinstance(action.data, dict) else {}
    if data.get("all") is not None:
        return await _resolve_all(server, action, data)
    # An editor asks about each entry without an edit, also about one of a command.
    if data.get("fix") is None:
        return action
    menu = _menu(server)
    offer = menu.fixes.offers.current(str(data["fix"]))
    if offer is None:
        action.command = types.Command(title="Verify and apply", command=APPLY, arguments=[data])
        return action
    attempt = await menu.passed_within(offer, _RESOLVE_SECONDS)
    if attempt is not None:
        action.edit = _edit_of(server, offer, attempt)
    else:
        action.command = _command(server, menu, offer)
    return action


async def apply_fix(server: Server, options: dict[str, Any]) -> None:
    """Verify a fix, for as long as that takes, and apply it if it passes. Says why it is not applied."""
    menu, fixes = _menu(server), server.analysis.fixes
    offer = fixes.offers.current(str(options.get("fix")))
    if offer is None:
        server.ui.say(CHANGED, error=False)
        return
    attempt = fixes.attempts.known(offer)
    if attempt is None or attempt.is_checking:
        if not fixes.may_verify(offer, automatic=False):
            if server.analysis.verification_runs.agrees(offer.key, _again(server, apply_fix, options)):
                server.ui.say(CHANGED, error=False)  # its target is gone
            return
        attempt = await fixes.verify(offer)
    refusal = menu.refusal(offer, attempt)
    if attempt is None or refusal:
        server.ui.say(refusal, error=False)
    elif menu.asks_for_preview(offer):
        await _preview(server, offer, attempt)
    else:
        await apply_workspace_edit(server, title_of(attempt), _edit_of(server, offer, attempt))


def _again(
    server: Server,
    command: Callable[[Server, dict[str, Any]], Coroutine[Any, Any, None]],
    options: dict[str, Any],
) -> Callable[[], None]:
    """Go on with a command once the user has agreed to runs."""
    return lambda: server.spawn(command(server, options), "applying a fix")


async def _preview(server: Server, offer: FixOffer, attempt: Attempt) -> None:
    """Let the client show a fix and apply it; says why it was not applied, unless the user has discarded it."""
    label, view = title_of(attempt), server.view
    documents = [
        previewed_file(path, offer.before[path], new, view, _version_of(server, path))
        for path, new in offer.remedy.texts.items()
    ]
    preview: FixPreview = {"label": label, "documents": documents}
    answer = await server.protocol.send_request_async(PREVIEW_FIX, preview)
    problem = answer.get("problem") if isinstance(answer, dict) else getattr(answer, "problem", None)
    if problem:
        server.ui.say(f"`{label}` was not applied: {problem}.", error=False)


async def apply_workspace_edit(server: Server, label: str, edit: types.WorkspaceEdit) -> None:
    """Have the client apply an edit; says why it was not applied."""
    if not server.state.client.applies_edits:
        server.ui.say(f"`{label}` was not applied: this editor applies no edits of a server.", error=False)
        return
    params = types.ApplyWorkspaceEditParams(edit=edit, label=label)
    try:
        answer = await server.workspace_apply_edit_async(params)
    except JsonRpcException as error:  # as Emacs answers where the user says no
        server.ui.say(f"`{label}` was not applied: {error.message}.", error=False)
        return
    if not answer.applied:
        server.ui.say(
            f"`{label}` was not applied: {answer.failure_reason or 'the file has changed'}.", error=False
        )


async def fix_all_action(
    server: Server, document: Document, params: types.CodeActionParams
) -> list[types.CodeAction]:
    """Offer to apply all exact fixes of a file, where there may be one."""
    if not await _menu(server).may_fix_all(document.path, document.source.line_count):
        return []
    action = types.CodeAction(title="Apply all exact fixes that pass verification", kind=FIX_ALL)
    data = {"uri": document.uri, "all": "on save" if _is_automatic(params) else "asked"}
    if server.state.client.resolves_actions:
        action.data = data
    else:
        action.command = types.Command(title=action.title, command=APPLY_ALL, arguments=[data])
    return [action]


async def _resolve_all(server: Server, action: types.CodeAction, data: dict[str, Any]) -> types.CodeAction:
    """Fill in the edit. A save that has waited for the whole budget gets none: the next one may."""
    document = server.state.documents.get(str(data.get("uri")))
    is_automatic = data["all"] == "on save"
    menu, verified = _menu(server), None
    if document is not None:
        verified = await menu.fixes.verify_all(document.path, _RESOLVE_SECONDS, automatic=is_automatic)
    if verified is not None and not menu.refusal_of_all(verified):
        action.edit = _edit(server, verified.before, verified.after)
    elif not is_automatic:
        action.command = types.Command(title=action.title, command=APPLY_ALL, arguments=[data])
    return action


async def apply_all(server: Server, options: dict[str, Any]) -> None:
    """Verify all exact fixes of a file, one on top of the other, and apply those that pass as one edit."""
    document = server.state.documents.get(str(options.get("uri")))
    if document is None:
        return
    menu = _menu(server)
    blocked = menu.fixes.not_allowed(document.path)
    if blocked is not None:
        server.analysis.verification_runs.agrees(blocked, _again(server, apply_all, options))
        return
    verified = await menu.fixes.verify_all(document.path)
    refusal = menu.refusal_of_all(verified)
    if verified is None or refusal:
        server.ui.say(refusal, error=False)
        return
    titles = ", ".join(dict.fromkeys(attempt.remedy.title for attempt in verified.attempts))
    await apply_workspace_edit(server, titles, _edit(server, verified.before, verified.after))


def _edit_of(server: Server, offer: FixOffer, attempt: Attempt) -> types.WorkspaceEdit:
    confirms = _menu(server).needs_preview(offer)
    return _edit(server, offer.before, offer.remedy.texts, label=title_of(attempt), confirms=confirms)


def _edit(
    server: Server,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    label: str = "",
    confirms: bool = False,
) -> types.WorkspaceEdit:
    def version_of(path: str) -> int | None:
        return _version_of(server, path)

    client = server.state.client
    return workspace_edit(before, after, server.view, client, version_of, label=label, confirms=confirms)


def _version_of(server: Server, path: str) -> int | None:
    document = server.state.at(path)
    return document.version if document is not None else None


COMMANDS: dict[str, Callable[[Server, dict[str, Any]], Any]] = {APPLY: apply_fix, APPLY_ALL: apply_all}

"""Fixes that were chosen: resolved to an edit, or verified by a command, and applied.

Invariant: an edit leaves this module only for a fix that `FixMenu` lets pass; each file of it carries its version.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fuselight_server.editor.handlers.fix_actions import APPLY, APPLY_ALL, command_of, menu_of
from fuselight_server.editor.handlers.protocol import PREVIEW_FIX
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.answers import FixPreview
from fuselight_server.editor.presenters.text_edits import previewed_file, workspace_edit
from fuselight_server.editor.session.fix_menu import CHANGED, title_of
from fuselight_server.editor.session.fix_offers import FixOffer
from fuselight_server.editor.session.verifications import announced
from fuselight_server.fixes.verification.attempts import Attempt

_RESOLVE_SECONDS = 5.0
"""How long a chosen fix may take before its verification goes on as a command."""


async def resolve(server: Server, action: types.CodeAction) -> types.CodeAction:
    """Answer `codeAction/resolve`: the edit of a fix that passes within the budget, else a command that goes on."""
    data = action.data if isinstance(action.data, dict) else {}
    if data.get("all") is not None:
        return await _resolve_all(server, action, data)
    # An editor asks about each entry without an edit, also about one of a command.
    if data.get("fix") is None:
        return action
    menu = menu_of(server)
    offer = menu.fixes.offers.current(str(data["fix"]))
    if offer is None:
        action.command = types.Command(title="Verify and apply", command=APPLY, arguments=[data])
        return action
    attempt = await menu.passed_within(offer, _RESOLVE_SECONDS)
    if attempt is not None:
        action.edit = _edit_of(server, offer, attempt)
    else:
        action.command = command_of(server, menu, offer)
    return action


async def apply_fix(server: Server, options: dict[str, Any]) -> None:
    """Verify a fix, for as long as that takes, and apply it if it passes. Says why it is not applied."""
    menu, fixes = menu_of(server), server.analysis.fixes
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
        text = f"`{offer.remedy.title}` is still compared with the present code. It is applied if it passes."
        attempt = await announced(server.ui, text, fixes.verify(offer))
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
        previewed_file(path, offer.before[path], new, view, version_of(server, path))
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


async def _resolve_all(server: Server, action: types.CodeAction, data: dict[str, Any]) -> types.CodeAction:
    """Fill in the edit. A save that has waited for the whole budget gets none: the next one may."""
    document = server.state.documents.get(str(data.get("uri")))
    is_automatic = data["all"] == "on save"
    menu, verified = menu_of(server), None
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
    menu = menu_of(server)
    blocked = menu.fixes.not_allowed(document.path)
    if blocked is not None:
        server.analysis.verification_runs.agrees(blocked, _again(server, apply_all, options))
        return
    text = "The fixes of the file are still compared with the present code. Those that pass are applied."
    verified = await announced(server.ui, text, menu.fixes.verify_all(document.path))
    refusal = menu.refusal_of_all(verified)
    if verified is None or refusal:
        server.ui.say(refusal, error=False)
        return
    titles = ", ".join(dict.fromkeys(attempt.remedy.title for attempt in verified.attempts))
    await apply_workspace_edit(server, titles, _edit(server, verified.before, verified.after))


def _edit_of(server: Server, offer: FixOffer, attempt: Attempt) -> types.WorkspaceEdit:
    confirms = menu_of(server).needs_preview(offer)
    return _edit(server, offer.before, offer.remedy.texts, label=title_of(attempt), confirms=confirms)


def _edit(
    server: Server,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    label: str = "",
    confirms: bool = False,
) -> types.WorkspaceEdit:
    client, versions = server.state.client, functools.partial(version_of, server)
    return workspace_edit(before, after, server.view, client, versions, label=label, confirms=confirms)


def version_of(server: Server, path: str) -> int | None:
    """The version of an open file; None for one that is not open."""
    document = server.state.documents.at(path)
    return document.version if document is not None else None


COMMANDS: dict[str, Callable[[Server, dict[str, Any]], Any]] = {APPLY: apply_fix, APPLY_ALL: apply_all}

"""Quick fixes: verified fixes, inputs to insert, captured calls as directives, dynamic dimensions, ignores, pages.

Invariant: an action is offered only with an edit that applies to the current text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lsprotocol import types

from fuselight.shared.report.visible import visible
from fuselight_server.base.finding import Finding
from fuselight_server.editor.handlers.code_lens import lenses_on
from fuselight_server.editor.handlers.fix_actions import FIX_ALL, fix_actions, fix_all_action
from fuselight_server.editor.handlers.fix_commands import apply_workspace_edit
from fuselight_server.editor.handlers.inputs import input_actions
from fuselight_server.editor.handlers.memory_actions import memory_actions
from fuselight_server.editor.handlers.repro import repro_actions
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.client_commands import OPEN_PAGE, command_for
from fuselight_server.editor.results.input_lines import target_named
from fuselight_server.editor.results.quick_edits import (
    QuickEdit,
    captured_calls,
    fastest_configurations,
    quick_edits,
)
from fuselight_server.editor.results.shown_findings import address, shown_findings
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.fix_offers import is_on

Answer = list[types.CodeAction | types.Command]
RUN_KIND = "source.fuselight"
"""Kind of the actions that stand for lenses."""
APPLY_EDIT = "fuselight.server.applyEdit"


async def code_action(server: Server, params: types.CodeActionParams) -> Answer | None:
    """Answer `textDocument/codeAction`. A client that takes commands alone gets those."""
    actions = await _code_actions(server, params)
    if actions is None:
        return None
    if server.state.client.action_literals:
        return [*actions]
    return [command for action in actions if (command := _as_command(server, action)) is not None]


def _as_command(server: Server, action: types.CodeAction) -> types.Command | None:
    """Return the command that does what an action does; None for one that cannot be chosen."""
    if action.disabled is not None:
        return None
    if action.edit is None:
        command = action.command
        return types.Command(action.title, command.command, arguments=command.arguments) if command else None
    edit = server.protocol._converter.unstructure(action.edit)  # noqa: SLF001 - pygls has no public one
    return types.Command(action.title, APPLY_EDIT, arguments=[{"label": action.title, "edit": edit}])


async def apply_edit(server: Server, options: dict[str, Any]) -> None:
    """Have the client apply an edit that it was offered; anything else is ignored."""
    try:
        edit = server.protocol._converter.structure(options.get("edit"), types.WorkspaceEdit)  # noqa: SLF001 - as above
    except Exception:  # noqa: BLE001 - the converter raises groups of any kind
        return
    await apply_workspace_edit(server, str(options.get("label") or ""), edit)


async def _lens_actions(server: Server, uri: str, first: int, last: int) -> list[types.CodeAction]:
    """What the lenses of some lines run, for a client that shows no lenses."""
    if server.state.client.lenses:
        return []
    return [
        types.CodeAction(
            title=f"Fuselight: {shown['command']['title']}",
            kind=RUN_KIND,
            command=types.Command(**shown["command"]),
        )
        for shown in await lenses_on(server, uri, first, last)
    ]


async def _code_actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction] | None:
    """Make the actions of some lines."""
    document = server.state.documents.get(params.text_document.uri)
    if document is None:
        return None
    await document.source.read()
    only = params.context.only or ()
    # Without `only` a client asks for everything on the lines, and the fix of a whole file belongs to none of them.
    all_fixes = await fix_all_action(server, document, params) if _wants(FIX_ALL, only) else []
    first, last = params.range.start.line + 1, params.range.end.line + 1
    uri = params.text_document.uri
    runs = (
        await _lens_actions(server, uri, first - 1, last - 1) if _wants(RUN_KIND, only or (RUN_KIND,)) else []
    )
    if only and not _wants(types.CodeActionKind.QuickFix.value, only):
        return [*all_fixes, *runs] or None
    actions: list[types.CodeAction] = []
    here: list[tuple[Finding, types.Diagnostic]] = []
    for listed in shown_findings(server.state.view(), document.path):
        finding = listed.finding
        if is_on(finding, document.path, first, last):
            shown = convert.shown_diagnostic(listed, server.view)
            if listed.is_of_run:
                actions += _actions(server, document, finding, shown)
            elif all(finding.code != known.code for known, _ in here):
                actions += _page_actions(server, finding, shown)
            here.append((finding, shown))
    verified = await fix_actions(server, document, params, here)
    view = server.state.view()
    captured = [_edit_action(server, edit) for edit in captured_calls(view, document, first, last)]
    fastest = [_edit_action(server, edit) for edit in fastest_configurations(view, document, first, last)]
    needing_less = memory_actions(server, document, first, last)
    return [*all_fixes, *verified, *actions, *captured, *fastest, *needing_less, *runs]


def _wants(kind: str, only: Sequence[str]) -> bool:
    """Whether a request for kinds is for `kind`: `source` is for `source.fixAll.fuselight`, too."""
    return any(f"{kind}.".startswith(f"{text}.") for text in only)


def _actions(
    server: Server, document: Document, finding: Finding, shown: types.Diagnostic
) -> Iterator[types.CodeAction]:
    if "insert_inputs" in finding.fixes:
        target = target_named(document, dict(finding.data).get("target"))
        if target is not None:
            yield from input_actions(server, document, target, shown)
    for edit in quick_edits(server.state.view(), document, finding):
        yield _edit_action(server, edit, shown)
    yield from repro_actions(server, finding, shown)
    yield from _page_actions(server, finding, shown)


def _page_actions(server: Server, finding: Finding, shown: types.Diagnostic) -> Iterator[types.CodeAction]:
    page = address(finding)
    if page is not None:
        client = server.state.client
        given = page if OPEN_PAGE in client.commands else {"address": page}
        yield types.CodeAction(
            title=f"Open the page of {finding.code}",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[shown],
            command=types.Command(
                title="Open the page", command=command_for(OPEN_PAGE, client), arguments=[given]
            ),
        )


def _edit_action(server: Server, edit: QuickEdit, shown: types.Diagnostic | None = None) -> types.CodeAction:
    changes: dict[str, list[types.TextEdit]] = {}
    for change in edit.edits:
        place = convert.range_(change.span, server.view)
        changes.setdefault(server.uri_of(change.span.path), []).append(
            types.TextEdit(range=place, new_text=change.new_text)
        )
    return types.CodeAction(
        title=visible(edit.title),
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[shown] if shown is not None else None,
        edit=types.WorkspaceEdit(changes=changes),
        is_preferred=edit.is_preferred or None,
    )


COMMANDS = {APPLY_EDIT: apply_edit}

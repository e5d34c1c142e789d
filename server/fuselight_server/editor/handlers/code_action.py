"""Quick fixes: verified fixes, inputs to insert, captured calls as directives, dynamic dimensions, ignores, pages.

Invariant: an action is offered only with an edit that applies to the current text. The libraries that make edits are
imported at the first request, not at the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fuselight.shared.report.visible import visible
from fuselight_server.base.formatting import format_count
from fuselight_server.base.store import recorded_calls
from fuselight_server.editor.handlers.code_lens import lenses_on
from fuselight_server.editor.handlers.fix_actions import (
    FIX_ALL,
    apply_workspace_edit,
    fix_actions,
    fix_all_action,
    run_actions,
)
from fuselight_server.editor.handlers.inputs import input_actions
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.client_commands import OPEN_PAGE, command_for
from fuselight_server.editor.results.shown_findings import address, shown_findings
from fuselight_server.editor.session.fix_offers import is_on
from fuselight_server.source.document import read_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight_server.base.finding import Finding
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.results.snapshot import Document
    from fuselight_server.source.edits import TextEdit

_CALLS = 3
"""Captured calls that become directives."""


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
    if all(action.disabled is not None for action in verified):
        verified += run_actions(server, document, here)
    return [*all_fixes, *verified, *actions, *_captured(server, document, first, last), *runs]


def _wants(kind: str, only: Sequence[str]) -> bool:
    """Whether a request for kinds is for `kind`: `source` is for `source.fixAll.fuselight`, too."""
    return any(f"{kind}.".startswith(f"{text}.") for text in only)


def _actions(
    server: Server, document: Document, finding: Finding, shown: types.Diagnostic
) -> Iterator[types.CodeAction]:
    from fuselight_server.source import edits  # noqa: PLC0415 - LibCST: 8 MB and 60 ms that a start need not pay

    data = dict(finding.data)
    text = document.source.text
    if "insert_inputs" in finding.fixes:
        target = next(
            (
                static_target
                for static_target in document.reading().targets
                if static_target.name == data.get("target")
            ),
            None,
        )
        if target is not None:
            yield from input_actions(server, document, target, shown)
    if "mark_dynamic" in finding.fixes:
        values = [value for key, value in finding.data if key in {"parameter", "dimension"}]
        sizes = list(zip(values[::2], values[1::2], strict=False))  # the parameter and the dimension of each
        title = f"Mark {' and '.join(f'dimension {size} of {name}' for name, size in sizes)} as dynamic"
        yield from _edit(server, title, _mark_dynamic(server, finding, sizes), shown, preferred=True)
    if "move_directive" in finding.fixes:
        text_edits = edits.move_directive(document.path, text, finding.span.line, int(data["above"]))
        yield from _edit(
            server, f"Move this directive above line {data['above']}", text_edits, shown, preferred=True
        )
    if "remove_ignore" in finding.fixes:
        text_edits = edits.remove_ignore(document.path, text, finding.span.line, data.get("code"))
        yield from _edit(server, "Remove this ignore comment", text_edits, shown, preferred=True)
    elif finding.code not in {"FL501", "FL502"}:
        text_edits = edits.insert_ignore(document.path, text, finding.span.line, finding.code)
        more = f" and {format_count(len(finding.also_at), 'more place')}" if finding.also_at else ""
        yield from _edit(server, f"Ignore {finding.code} on this line{more}", text_edits, shown)
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


def _captured(server: Server, document: Document, first: int, last: int) -> Iterator[types.CodeAction]:
    """Make the calls of a target that a run of a program captured into directives above it."""
    from fuselight_server.source import edits  # noqa: PLC0415 - as above

    for target in document.reading().targets:
        if target.directives or not first <= target.name_span.line <= last:
            continue
        calls = dict.fromkeys(
            call
            for result in server.state.captures.values()
            for call in recorded_calls(result.report, document.path).get(target.name, ())
        )
        text_edits = edits.insert_directives(document.source.text, target, list(calls)[:_CALLS])
        shown = "the captured call" if len(calls) == 1 else f"{min(len(calls), _CALLS)} captured calls"
        yield from _edit(server, f"Write {shown} of {target.name} as a directive", text_edits)


def _mark_dynamic(server: Server, finding: Finding, sizes: list[tuple[str, str]]) -> list[TextEdit]:
    """Make the edits at the call that brought the new sizes: all, or none where an argument is no plain name."""
    from fuselight_server.source import edits  # noqa: PLC0415 - as above

    if not finding.related or not all(size.isdigit() for _, size in sizes):
        return []
    call = finding.related[0].span
    document = server.state.at(call.path)
    if document is None:
        return []
    owner = server.state.at(finding.span.path)
    reading = owner.reading() if owner else read_source(finding.span.path, "")
    target = next(
        (static_target for static_target in reading.targets if static_target.name == finding.target), None
    )
    entries: dict[TextEdit, None] = {}  # an import that both need is made once
    for name, size in sizes:
        text_edits = edits.insert_mark_dynamic(
            call.path,
            document.source.text,
            call.line,
            parameter=name,
            dimension=int(size),
            parameters=target.parameters if target else tuple(name for name, _ in sizes),
            callee=target.name.rpartition(".")[2] if target and target.kind != "module" else None,
            column=call.column,
            end_column=call.end_column,
        )
        if not text_edits:
            return []
        entries |= dict.fromkeys(text_edits)
    return list(entries)


def _edit(
    server: Server,
    title: str,
    edits: list[TextEdit],
    shown: types.Diagnostic | None = None,
    *,
    preferred: bool = False,
) -> Iterator[types.CodeAction]:
    if not edits:
        return
    changes: dict[str, list[types.TextEdit]] = {}
    for edit in edits:
        place = convert.range_(edit.span, server.view)
        changes.setdefault(server.uri_of(edit.span.path), []).append(
            types.TextEdit(range=place, new_text=edit.new_text)
        )
    yield types.CodeAction(
        title=visible(title),
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[shown] if shown is not None else None,
        edit=types.WorkspaceEdit(changes=changes),
        is_preferred=preferred or None,
    )


COMMANDS = {APPLY_EDIT: apply_edit}

"""Inputs for a target without any: those of a program of the workspace, or a new directive whose shape is selected.

Invariant: a program runs only after the question about it, and only if it was found for this target. A directive is
inserted as a plain edit where the client cannot select text.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fuselight_server.base.formatting import format_target
from fuselight_server.editor.handlers.commands import path_in
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.input_lines import inputs_edits, target_named
from fuselight_server.editor.results.lens_facts import ADD_INPUTS, USE_INPUTS
from fuselight_server.execution.runs.keys import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.results.snapshot import Document
    from fuselight_server.source.edits import TextEdit
    from fuselight_server.source.reading import StaticTarget

SELECT = "fuselight.server.selectInputs"


def use_inputs(server: Server, options: dict[str, Any]) -> None:
    """Run a target with the inputs of a program: of the one named, else of the best that was found."""
    path, target, program = path_in(options), options.get("target"), path_in(options, "program")
    if path is None or not isinstance(target, str):
        return
    result = server.state.captures.get(Key(path, target))
    offered = [input_program.path for input_program in result.input_programs] if result is not None else []
    chosen = program if program is not None else next(iter(offered), None)
    if chosen in offered and chosen is not None:
        server.analysis.requests.use_program(path, target, chosen)
    else:
        server.ui.say(
            f"No program is known that calls {target}: run it again to look for programs.", error=False
        )


async def add_inputs(server: Server, options: dict[str, Any]) -> None:
    """Insert a directive above a target and select its shape."""
    path = path_in(options)
    document = server.state.documents.at(path) if path is not None else None
    target = target_named(document, options.get("target")) if document is not None else None
    if document is None or target is None:
        return
    text_edits = inputs_edits(document, target)
    if not text_edits:
        return
    edits = [
        types.TextEdit(range=convert.range_(edit.span, server.view), new_text=edit.new_text)
        for edit in text_edits
    ]
    answer = await server.workspace_apply_edit_async(
        types.ApplyWorkspaceEditParams(
            edit=types.WorkspaceEdit(changes={document.uri: edits}),
            label=f"Add inputs for {format_target(target.name)}",
        )
    )
    if answer.applied:
        await _show(server, document.uri, _selection(server, text_edits[0]))
    else:
        reason = answer.failure_reason or "the file has changed"
        server.ui.say(f"No line was added above {format_target(target.name)}: {reason}.", error=False)


async def select_inputs(server: Server, options: dict[str, Any]) -> None:
    """Select the shape of a directive that the client has just inserted."""
    uri, span = options.get("uri"), options.get("range")
    if isinstance(uri, str) and isinstance(span, dict):
        try:
            ends = [types.Position(**span[end]) for end in ("start", "end")]
        except (KeyError, TypeError):
            return
        await _show(server, uri, types.Range(start=ends[0], end=ends[1]))


def input_actions(
    server: Server, document: Document, target: StaticTarget, shown: types.Diagnostic
) -> Iterator[types.CodeAction]:
    """Offer inputs for a target: those of programs that were found, then a directive."""
    result = server.state.captures.get(Key(document.path, target.name))
    programs = result.input_programs if result is not None and server.state.trusted else ()
    for index, program in enumerate(programs):
        title = f"Use the inputs of {program.name}"
        given = {"uri": document.uri, "target": target.name, "program": server.uri_of(program.path)}
        yield types.CodeAction(
            title=title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[shown],
            command=types.Command(title=title, command=USE_INPUTS, arguments=[given]),
            is_preferred=index == 0 or None,
        )
    text_edits = inputs_edits(document, target)
    if not text_edits:
        return
    edits = [
        types.TextEdit(range=convert.range_(edit.span, server.view), new_text=edit.new_text)
        for edit in text_edits
    ]
    action = types.CodeAction(
        title=f"Insert a line with inputs for {format_target(target.name)}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[shown],
        edit=types.WorkspaceEdit(changes={document.uri: edits}),
        is_preferred=not programs or None,
    )
    selection = _selection(server, text_edits[0])
    if selection is not None and server.state.client.show_document:
        ends = {
            end: {"line": at.line, "character": at.character}
            for end, at in (("start", selection.start), ("end", selection.end))
        }
        shape: dict[str, Any] = {"uri": document.uri, "range": ends}
        action.command = types.Command(title="Select the shape", command=SELECT, arguments=[shape])
    yield action


def _selection(server: Server, edit: TextEdit) -> types.Range | None:
    """Where the first shape of an inserted directive will stand, else its arguments."""
    from fuselight_server.source import edits  # noqa: PLC0415 - as above

    text = edit.new_text.splitlines()[0]
    columns = edits.shape_columns(text)
    if columns is None:
        return None
    span = dataclasses.replace(edit.span, column=columns[0], end_column=columns[1], end_line=edit.span.line)
    return convert.range_(span, dataclasses.replace(server.view, read_line=lambda _path, _line: text))


async def _show(server: Server, uri: str, selection: types.Range | None) -> None:
    if selection is not None and server.state.client.show_document:
        await server.window_show_document_async(
            types.ShowDocumentParams(uri=uri, take_focus=True, selection=selection)
        )


COMMANDS: dict[str, Callable[[Server, dict[str, Any]], Any]] = {
    USE_INPUTS: use_inputs,
    ADD_INPUTS: add_inputs,
    SELECT: select_inputs,
}

"""The edit from one text to another, as clients apply it: the lines that differ and no others."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterator, Mapping

from lsprotocol import types

from fuselight_server.base.files import split_text
from fuselight_server.base.finding import Span
from fuselight_server.editor.messages.answers import PreviewedFile
from fuselight_server.editor.messages.client_features import ClientFeatures
from fuselight_server.editor.presenters import convert

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def workspace_edit(
    before: Mapping[str, str],
    after: Mapping[str, str],
    view: convert.Client,
    client: ClientFeatures,
    version_of: Callable[[str], int | None],
    *,
    label: str = "",
    confirms: bool = False,
) -> types.WorkspaceEdit:
    """Make the edit from the texts `before` to the texts `after`, by path. Each file carries its version.

    With `confirms`, a client that can shows the changes and waits for the user.
    """
    changes = {path: list(line_edits(view, path, before[path], after[path])) for path in sorted(after)}
    if not client.document_changes:
        return types.WorkspaceEdit(changes={view.uri_of(path): edits for path, edits in changes.items()})
    annotates = bool(label) and client.change_annotations
    documents = []
    for path, edits in changes.items():
        identity = types.OptionalVersionedTextDocumentIdentifier(
            uri=view.uri_of(path), version=version_of(path)
        )
        annotated = [
            types.AnnotatedTextEdit(annotation_id="fix", range=edit.range, new_text=edit.new_text)
            for edit in edits
        ]
        documents.append(
            types.TextDocumentEdit(text_document=identity, edits=annotated if annotates else edits)
        )
    annotation = types.ChangeAnnotation(label=label, needs_confirmation=confirms)
    return types.WorkspaceEdit(
        document_changes=documents, change_annotations={"fix": annotation} if annotates else None
    )


def previewed_file(path: str, old: str, new: str, view: convert.Client, version: int | None) -> PreviewedFile:
    """Make the edits of a file for a client that shows a preview."""
    return {
        "uri": view.uri_of(path),
        "version": version,
        "edits": [
            {
                "range": {
                    "start": {"line": edit.range.start.line, "character": edit.range.start.character},
                    "end": {"line": edit.range.end.line, "character": edit.range.end.character},
                },
                "newText": edit.new_text,
            }
            for edit in line_edits(view, path, old, new)
        ],
    }


def line_edits(view: convert.Client, path: str, old: str, new: str) -> Iterator[types.TextEdit]:
    """The edits from `old` to `new`, as whole lines."""
    before, after = _LINE.findall(old), _LINE.findall(new)
    rows = split_text(old)

    def read_line(_path: str, line: int) -> str | None:
        return rows[line - 1] if 0 < line <= len(rows) else None

    view = dataclasses.replace(view, read_line=read_line)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            first, last = _start_of(start, rows), _start_of(end, rows)
            place = convert.range_(Span(path, *first, *last), view)
            yield types.TextEdit(range=place, new_text="".join(after[new_start:new_end]))


def _start_of(index: int, rows: list[str]) -> tuple[int, int]:
    """Where the line `index` (0-based) starts, 1-based: the end of the text for the line after the last one."""
    if index < len(rows):
        return index + 1, 0
    return len(rows), len(rows[-1].encode("utf-8", "surrogatepass"))

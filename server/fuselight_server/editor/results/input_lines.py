"""The line that gives inputs to a target, as it is inserted and as it is shown.

Invariant: what is shown is what would be inserted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuselight_server.editor.results.snapshot import Document
    from fuselight_server.source.edits import TextEdit
    from fuselight_server.source.reading import StaticTarget


def target_named(document: Document, name: object) -> StaticTarget | None:
    """The target of a document with a name."""
    return next((target for target in document.reading().targets if target.name == name), None)


def inputs_line(document: Document, target: StaticTarget) -> str:
    """The line that `add_inputs` inserts; empty if there is no place for one."""
    return "".join(edit.new_text for edit in inputs_edits(document, target)).strip()


def inputs_edits(document: Document, target: StaticTarget) -> list[TextEdit]:
    """Insert a directive above a target, with a call that fits its signature and its first layers."""
    from fuselight_server.source import edits  # noqa: PLC0415 - LibCST: 8 MB and 60 ms that a start need not pay

    return edits.insert_inputs_stub(document.source.text, target)

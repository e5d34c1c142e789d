"""Quick fixes that need less memory: changes of the source that were tried, on their lines.

Invariant: an action is offered only with an edit that applies to the current text, which is the one that was compared.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from lsprotocol import types

from fuselight.shared.report.visible import visible
from fuselight_server.editor.handlers.fix_commands import version_of
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.presenters.text_edits import workspace_edit
from fuselight_server.editor.results.memory import changed_texts
from fuselight_server.editor.results.memory_words import edit_words
from fuselight_server.editor.results.snapshot import Document


def memory_actions(server: Server, document: Document, first: int, last: int) -> Iterator[types.CodeAction]:
    """The changes of some lines that need less memory, and whose results are the same."""
    old, path = document.source.text, document.path
    versions = functools.partial(version_of, server)
    for estimate, edit, new in changed_texts(
        server.state.estimates.values(), path, old, range(first, last + 1)
    ):
        yield types.CodeAction(
            title=visible(f"Use less memory: {edit_words(estimate, edit)}"),
            kind=types.CodeActionKind.QuickFix,
            edit=workspace_edit({path: old}, {path: new}, server.view, server.state.client, versions),
        )

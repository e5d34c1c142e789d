"""What failed tests show on the lines of a file: the findings that made them fail, under a source of their own.

Invariant: a diagnostic names its test, and changes nothing of what runs here show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.report.visible import visible
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.target_result import keys_of, keys_on_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lsprotocol import types

    from fuselight_server.editor.handlers.server import Server

SOURCE = "fuselight pytest"


def diagnostics(server: Server, path: str) -> Iterator[types.Diagnostic]:
    """Yield the findings of failed tests on lines of a file, while it has the text that ran."""
    document = server.state.at(path)

    def keys() -> frozenset[str]:
        return keys_on_disk(path) if document is None else keys_of(document.source.text)

    for test, finding in server.state.failed_tests.on(path, keys):
        diagnostic = convert.diagnostic(finding, server.view)
        diagnostic.source = SOURCE
        diagnostic.message = visible(f"{test.test} fails: {diagnostic.message}")
        yield diagnostic

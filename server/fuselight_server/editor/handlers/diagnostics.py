"""Diagnostics of a file: pushed to clients that support it, else pulled; never both for one document.

Invariant: the diagnostics of a file are a function of the state; the same list is not sent twice in a row.
"""

from __future__ import annotations

from collections.abc import Iterable

from lsprotocol import types

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.shown_findings import path_is_file, shown_findings
from fuselight_server.editor.results.untraced import untraced_lines


def publish(server: Server, published: dict[str, list[types.Diagnostic]], paths: Iterable[str]) -> None:
    """Push the diagnostics of `paths` where they differ from `published`, what each file was sent last."""
    for path in sorted(set(paths)):
        document = server.state.documents.at(path)
        if document is None and (not path_is_file(path) or path.endswith(SUFFIX)):
            continue  # without its cells, a notebook has no lines that a client knows
        diagnostics = diagnostics_of(server, path)
        if diagnostics == published.get(path, []):
            continue
        if diagnostics:
            published[path] = diagnostics
        else:
            del published[path]
        server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(
                uri=server.uri_of(path),
                diagnostics=diagnostics,
                version=document.version if document else None,
            )
        )


async def pull(server: Server, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
    """Answer `textDocument/diagnostic`, for clients without push."""
    document = server.state.documents.get(params.text_document.uri)
    if document is not None:
        await document.source.read()
    items = diagnostics_of(server, document.path) if document else []
    return types.RelatedFullDocumentDiagnosticReport(items=items)


def diagnostics_of(server: Server, path: str) -> list[types.Diagnostic]:
    """Make the diagnostics of one file: its findings, each once, and faded lines."""
    view, client = server.state.view(), server.view
    return [
        *(convert.shown_diagnostic(shown, client) for shown in shown_findings(view, path)),
        *(convert.faded(span, words, client) for span, words in untraced_lines(view, path)),
    ]

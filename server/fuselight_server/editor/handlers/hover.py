"""Hovers: findings, traced values, the results of a target, the guards of a function, the kernels of a line."""

from __future__ import annotations

from dataclasses import replace

from lsprotocol import types

from fuselight_server.base.finding import rank
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.finding_hover import explanations_of
from fuselight_server.editor.results.kernel_hover import kernel_tables, measured_tables
from fuselight_server.editor.results.shown_findings import ShownFinding, shown_findings
from fuselight_server.editor.results.target_hover import forecasts, frames, predictions, targets
from fuselight_server.editor.results.traced_values import values_at


async def hover(server: Server, params: types.HoverParams) -> types.Hover | None:
    """Answer `textDocument/hover`."""
    document = server.state.documents.get(params.text_document.uri)
    if document is None:
        return None
    await document.source.read()
    snapshot = server.snapshot(params.text_document.uri)
    if snapshot is None:
        return None
    line, column = convert.position(params.position, document.line, server.encoding)
    findings = sorted(
        (
            item
            for item in shown_findings(server.state.view(), snapshot.path)
            if item.finding.span.covers(line, column)
        ),
        key=lambda item: rank(item.finding),
    )
    findings = [await with_fixes(server, item) for item in findings]
    parts = explanations_of(snapshot, findings)
    values = values_at(snapshot.captures.values(), snapshot.document, line, column)
    parts += values.parts
    parts += targets(snapshot, line)
    parts += predictions(snapshot, line)
    parts += forecasts(snapshot, line)
    parts += frames(snapshot, line)
    parts += measured_tables(snapshot, line)
    parts += kernel_tables(snapshot, line)
    if not parts:
        return None
    value = "\n\n---\n\n".join(parts)
    place = convert.range_(values.span, server.view) if values.span is not None and not findings else None
    return types.Hover(contents=convert.content(value, server.state.client), range=place)


async def with_fixes(server: Server, shown: ShownFinding) -> ShownFinding:
    """The finding with what is known of its fixes."""
    if shown.edited or not server.state.client.actions:
        return shown
    fixes, finding = server.analysis.fixes, shown.finding
    here = await fixes.offers.on_lines(finding.span.path, finding.span.line, finding.span.line)
    return replace(shown, finding=fixes.attempts.with_fixes(finding, here))

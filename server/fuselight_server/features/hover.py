"""Hovers: the findings of a line in full, and on a frame's `def` line its guards and what checking them costs.

Invariant: every number comes from a report, and one from before an edit says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fuselight.report import Outcome
from fuselight_server import convert
from fuselight_server.features.diagnostics import findings_of
from fuselight_server.places import span

if TYPE_CHECKING:
    from fuselight_server.features.server import Server
    from fuselight_server.finding import Finding
    from fuselight_server.places import Result
    from fuselight_server.state import Snapshot


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
    parts = [
        explanation(finding, edited=edited)
        for finding, edited in findings_of(server, snapshot.path)
        if _covers(finding, line, column)
    ]
    parts += frames(snapshot, line)
    if not parts:
        return None
    value = "\n\n---\n\n".join(parts)
    return types.Hover(contents=types.MarkupContent(kind=types.MarkupKind.Markdown, value=value))


def _covers(finding: Finding, line: int, column: int) -> bool:
    where = finding.span
    last = where.end_line or where.line
    if not where.line <= line <= last:
        return False
    after_start = where.column is None or line > where.line or column >= where.column
    before_end = where.end_column is None or line < last or column <= where.end_column
    return after_start and before_end


def explanation(finding: Finding, *, edited: bool) -> str:
    """Make what the diagnostic, which an editor shows above it, leaves out. Several on one line are told by code."""
    code = f"[{finding.code}]({finding.link})" if finding.link else finding.code
    return "\n\n".join([f"**{code}**", *_body(finding, edited=edited)])


def markdown(finding: Finding, *, edited: bool) -> str:
    """Make the whole of a finding, as Markdown that stands alone."""
    code = f"[{finding.code}]({finding.link})" if finding.link else finding.code
    return "\n\n".join([f"**{_escape(convert.message(finding))}** {code}", *_body(finding, edited=edited)])


def _body(finding: Finding, *, edited: bool) -> list[str]:
    parts = ["*From before your edit of this line.*"] if edited else []
    if finding.message and finding.message != finding.title:
        parts.append(_escape(finding.message))
    if finding.gb_ids:
        parts.append(f"Related: {', '.join(finding.gb_ids)}")
    source = [finding.target, finding.inputs, f"torch {finding.torch}" if finding.torch else ""]
    parts.append(f"*{finding.tier.value}: {'; '.join(_escape(part) for part in source if part)}*")
    return parts


def frames(snapshot: Snapshot, line: int) -> list[str]:
    """Say of the frames whose `def` is on `line` how often they were compiled and what their guards cost."""
    return [
        text
        for result in snapshot.results.values()
        for index, frame in enumerate(result.report.frames)
        if frame.resumes_at is None
        and frame.location.path == snapshot.path
        and result.places.now(span(frame.location)).line == line
        and (text := _frame(result, index))
    ]


def _frame(result: Result, index: int) -> str:
    """Make one line for each compile of a frame."""
    report = result.report
    lines = []
    for one in report.compiles:
        if one.frame != index or one.outcome is not Outcome.COMPILED:
            continue
        facts = []
        if one.graph is not None:
            facts.append(f"{one.graph.operators} operators")
        count = one.guard_count if one.guard_count is not None else len(one.guards) or None
        if count is not None:
            facts.append(f"{count} guards")
        if one.guard_us is not None:
            facts.append(f"checked in {one.guard_us:.1f} µs")
        lines.append(f"- compile {one.id}: {', '.join(facts)}" if facts else f"- compile {one.id}")
    if not lines:
        return ""
    stale = " *(before your edit)*" if result.stale else ""
    return f"`{report.frames[index].function}` in torch.compile{stale}\n\n" + "\n".join(lines)


def _escape(text: str) -> str:
    """Keep plain text plain in Markdown, line ends included; code in backticks stays code."""
    for mark in ("*", "_", "<", "#"):
        text = text.replace(mark, f"\\{mark}") if "`" not in text else text
    return text.replace("\n", "  \n")

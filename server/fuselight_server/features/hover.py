"""Hovers: the findings of a line, the results of a target, the guards of a function, the kernels of a line.

Invariant: every number comes from a report, and one from before an edit says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fuselight.report import Outcome
from fuselight_server.features import convert
from fuselight_server.features.bench.hover import measured
from fuselight_server.features.bench.lens import summary as bench_summary
from fuselight_server.features.code_lens import summary
from fuselight_server.features.diagnostics import findings_of
from fuselight_server.features.kernels.hover import kernels
from fuselight_server.features.kernels.lens import total
from fuselight_server.features.markdown import code_span, link, plain
from fuselight_server.finding import rank
from fuselight_server.findings.text import compose
from fuselight_server.formatting import format_count
from fuselight_server.results.benchmarks import MeasuredResult
from fuselight_server.results.captures import CaptureResult
from fuselight_server.results.kernels import KernelResult
from fuselight_server.results.positions import resumption, span

if TYPE_CHECKING:
    from fuselight.report import Compile
    from fuselight_server.features.server import Server
    from fuselight_server.finding import Finding
    from fuselight_server.results.target_result import TargetResult
    from fuselight_server.session.state import Snapshot

LISTED = 20
"""Compiles of a function that a hover lists."""


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
    found = [one for one in findings_of(server, snapshot.path) if _covers(one[0], line, column)]
    found.sort(key=lambda item: rank(item[0]))
    parts = [explanation(finding, edited=edited, alone=len(found) == 1) for finding, edited in found]
    parts += targets(snapshot, line)
    parts += frames(snapshot, line)
    parts += measured(snapshot, line)
    parts += kernels(snapshot, line)
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


def explanation(finding: Finding, *, edited: bool, alone: bool) -> str:
    """Say what the diagnostic above the hover leaves out; a code is the head of each of several findings."""
    head = [] if alone else [f"**{link(finding.code, convert.address(finding))}**"]
    return "\n\n".join([*head, *_body(finding, edited=edited)])


def markdown(finding: Finding, *, edited: bool) -> str:
    """Say all about a finding, as Markdown that stands alone."""
    code = link(finding.code, convert.address(finding))
    return "\n\n".join([f"**{plain(convert.message(finding))}** {code}", *_body(finding, edited=edited)])


def _body(finding: Finding, *, edited: bool) -> list[str]:
    parts = ["*From before your edit of this line.*"] if edited else []
    parts += [plain(part) for part in _paragraphs(finding) if part]
    if finding.gb_ids:
        parts.append(plain(f"Related: {', '.join(finding.gb_ids)}"))
    source = [finding.target, finding.inputs, f"torch {finding.torch}" if finding.torch else ""]
    parts.append(f"*{finding.tier.value}: {'; '.join(plain(part) for part in source if part)}*")
    return parts


def _paragraphs(finding: Finding) -> tuple[str, ...]:
    """Order a message for a hover, whose end may be out of sight: what to do, the cost, then what happened."""
    rest = finding.message.removeprefix(finding.title).removeprefix(".").lstrip()
    end = compose(cost=finding.cost, hints=finding.hints)
    if not end or not rest.endswith(end):
        return (rest,)
    return compose(hints=finding.hints), compose(cost=finding.cost), rest.removesuffix(end).rstrip()


def targets(snapshot: Snapshot, line: int) -> list[str]:
    """Say all that the last runs found of the targets whose lenses are on `line`."""
    names = {target.name for target in snapshot.reading.targets if target.name_span.line == line}
    if snapshot.reading.main_line == line:
        names.add("")
    found = []
    for key, result in snapshot.results.items():
        if key.path == snapshot.path and key.name in names:
            tier, said = _result_words(result)
            found.append(f"{code_span(key.name or '__main__')} {tier}: {plain(said)}")
    return ["\n\n".join(sorted(found))] if found else []


def _result_words(result: TargetResult) -> tuple[str, str]:
    """Name the tier of a result, and say what it found."""
    if isinstance(result, KernelResult):
        return "kernels", total(result)
    if isinstance(result, MeasuredResult):
        return "benchmark", bench_summary(result)
    assert isinstance(result, CaptureResult)  # noqa: S101 - the last of the three tiers
    return "capture", summary(result)


def frames(snapshot: Snapshot, line: int) -> list[str]:
    """Say of the frames whose `def` is on `line` how often they were compiled and what their guards cost."""
    return [
        text
        for result in snapshot.captures.values()
        if (text := _frames(result, _parts(result, snapshot.path, line)))
    ]


def _parts(result: CaptureResult, path: str, line: int) -> list[int]:
    """Return the frames of the function whose `def` is on `line`: itself, and the part after each graph break."""
    return [
        index
        for index, frame in enumerate(result.report.frames)
        if frame.location.path == path and result.places.now(span(frame.location)).line == line
    ]


def _frames(result: CaptureResult, parts: list[int]) -> str:
    """Make one line for each compile of a function and of its parts."""
    report = result.report
    compiles = [one for one in report.compiles if one.frame in parts and one.outcome is Outcome.COMPILED]
    if not compiles:
        return ""
    graphs = len({one.frame for one in compiles if one.graph is not None})
    stale = " *(before your edit)*" if result.stale else ""
    name = report.frames[parts[0]].function
    head = (
        f"{code_span(name)}: {format_count(graphs, 'graph')}, {format_count(len(compiles), 'compile')}{stale}"
    )
    lines = [_compile(result, one) for one in compiles[:LISTED]]
    if len(compiles) > LISTED:
        lines.append(f"- and {len(compiles) - LISTED} more")
    return "\n".join([head, "", *lines])


def _compile(result: CaptureResult, one: Compile) -> str:
    frame = result.report.frames[one.frame]
    facts = []
    if one.graph is not None:
        facts.append(format_count(one.graph.operators, "operator"))
    count = one.guard_count if one.guard_count is not None else len(one.guards) or None
    if count is not None:
        facts.append(format_count(count, "guard"))
    if one.guard_us is not None:
        facts.append(f"checked in {one.guard_us:.1f} µs")
    part = ""
    if frame.resumes_at is not None:
        part = f" from line {result.places.now(span(resumption(frame))).line} on"
    return f"- compile {plain(one.id)}{part}" + (f": {', '.join(facts)}" if facts else "")

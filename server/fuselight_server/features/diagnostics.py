"""Diagnostics of a file: pushed to clients that support it, else pulled; never both for one document.

Invariant: the diagnostics of a file are a function of the state; the same list is not sent twice in a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fuselight_server.features import convert
from fuselight_server.features.untraced import untraced
from fuselight_server.finding import rank
from fuselight_server.findings import apply_ignores, of_capture, of_measured, static_findings
from fuselight_server.results.newest_run import NewestRun, Standing
from fuselight_server.session.intake import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuselight_server.features.server import Server
    from fuselight_server.finding import Finding
    from fuselight_server.results.benchmarks import MeasuredResult
    from fuselight_server.results.captures import CaptureResult
    from fuselight_server.results.kernels import KernelResult
    from fuselight_server.static.reading import Reading


HINTS = 50
"""Hints about missing inputs in a file; each target has its lens anyway."""

LISTED = 1000
"""Diagnostics of a file, the worst and costliest first: as many as VS Code shows."""


def publish(server: Server, published: dict[str, list[types.Diagnostic]], paths: Iterable[str]) -> None:
    """Push the diagnostics of `paths` where they differ from `published`, what each file was sent last."""
    for path in sorted(set(paths)):
        document = server.state.at(path)
        if document is None and not path_is_file(path):
            continue
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


def path_is_file(path: str) -> bool:
    """Whether a path can be named to the client as a file."""
    return not path.startswith(("<", "untitled:", "vscode-notebook-cell:"))


async def pull(server: Server, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
    """Answer `textDocument/diagnostic`, for clients without push."""
    document = server.state.documents.get(params.text_document.uri)
    if document is not None:
        await document.source.read()
    items = diagnostics_of(server, document.path) if document else []
    return types.RelatedFullDocumentDiagnosticReport(items=items)


def diagnostics_of(server: Server, path: str) -> list[types.Diagnostic]:
    """Make the diagnostics of one file: what runs found, what the source shows, ignores applied, and faded lines."""
    view, found = server.view, findings_of(server, path)
    if len(found) > LISTED:
        found = sorted(found, key=lambda item: rank(item[0]))[:LISTED]
    shown = [convert.diagnostic(finding, view, edited=edited) for finding, edited in found]
    return shown + untraced(server, path)


def findings_of(server: Server, path: str) -> list[tuple[Finding, bool]]:
    """Findings whose line is in `path`, each with whether that line (or what a benchmark ran) was edited since."""
    document = server.state.at(path)
    reading = document.reading() if document else None
    results = [result for result in server.state.captures.values() if path in result.paths()]
    found: dict[tuple[object, ...], tuple[Finding, bool]] = {}
    captured = sorted(results, key=lambda one: one.key.name == PROGRAM)
    kernels = [one for one in server.state.kernels.values() if path in one.paths()]
    measured = [one for one in server.state.measured.values() if path in one.paths()]
    standing = [
        (live, source, one)
        for one in (*captured, *kernels, *measured)
        for source in one.sources
        for live in source.own
    ]
    newest = NewestRun.of(path, server.state.results.values(), server.state.read_line)
    for live, source, one in standing:
        if live.place.gone or live.place.span.path != path:
            continue
        judged = newest.standing(live, source, one)
        if judged is Standing.REPLACED:
            continue
        finding = live.now()
        was_edited = live.edited or one.findings_are_stale or judged is Standing.DOUBTFUL
        same = (finding.code, finding.span, finding.title)
        if same not in found or (found[same][1] and not was_edited):
            found[same] = finding, was_edited
    edited = {id(finding): was_edited for finding, was_edited in found.values()}
    everything = [finding for finding, _ in found.values()]
    if reading is not None:
        answered = {
            result.report.target.name
            for result in server.state.captures.values()
            if result.report.inputs is not None and result.report.target.path == path
        }
        everything += _static(server, path, reading, everything, answered)
        everything = _after_ignores(everything, reading, results, kernels, measured)
    return [(finding, edited.get(id(finding), False)) for finding in everything]


def _static(
    server: Server, path: str, reading: Reading, found: list[Finding], answered: set[str]
) -> list[Finding]:
    """What the source alone shows, where no run has said the same or found the inputs of a target in `answered`."""
    hints = path_is_file(path) and server.state.folder_of(path).settings.hints.no_inputs
    said = {(finding.code, finding.span.line) for finding in found}
    return [
        finding
        for finding in static_findings(reading, answered=answered, hints=HINTS if hints else 0)
        if (finding.code, finding.span.line) not in said
    ]


def _after_ignores(
    found: list[Finding],
    reading: Reading,
    results: list[CaptureResult],
    kernels: list[KernelResult],
    measured: Sequence[MeasuredResult] = (),
) -> list[Finding]:
    """Apply the comments; that one silences nothing is known only after a run of the text as it is.

    Of a code that only another tier has, after a run of that.
    """
    captured, generated, benchmarked = (
        any(reading.path in one.depends and not one.stale and one.has_data for one in tier)
        for tier in (results, kernels, [one.shown for one in measured])
    )

    def is_known(code: str) -> bool:
        if of_capture(code):
            return captured
        return benchmarked if of_measured(code) else generated

    return list(apply_ignores(found, {reading.path: reading}, known=is_known))

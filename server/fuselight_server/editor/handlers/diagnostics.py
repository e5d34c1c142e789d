"""Diagnostics of a file: pushed to clients that support it, else pulled; never both for one document.

Invariant: the diagnostics of a file are a function of the state; the same list is not sent twice in a row.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from lsprotocol import types

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight_server.base.finding import rank
from fuselight_server.commands.findings import SourceHints, compose_findings
from fuselight_server.editor.handlers import job_lines, test_lines
from fuselight_server.editor.handlers.listed_findings import ListedFinding, each_once
from fuselight_server.editor.handlers.untraced import untraced
from fuselight_server.editor.results.captures import PROGRAM
from fuselight_server.editor.results.newest_run import NewestRun, Standing
from fuselight_server.editor.results.predictions import PredictedStatus, gone_after_edit
from fuselight_server.explain.findings import expand, nothing_ran
from fuselight_server.explain.findings.common.catalogue import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fuselight_server.base.finding import Finding
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.results.benchmarks import MeasuredResult
    from fuselight_server.editor.results.captures import CaptureResult
    from fuselight_server.editor.results.kernels import KernelResult
    from fuselight_server.editor.results.target_result import TargetResult
    from fuselight_server.explain.findings.static import HasRun
    from fuselight_server.source.positions import TrackedFinding
    from fuselight_server.source.reading import Reading


HINTS = 50
"""Hints about missing inputs in a file; each target has its lens anyway."""

LISTED = 1000
"""Diagnostics of a file, the worst and costliest first: as many as VS Code shows."""


def publish(server: Server, published: dict[str, list[types.Diagnostic]], paths: Iterable[str]) -> None:
    """Push the diagnostics of `paths` where they differ from `published`, what each file was sent last."""
    for path in sorted(set(paths)):
        document = server.state.at(path)
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
    """Make the diagnostics of one file: its findings, each once, ignores applied, and faded lines."""
    listed = listed_findings(server, path)
    return [*(item.diagnostic(server.view) for item in listed), *untraced(server, path)]


def listed_findings(server: Server, path: str) -> list[ListedFinding]:
    """Findings whose line is in `path`: of runs, of failed tests and of open jobs, each once."""
    of_runs = findings_of(server, path)
    if len(of_runs) > LISTED:
        of_runs = sorted(of_runs, key=lambda item: rank(item[0]))[:LISTED]
    others = itertools.chain(test_lines.findings(server, path), job_lines.findings(server, path))
    return each_once([*itertools.starmap(ListedFinding, of_runs), *itertools.islice(others, LISTED)])


def findings_of(server: Server, path: str) -> list[tuple[Finding, bool]]:
    """Findings whose line is in `path`, each with whether that line (or what a benchmark ran) was edited since.

    Of a cause with several places (findings/causes.py), one is explained and the others refer to it. Predicted findings
    are among them; a finding that a prediction no longer has says so.
    """
    document = server.state.at(path)
    reading = document.reading() if document else None
    results = [result for result in server.state.captures.values() if path in result.paths()]
    kernels = [kernel for kernel in server.state.kernels.values() if path in kernel.paths()]
    measured = [
        measured_result
        for measured_result in server.state.measured.values()
        if path in measured_result.paths()
    ]
    tuned = [tuning for tuning in server.state.tunings.values() if path in tuning.paths()]
    findings_by_key: _FindingsByKey = {}
    captured = sorted(results, key=_is_program)
    gone: dict[tuple[object, ...], bool] = {}
    _add_standing(server, findings_by_key, path, _lives((*captured, *kernels, *measured, *tuned)), gone)
    _add_predicted(server, findings_by_key, path)
    _add_same_causes(server, findings_by_key, path, results)
    edited = {_identity(finding): was_edited for finding, was_edited in findings_by_key.values()}
    everything = [finding for finding, _ in findings_by_key.values()]
    documents = {
        finding.span.path: server.state.at(finding.span.path)
        for finding in everything
        if finding.span.path != path
    }
    comments = {at: other.reading() for at, other in documents.items() if other is not None}
    hints = []
    if reading is not None:
        comments[path] = reading
        hints.append(_hints(server, reading))
    has_run = completed_runs(reading, results, kernels, measured)
    return [
        (gone_after_edit(finding), False)
        if gone.get(_identity(finding))
        else (finding, edited.get(_identity(finding), False))
        for full in compose_findings(everything, hints, comments, has_run=has_run)
        for finding in expand(full)
        if finding.span.path == path
    ]


_FindingsByKey = dict[tuple[object, ...], tuple["Finding", bool]]
"""Findings of runs, each with whether its line was edited, by what makes two of them the same."""
_Live = tuple["TrackedFinding", "TargetResult", "TargetResult"]
"""A finding, its result, and the newest result of the same target."""


def _is_program(result: TargetResult) -> bool:
    return result.key.name == PROGRAM


def _identity(finding: Finding) -> tuple[object, ...]:
    """What stays of a finding when it is folded."""
    return finding.code, finding.span, finding.cause or finding.title


def _lives(results: Iterable[TargetResult]) -> Iterator[_Live]:
    for target_result in results:
        for source in target_result.sources:
            for live in source.own:
                yield live, source, target_result
        for live in target_result.ends:
            yield live, target_result, target_result


def _add_standing(
    server: Server,
    findings_by_key: _FindingsByKey,
    path: str,
    lives: Iterable[_Live],
    gone: dict[tuple[object, ...], bool] | None = None,
) -> None:
    """Add the findings on lines of `path` that still count; note in `gone` whether predictions no longer have them."""
    newest = NewestRun.of(path, server.state.results.values(), server.state.read_line)
    for live, source, target_result in lives:
        if live.place.gone or live.place.span.path != path:
            continue
        judged = newest.standing(live, source, target_result)
        if judged is Standing.REPLACED:
            continue
        finding = live.now()
        predicted = _predicted_status(server, live, target_result)
        if predicted is not None and live.edited:
            continue  # the prediction has it in its own words, or no longer
        if gone is not None:  # a finding of two targets is gone where it is for both
            was_gone = gone.get(_identity(finding), True)
            gone[_identity(finding)] = was_gone and predicted is PredictedStatus.GONE
        is_doubtful = live.edited or target_result.findings_are_stale or judged is Standing.DOUBTFUL
        was_edited = is_doubtful and predicted is not PredictedStatus.REPEATED
        same = (finding.code, finding.span, finding.title)
        if same not in findings_by_key or (findings_by_key[same][1] and not was_edited):
            findings_by_key[same] = finding, was_edited


def _predicted_status(server: Server, live: TrackedFinding, newest: TargetResult) -> PredictedStatus | None:
    """Return what the edits of its file are predicted to make of a finding of the last run."""
    prediction = server.state.predictions.get((newest.key, live.place.span.path))
    return None if prediction is None else prediction.status(live)


def _add_predicted(server: Server, findings_by_key: _FindingsByKey, path: str) -> None:
    """Add what is predicted on lines of `path`, where no run has found the same."""
    places = {same: (finding.code, finding.span.line) for same, (finding, _) in findings_by_key.items()}
    known = {places[same] for same, (_, was_edited) in findings_by_key.items() if not was_edited}
    for prediction in server.state.predictions.values():
        for finding in prediction.findings():
            at = (finding.code, finding.span.line)
            if finding.span.path == path and at not in known:
                for older in [same for same, place in places.items() if place == at]:
                    findings_by_key.pop(older, None)
                findings_by_key.setdefault((finding.code, finding.span, finding.title), (finding, False))


def _add_same_causes(
    server: Server, findings_by_key: _FindingsByKey, path: str, results: Iterable[CaptureResult]
) -> None:
    """Add the findings of other files that share a cause with one in `path`."""
    causes = {(finding.code, finding.cause) for finding, _ in findings_by_key.values() if finding.cause}
    if not causes:
        return
    files = {result.key.path for result in results}
    elsewhere: dict[str, list[_Live]] = {}
    captures = [capture for capture in server.state.captures.values() if capture.key.path in files]
    for live, source, target_result in _lives(sorted(captures, key=_is_program)):
        at = live.place.span.path
        if at != path and (live.finding.code, live.finding.cause) in causes:
            elsewhere.setdefault(at, []).append((live, source, target_result))
    for at, lives in elsewhere.items():
        _add_standing(server, findings_by_key, at, lives)


def _hints(server: Server, reading: Reading) -> SourceHints:
    """What the source of a file is read for, where no run has found the inputs of a target."""
    path = reading.path
    answered = {
        result.report.target.name
        for result in server.state.captures.values()
        if result.report.inputs is not None and result.report.target.path == path
    }
    is_hinted = path_is_file(path) and server.state.folder_of(path).settings.hints.no_inputs
    return SourceHints(reading, answered, HINTS if is_hinted else 0)


def completed_runs(
    reading: Reading | None,
    results: Iterable[CaptureResult],
    kernels: Iterable[KernelResult],
    measured: Iterable[MeasuredResult] = (),
) -> HasRun:
    """Return whether runs of the text as it is would have found the codes of an origin, for the comments of a file.

    A file that is not open has none.
    """
    if reading is None:
        return nothing_ran
    captured = [result for result in results if _is_current(reading, result) and not result.report.failures]
    completed = {
        Origin.SOURCE: True,
        Origin.CAPTURE: bool(captured),
        Origin.NOTEBOOK: bool(captured) and reading.path.endswith(SUFFIX),
        Origin.RANKS: any(result.report.world is not None for result in captured),
        Origin.KERNELS: any(_is_current(reading, result) for result in kernels),
        Origin.MEASURED: any(_is_current(reading, result.shown) for result in measured),
    }
    return lambda path, origin: path == reading.path and completed.get(origin, False)


def _is_current(reading: Reading, result: TargetResult) -> bool:
    return reading.path in result.depends and not result.stale and result.has_data

"""The results of a target in a hover, as Markdown: what its runs found, predictions, forecasts, compiles of a function.

Invariant: every number comes from a report, and one from before an edit says so.
"""

from __future__ import annotations

from fuselight.shared.report import Compile, Outcome
from fuselight_server.base.formatting import format_count, format_place, format_target
from fuselight_server.base.markdown import code_span, plain
from fuselight_server.editor.results.accuracy import AccuracyResult
from fuselight_server.editor.results.accuracy_words import accuracy_summary
from fuselight_server.editor.results.benchmarks import MeasuredResult
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.kernels import KernelResult
from fuselight_server.editor.results.lens_facts import benchmark_summary, kernel_summary, tuning_summary
from fuselight_server.editor.results.memory import MemoryResult
from fuselight_server.editor.results.memory_words import memory_summary
from fuselight_server.editor.results.predictions import Prediction
from fuselight_server.editor.results.snapshot import Snapshot
from fuselight_server.editor.results.target_lens import summary
from fuselight_server.editor.results.target_result import TargetResult
from fuselight_server.editor.results.tunings import TuningResult
from fuselight_server.explain.findings.failures import lacks_inputs
from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange, folded, folded_text
from fuselight_server.source.positions import resumption, span

LISTED = 20
"""Compiles of a function that a hover lists."""


def targets(snapshot: Snapshot, line: int) -> list[str]:
    """Say all that the last runs found of the targets whose lenses are on `line`."""
    names = _targets_on(snapshot, line)
    sections = []
    for key, result in snapshot.results.items():
        if key.path == snapshot.path and key.name in names and not _is_finding(result):
            tier, message = _result_words(result)
            sections.append(f"{code_span(format_target(key.name))} {tier}: {plain(message)}")
            if isinstance(result, CaptureResult) and not result.stale:
                sections += [
                    plain(text) for text in (result.fix_first(snapshot.first_fixes.get(key, "")),) if text
                ]
    for key, end in snapshot.run_ends.items():
        if key.name in names:
            sections.append(f"{code_span(format_target(key.name))} {plain(end.sentence(key.tier))}")
    return ["\n\n".join(sorted(sections))] if sections else []


def _is_finding(result: TargetResult) -> bool:
    """Whether a result only says that inputs are missing, which the finding on the same line says."""
    return isinstance(result, CaptureResult) and not result.has_data and lacks_inputs(result.report)


def _targets_on(snapshot: Snapshot, line: int) -> set[str]:
    """Name the targets whose lenses are on `line`."""
    names = {target.name for target in snapshot.reading.targets if target.name_span.line == line}
    return names | {""} if snapshot.reading.main_line == line else names


def _result_words(result: TargetResult) -> tuple[str, str]:
    """Name the tier of a result, and say what it found."""
    if isinstance(result, KernelResult):
        return "kernels", kernel_summary(result)
    if isinstance(result, MeasuredResult):
        return "benchmark", benchmark_summary(result)
    if isinstance(result, TuningResult):
        return "tuning", tuning_summary(result)
    if isinstance(result, AccuracyResult):
        return "accuracy", accuracy_summary(result)
    if isinstance(result, MemoryResult):
        return "memory", memory_summary(result)
    assert isinstance(result, CaptureResult)  # noqa: S101 - the last of the tiers
    return "capture", summary(result)


DEFERRED = 8
"""Changes of code that a hover lists as not predicted."""


def predictions(snapshot: Snapshot, line: int) -> list[str]:
    """Say what edits are predicted to change for the targets whose lenses are on `line`, and what takes a run."""
    names = _targets_on(snapshot, line)
    return [
        text
        for prediction in snapshot.predictions
        if prediction.key.name in names and (text := _prediction(snapshot, prediction))
    ]


def _prediction(snapshot: Snapshot, prediction: Prediction) -> str:
    name, parts = code_span(format_target(prediction.key.name)), []
    if effect := prediction.effect(snapshot.predicted):
        traced = ", ".join(code_span(function) for function in prediction.functions)
        parts.append(
            f"{name} after your edit: {plain(effect)}. Predicted by tracing {traced} with the inputs of the last "
            "run; the next run confirms it."
        )
    if prediction.deferred:
        lines = [f"- {plain(str(change))}" for change in prediction.deferred[:DEFERRED]]
        lines += (
            [f"- and {len(prediction.deferred) - DEFERRED} more"]
            if len(prediction.deferred) > DEFERRED
            else []
        )
        head = "Not predicted: the next run shows the effect. What the last run found elsewhere still holds."
        parts.append("\n".join([head, "", *lines]))
    return "\n\n".join(parts)


EXPECTED = 8
"""Changes that a hover lists."""


def forecasts(snapshot: Snapshot, line: int) -> list[str]:
    """List what would compile the targets again whose lenses are on `line`."""
    names = _targets_on(snapshot, line)
    results = (
        capture
        for key, capture in snapshot.captures.items()
        if key.path == snapshot.path and key.name in names
    )
    return [text for result in results if not result.stale and (text := _forecast(result))]


def _forecast(result: CaptureResult) -> str:
    expected = [change for change in result.expected_changes if change.recompiles]
    if not expected:
        return ""
    listed, breaks = folded(expected)
    lines = [_expected_line(result, change) for change in listed[:EXPECTED]]
    if len(listed) > EXPECTED:
        lines.append(f"- and {len(listed) - EXPECTED} more: **Details** lists all")
    for place, count in breaks:
        now = result.places.now(span(place))
        lines.append(
            f"- {plain(folded_text(format_place(now.path, now.line), count))}: **Details** lists them"
        )
    if not result.tried and any(change.call_changes and change.is_likely for change in expected):
        lines += [
            "",
            "*Advice is not tried on this code: the command **Verify Forecast** tries edits of it.*",
        ]
    return "\n".join([f"{code_span(format_target(result.key.name))} recompiles if:", "", *lines])


def _expected_line(result: CaptureResult, change: ExpectedChange) -> str:
    where = ""
    if change.place is not None:
        now = result.places.now(span(change.place))
        where = f" ({format_place(now.path, now.line)})"
    tried = result.tried.get(change, ())
    advice = (
        change.remedies[:1]
        if change.is_likely and not any(line.startswith("verified") for line in tried)
        else ()
    )
    more = [*tried, *(f"advice: {line}" for line in advice)]
    return "  \n  ".join([f"- {plain(change.title)}: {plain(change.cost + where)}", *map(plain, more)])


def frames(snapshot: Snapshot, line: int) -> list[str]:
    """Say of the frames whose `def` is on `line` how often they were compiled and what their guards cost."""
    results = snapshot.captures.values()
    return [text for result in results if (text := _frames(result, snapshot.path, line))]


def _frames(result: CaptureResult, path: str, line: int) -> str:
    """Make one line for each compile of the function whose `def` is on `line`, and of the part after each break."""
    report = result.report
    parts = [
        index
        for index, frame in enumerate(report.frames)
        if frame.location.path == path and result.places.now(span(frame.location)).line == line
    ]
    compiles = [
        record for record in report.compiles if record.frame in parts and record.outcome is Outcome.COMPILED
    ]
    if not compiles:
        return ""
    graphs = len({record.frame for record in compiles if record.graph is not None})
    stale = " *(before your edit)*" if result.stale else ""
    name = report.frames[parts[0]].function
    head = (
        f"{code_span(name)}: {format_count(graphs, 'graph')}, {format_count(len(compiles), 'compile')}{stale}"
    )
    lines = [_compile(result, record) for record in compiles[:LISTED]]
    if len(compiles) > LISTED:
        lines.append(f"- and {len(compiles) - LISTED} more")
    return "\n".join([head, "", *lines])


def _compile(result: CaptureResult, compilation: Compile) -> str:
    frame = result.report.frames[compilation.frame]
    facts = []
    if compilation.graph is not None:
        facts.append(format_count(compilation.graph.operators, "operator"))
    count = (
        compilation.guard_count if compilation.guard_count is not None else len(compilation.guards) or None
    )
    if count is not None:
        facts.append(format_count(count, "guard"))
    if compilation.guard_us is not None:
        facts.append(f"checked in {compilation.guard_us:.1f} µs")
    part = ""
    if frame.resumes_at is not None:
        part = f" from line {result.places.now(span(resumption(frame))).line} on"
    return f"- compile {plain(compilation.id)}{part}" + (f": {', '.join(facts)}" if facts else "")

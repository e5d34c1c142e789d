"""Hovers: findings, traced values, the results of a target, the guards of a function, the kernels of a line.

Invariant: every number comes from a report, and one from before an edit says so.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lsprotocol import types

from fuselight.shared.report import Outcome
from fuselight_server.base.finding import rank
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_flops,
    format_percent,
    format_place,
    format_size,
    format_spread,
    format_time,
)
from fuselight_server.editor.handlers.finding_hover import explanations_of
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.markdown import code_span, content, name_cell, plain
from fuselight_server.editor.presenters.traced_values import values_at
from fuselight_server.editor.results.benchmarks import MeasuredResult
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.kernels import KernelResult
from fuselight_server.editor.results.lens_facts import (
    benchmark_summary,
    kernel_summary,
    kernel_words,
    measured_words,
    shown_benchmarks,
    shows_estimates,
    tuning_summary,
)
from fuselight_server.editor.results.shown_findings import shown_findings
from fuselight_server.editor.results.target_lens import summary
from fuselight_server.editor.results.tunings import TuningResult
from fuselight_server.explain.benchmarks.profile import rates
from fuselight_server.explain.findings.failures import lacks_inputs
from fuselight_server.explain.findings.forecasts.forecasts import folded, folded_text
from fuselight_server.explain.kernels.summary import candidates
from fuselight_server.source.positions import resumption, span

if TYPE_CHECKING:
    from fuselight.shared.report import Compile, GeneratedGraph, Kernel, MeasuredLaunch
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.results.benchmarks import MeasuredRow
    from fuselight_server.editor.results.kernels import KernelRow
    from fuselight_server.editor.results.predictions import Prediction
    from fuselight_server.editor.results.snapshot import Snapshot
    from fuselight_server.editor.results.target_result import TargetResult
    from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange


LISTED = 20
"""Compiles of a function, or kernels of a line, that a hover lists."""


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
    parts = await explanations_of(server, snapshot.path, findings)
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
    return types.Hover(contents=content(value, server.state.client), range=place)


def targets(snapshot: Snapshot, line: int) -> list[str]:
    """Say all that the last runs found of the targets whose lenses are on `line`."""
    names = _targets_on(snapshot, line)
    sections = []
    for key, result in snapshot.results.items():
        if key.path == snapshot.path and key.name in names and not _is_finding(result):
            tier, message = _result_words(result)
            sections.append(f"{code_span(key.name or '__main__')} {tier}: {plain(message)}")
            if isinstance(result, CaptureResult) and not result.stale:
                sections += [
                    plain(text) for text in (result.fix_first(snapshot.first_fixes.get(key, "")),) if text
                ]
    for key, end in snapshot.run_ends.items():
        if key.name in names:
            sections.append(f"{code_span(key.name or '__main__')} {plain(end.sentence(key.tier))}")
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
    name, parts = code_span(prediction.key.name or "__main__"), []
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
    return "\n".join([f"{code_span(result.key.name or '__main__')} recompiles if:", "", *lines])


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


_COLUMNS = (
    ("measured", "--:"),
    ("estimate", "--:"),
    ("of its limit", "--:"),
    ("count", "--:"),
    ("kind", ":--"),
    ("kernel", ":--"),
)
"""With how they are aligned; one without an entry is left out."""


def measured_tables(snapshot: Snapshot, line: int) -> list[str]:
    """Make the table of what was measured on `line`, one for each target."""
    return [
        _measured_table(result, row)
        for result in shown_benchmarks(snapshot)
        if (row := result.row(snapshot.path, line)) is not None
    ]


def _measured_table(result: MeasuredResult, row: MeasuredRow) -> str:
    name, configuration = result.key.name or "__main__", result.configuration
    shown = f" as {code_span(configuration.name)}" if configuration is not None else ""
    head = f"{code_span(name)}{shown}: {plain(measured_words(result, [row]))}"
    launches = sorted(row.line.launches, key=lambda item: -item[0].us)
    rows = [_measured_cells(result, launch, kernel) for launch, kernel in launches[:LISTED]]
    known = [index for index in range(len(_COLUMNS)) if any(cells[index] for cells in rows)]
    lines = [[row[index] for index in known] for row in (*zip(*_COLUMNS, strict=True), *rows)]
    parts = [head, "\n".join(f"| {' | '.join(cells)} |" for cells in lines)]
    if len(launches) > LISTED:
        parts.append(f"and {len(launches) - LISTED} more")
    source = (
        configuration.profile.source
        if configuration is not None and configuration.profile is not None
        else ""
    )
    by = f" by torch's profiler ({plain(source)})" if source else ""
    parts.append(
        f"*The times are of one call, measured{by}. A kernel that several lines share is listed with its whole time.*"
    )
    return "\n\n".join(parts)


def _measured_cells(result: MeasuredResult, launch: MeasuredLaunch, kernel: Kernel | None) -> list[str]:
    achieved = rates(launch, kernel, result.report.target_device)
    half = (launch.high_us - launch.low_us) / 2 / launch.us if launch.us > 0 else 0.0
    estimate = kernel.estimate_us if kernel is not None else None
    limit = f"{format_percent(achieved.of_limit)} ({achieved.bound})" if achieved.of_limit is not None else ""
    kind = kernel.kind.value.replace("_", " ") if kernel is not None else launch.kind.value
    name = kernel.name if kernel is not None else launch.name
    return [
        plain(f"{format_time(launch.us)} {format_spread(half)}"),
        "" if estimate is None else plain(format_estimate(estimate)),
        limit,
        f"{launch.count:g}",
        kind,
        name_cell(name),
    ]


UNDECIDED = 3
"""Kernels of a line whose possible implementations a hover lists."""


def kernel_tables(snapshot: Snapshot, line: int) -> list[str]:
    """Make the table of the kernels that have a part from `line`, one for each target."""
    measured, results = shown_benchmarks(snapshot), [kernel.shown for kernel in snapshot.kernels.values()]
    return [
        _kernel_table(result, row)
        for result in results
        if shows_estimates(result, measured) and (row := result.row(snapshot.path, line)) is not None
    ]


def _kernel_table(result: KernelResult, row: KernelRow) -> str:
    head = f"{code_span(result.key.name or '__main__')}: {plain(kernel_words(result, [row]))}"
    folded: Counter[tuple[str, ...]] = Counter(
        _kernel_cells(graph, kernel) for graph, kernel in row.line.launches
    )
    # Names come last: they are long, and a hover cuts off what does not fit.
    lines = ["| count | estimate | bound | moves | phase | kind | kernel |", "|--:|--:|:--|--:|:--|:--|:--|"]
    for (*facts, kernel), count in list(folded.items())[:LISTED]:
        lines.append("| " + " | ".join([str(count), *facts, name_cell(kernel)]) + " |")
    more = len(folded) - LISTED
    parts = [head, "\n".join(lines)]
    if more > 0:
        parts.append(f"and {more} more")
    saved = result.saved_on(row)
    if saved is not None:
        tensors = "tensor" if saved.tensors == 1 else "tensors"
        parts.append(f"Autograd saves {format_size(saved.bytes)} in {saved.tensors} {tensors} for backward.")
    parts += _undecided(row)
    others = len(result.launches_on(row)) - len(row.line.launches)
    if others:
        parts.append(f"Recompiled graphs have {format_count(others, 'more kernel')} of this line.")
    parts.append(
        "*The times are estimates for one call; nothing was launched. "
        "A kernel that several lines share is listed with its whole time.*"
    )
    return "\n\n".join(parts)


def _undecided(row: KernelRow) -> list[str]:
    """List the line's kernels with several implementations, of which a GPU chooses the fastest."""
    undecided = dict.fromkeys(
        (kernel.name, kernel.candidates) for _, kernel in row.line.launches if kernel.candidates
    )
    return [
        f"A GPU decides {code_span(name)} between {len(tried)}: {plain(candidates(tried))}."
        for name, tried in list(undecided)[:UNDECIDED]
    ]


def _kernel_cells(graph: GeneratedGraph, kernel: Kernel) -> tuple[str, ...]:
    """Estimate, bound, bytes, phase, kind and name of one launch, fit for a table."""
    moved = (kernel.bytes_read or 0) + (kernel.bytes_written or 0)
    work = [format_size(moved)] if moved else []
    work += [format_flops(kernel.flops)] if kernel.flops else []
    work = [text.replace(" ", "\N{NO-BREAK SPACE}") for text in work]
    return (
        "" if kernel.estimate_us is None else plain(format_estimate(kernel.estimate_us)),
        kernel.bound or "",
        ", ".join(work),
        graph.phase.value,
        kernel.kind.value.replace("_", " "),
        kernel.name,
    )

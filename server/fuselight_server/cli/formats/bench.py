"""`fuselight bench` as data (docs/bench.md), and for people: the verdict, the configurations, lines, and wall time.

Invariant: a measured time carries its spread, and an estimate its `~`; nothing is shown by color alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fuselight.shared.codec import encode
from fuselight.shared.configurations import configuration_title
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import (
    format_estimate,
    format_percent,
    format_ratio,
    format_size,
    format_spread,
    format_time,
)
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.json import finding_as_json
from fuselight_server.cli.formats.text_parts import (
    finding_line,
    print_machine,
    print_measured_heading,
    print_notes,
)
from fuselight_server.commands.notebook_cells import cell_names, check_in_cells
from fuselight_server.commands.notebook_lines import cell_of
from fuselight_server.commands.outcome import CheckOutcome, TargetBenchmark
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.benchmarks import exports, words
from fuselight_server.explain.benchmarks.history_diff import changes_in_words, compare, label, on_page
from fuselight_server.explain.benchmarks.page import Around, View, page
from fuselight_server.explain.benchmarks.page_types import (
    AccuracyCell,
    ConfigurationRow,
    KernelRow,
    MeasuredPage,
    PagePlace,
    ProfileDetails,
    VerdictLine,
    WallPart,
)
from fuselight_server.explain.benchmarks.timing_stats import clock_of, has_times, shown_of

_LEGEND = (
    "time: median of one call ± half the interquartile range; unsteady: it varies too much to rely on; "
    "memory: peak of one call, with parameters and inputs; first call: with its compile"
)
_KERNEL_LEGEND = {
    "alone": "the kernel launched by itself, repeatedly",
    "estimate": "predicted before the run",
    "of the limit": "part of the device's peak rate that it reaches",
}
"""Columns that few kernels have, and what they mean."""
_STEADY = 0.75
"""If the sum of the medians is below this part of the mean, calls took very different times; the page has the same."""
_MAX_ROWS = 25
"""Lines and kernels that are printed of one target."""
_MAX_PARTS = 12
"""Parts of a call that are printed, the longest."""
_MAX_TENSORS = 5
_BAR = 20
"""Characters of a full bar."""


def _page_of(benchmark: TargetBenchmark, outcome: CheckOutcome) -> MeasuredPage:
    """The page of a benchmark, and what changed since the one that it is compared with."""
    view = View(
        uri_of=lambda path: Path(cell_of(path)[0]).as_uri(),
        read_line=check_in_cells(outcome).sources.line,
        shown=shown_path,
        now=cell_names(outcome).line_in_cell,
    )
    comparison = None
    if benchmark.before is not None and benchmark.run is not None:
        comparison = on_page(compare(benchmark.before, benchmark.run), view)
    return page(benchmark.report, view, Around(comparison=comparison))


def as_json(outcome: CheckOutcome, benchmarks: Sequence[TargetBenchmark]) -> str:
    """All targets, each with its page, what --against takes, and its findings."""
    sources = check_in_cells(outcome).sources
    targets = [
        {
            "path": benchmark.report.target.path,
            "name": benchmark.report.target.name or "__main__",
            "page": encode(_page_of(benchmark, outcome)),
            "findings": [finding_as_json(each, sources) for each in _findings_of(benchmark, outcome)],
            "failures": encode(cell_names(outcome).report_in_cells(benchmark.report).failures),
            "run": encode(benchmark.run) if benchmark.run is not None else None,
        }
        for benchmark in benchmarks
    ]
    problems = encode(outcome.problems)
    return json.dumps({"schema": exports.SCHEMA, "targets": targets, "problems": problems}, indent=1) + "\n"


def _findings_of(benchmark: TargetBenchmark, outcome: CheckOutcome) -> tuple[Finding, ...]:
    return check_in_cells(outcome).of_measured(cell_names(outcome).report_in_cells(benchmark.report))


def as_csv(outcome: CheckOutcome, benchmarks: Sequence[TargetBenchmark]) -> str:
    """All targets in one table."""
    return exports.as_csv(*(_page_of(benchmark, outcome) for benchmark in benchmarks))


def as_html(outcome: CheckOutcome, benchmarks: Sequence[TargetBenchmark]) -> str:
    """The page of the first target that was measured. Raises NotBuiltError."""
    for benchmark in benchmarks:
        measured_page = _page_of(benchmark, outcome)
        if measured_page.found:
            return exports.as_html(measured_page)
    return ""


def print_benchmarks(
    outcome: CheckOutcome, benchmarks: Sequence[TargetBenchmark], terminal: Terminal
) -> None:
    """Print every target."""
    for benchmark in benchmarks:
        _print_target(benchmark, outcome, terminal)


def _print_target(benchmark: TargetBenchmark, outcome: CheckOutcome, terminal: Terminal) -> None:
    report, measured_page = benchmark.report, _page_of(benchmark, outcome)
    measured = report.measured
    where = ""
    if measured is not None and has_times(measured):
        clock = words.CLOCK[clock_of(measured)]
        where = f"{measured_page.work} on {words.device(measured.machine)}, timed by {clock}"
    in_cells = cell_names(outcome).report_in_cells(report)
    failed = print_measured_heading(in_cells, where, measured_page.inputs, terminal)
    if measured is None:
        terminal.print()
        return
    if has_times(measured):
        _print_verdict(measured_page, terminal)
    _print_rows(measured_page, terminal, printed=failed)
    shown = shown_of(measured)
    if shown is not None:
        _print_profile(shown.name, measured_page.profiles[shown.name], terminal)
    for finding in _findings_of(benchmark, outcome):
        terminal.print(finding_line(finding))
    _print_comparison(benchmark, outcome, terminal)
    print_notes(measured_page.notes, failed, terminal)
    print_machine(measured_page.machine, terminal)


def _print_verdict(measured_page: MeasuredPage, terminal: Terminal) -> None:
    if not measured_page.verdict:
        return
    headline, *others = measured_page.verdict
    terminal.print((_statement_text(headline), "bold"))
    details = [verdict_line for verdict_line in others if not verdict_line.configuration]
    for line in others:
        if line.configuration:
            terminal.print(f"  - {_statement_text(line)}")
    is_one_of_several = len(measured_page.configurations) > 2  # noqa: PLR2004 - eager and one more
    if details and is_one_of_several and headline.configuration:
        terminal.print(f"  Details for {configuration_title(headline.configuration)}:")
    for line in details:
        terminal.print(f"  - {_statement_text(line)}")


def _statement_text(statement: VerdictLine) -> str:
    place = f" ({_place_text(statement.place)})" if statement.place else ""
    return f"{statement.text}{place}"


def _place_text(place: PagePlace) -> str:
    return f"{place.path}:{place.line + 1}"


def _print_rows(measured_page: MeasuredPage, terminal: Terminal, *, printed: Sequence[str]) -> None:
    """Print one row for each configuration, then why some failed, unless that is `printed`."""
    rows = measured_page.configurations
    if all(row.us is None and row.failure in {None, *printed} for row in rows):
        return
    header = (
        "configuration",
        "time",
        "",
        "speed-up",
        "accuracy",
        "memory",
        "first call",
        "breaks",
        "recompiles",
    )
    terminal.print()
    terminal.print_table([header, *map(_row_cells, rows)])
    terminal.print((_LEGEND, "dim"))
    for row in rows:
        name = configuration_title(row.name)
        why = [f"failed: {row.failure}"] if row.failure and row.failure not in printed else []
        memory = [row.memory.text] if row.memory is not None else []
        for text in (*why, *memory, *row.notes):
            terminal.print(f"{name}: {text}")
        if row.accuracy is not None and row.accuracy.passed is not True:
            _print_accuracy(name, row.accuracy, terminal)


def _row_cells(row: ConfigurationRow) -> tuple[str, ...]:
    accuracy = row.accuracy
    passed = {None: "not compared", True: "passed", False: "FAILED"}
    spread = format_spread(row.spread) if row.spread is not None else ""
    return (
        configuration_title(row.name),
        format_time(row.us) if row.us is not None else "failed" if row.failure else "not measured",
        f"{spread} unsteady" if row.unsteady else spread,
        format_ratio(row.speedup) if row.speedup is not None else "-",
        "-" if accuracy is None else passed[accuracy.passed],
        format_size(row.peak_bytes) if row.peak_bytes is not None else "-",
        format_time(row.first_us) if row.first_us is not None else "-",
        _number(row.graph_breaks),
        _number(row.recompiles),
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _print_accuracy(name: str, accuracy: AccuracyCell, terminal: Terminal) -> None:
    place = _place_text(accuracy.place) if accuracy.place else ""
    at = f" ({place})" if place not in accuracy.text else ""
    terminal.print(f"{name}: {accuracy.text}{at}")
    for tensor in [error for error in accuracy.tensors if not error.passed][:_MAX_TENSORS]:
        figures = ", ".join(
            f"{what} {getattr(tensor, key):.6g}"
            for what, key in (("cosine", "cosine"), ("largest error", "absolute"), ("relative", "relative"))
            if getattr(tensor, key) is not None
        )
        terminal.print(f"    {tensor.what}: {figures or 'not a number'}")


def _print_profile(name: str, profile: ProfileDetails, terminal: Terminal) -> None:
    """Print lines, kernels and wall time, each only if it has rows."""
    shown_name = configuration_title(name)
    if profile.lines:
        lines = [
            (
                _place_text(line.place),
                format_time(line.us),
                format_percent(line.share),
                line.place.text,
            )
            for line in profile.lines
        ]
        terminal.print((f"\nkernel time by line, {shown_name}", "bold"))
        terminal.print_table([("line", "time", "share", "source"), *lines[:_MAX_ROWS]])
        terminal.print_more(len(lines) - _MAX_ROWS, "line")
    if profile.kernels:
        kernels = [_kernel_cells(kernel, has_lines=not profile.no_lines) for kernel in profile.kernels]
        terminal.print((f"\nkernels, {shown_name}", "bold"))
        header = ("time", *_KERNEL_LEGEND, "count", "kernel")
        shown = terminal.print_table([header, *kernels[:_MAX_ROWS]])
        terminal.print_more(len(kernels) - _MAX_ROWS, "kernel")
        legend = [f"{column}: {meaning}" for column, meaning in _KERNEL_LEGEND.items() if column in shown]
        if legend:
            terminal.print(("; ".join(legend), "dim"))
        if profile.no_lines:
            terminal.print(profile.no_lines)
    if profile.where:
        _print_wall_time(shown_name, profile, terminal)
    terminal.print()


def _print_wall_time(name: str, profile: ProfileDetails, terminal: Terminal) -> None:
    parts = [
        (format_time(part.us), format_percent(part.share), _bar(part.share), _part_text(part))
        for part in _longest(profile.where)
    ]
    whole = f"{format_time(profile.wall_us)}, with the profiler on ({profile.source})"
    terminal.print((f"\nwall time of one call, {name}: {whole}", "bold"))
    terminal.print_table(parts, has_header=False)
    terminal.print_more(len(profile.where) - _MAX_PARTS, "part")
    medians = sum(kernel.us for kernel in profile.kernels)
    if medians < _STEADY * profile.kernel_us:
        text = (
            f"Times by line and by kernel are medians ({format_time(medians)} in total); wall times are means. "
            "They differ because some profiled calls took much longer than others."
        )
        terminal.print((text, "dim"))


def _longest(parts: Sequence[WallPart]) -> list[WallPart]:
    """The longest parts, in their order, whatever their kind."""
    longest = sorted(range(len(parts)), key=lambda index: -parts[index].us)[:_MAX_PARTS]
    return [parts[index] for index in sorted(longest)]


def _kernel_cells(row: KernelRow, *, has_lines: bool) -> tuple[str, ...]:
    return (
        format_time(row.us),
        format_time(row.isolated_us) if row.isolated_us is not None else "-",
        format_estimate(row.estimate_us) if row.estimate_us is not None else "-",
        format_percent(row.of_limit) if row.of_limit is not None else "-",
        f"{row.count:g}",
        row.name + ("" if row.joined or not has_lines else "  (no source line)"),
    )


def _bar(share: float) -> str:
    return ("#" * round(_BAR * min(max(share, 0.0), 1.0))).ljust(_BAR)


def _part_text(part: WallPart) -> str:
    what = f" ({part.what})" if part.what else ""
    return f"{part.label}{what}" + (f"  {_place_text(part.place)}" if part.place else "")


def _print_comparison(benchmark: TargetBenchmark, outcome: CheckOutcome, terminal: Terminal) -> None:
    if benchmark.before is None or benchmark.run is None:
        return
    comparison = compare(benchmark.before, benchmark.run)
    changes = changes_in_words(comparison, benchmark.run, cell_names(outcome).line_in_cell)
    terminal.print((f"\nagainst {label(benchmark.before.past)}", "bold"))
    for text in comparison.differs:
        terminal.print(f"  differs between the runs: {text}")
    for text in changes[:_MAX_ROWS]:
        terminal.print(f"  {text}")
    terminal.print_more(len(changes) - _MAX_ROWS, "change")
    if not changes:
        terminal.print("  nothing changed by more than the spread")

"""What results say in a line: the words of kernels, benchmarks and searches in lenses, hovers and the report.

Invariant: every estimate carries its `~`. A kernel that several lines share gives each its part of the time, so that
the parts of all lines are the target's total. A measured time replaces an estimate as long as the code is what was
measured; after an edit the estimates are back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TypeVar

from fuselight.shared.configurations import WRITTEN
from fuselight.shared.report import Failure, Tier
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_line_ranges,
    format_moment,
    format_percent,
    format_size,
    format_target,
)
from fuselight_server.editor.results.benchmarks import MeasuredResult, MeasuredRow
from fuselight_server.editor.results.kernels import KernelResult, KernelRow
from fuselight_server.editor.results.snapshot import Snapshot
from fuselight_server.editor.results.target_result import STILL_RUNNING, TargetResult
from fuselight_server.editor.results.tunings import TuningResult
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.benchmarks import words
from fuselight_server.explain.benchmarks.words import benchmark_times, failed, first_calls, line_summary
from fuselight_server.explain.findings.failures import short_end
from fuselight_server.explain.kernels.summary import target_details, target_summary
from fuselight_server.explain.searches.words import headline, lens_words, progress_best

LONGEST = 60
"""Characters of a lens. Its tooltip and the hover of the same line have the rest."""

_LONGEST_NAME = 32
"""Characters of the name of a file in a lens."""

STALE = "before your edit"
VERIFIED = "verified"


@dataclass(frozen=True)
class Info:
    """A lens that informs."""

    text: str
    state: str = ""
    """Why the result is not final or not of the current text; `STALE`, or what the result says of itself."""
    command: str = ""
    """The client's command that a click runs."""
    target: str | None = None
    """The target that the command is for, if that is another one."""
    tooltip: str = ""
    """The whole sentence, if the text is a part of it."""
    is_for_file: bool = False
    """Whether the command is for the whole file."""


@dataclass(frozen=True)
class LineFact:
    """What is said on a line of its part in kernels."""

    line: int
    text: str
    target: str | None
    """Of the kernels whose source a click opens; None where there is none."""
    first: int
    """The first line of the kernels."""
    last: int


def format_where(place: SourceLine, reference: str) -> str:
    """`line 38` in the file `reference`, else `layers.py:38`, with the end of a long name."""
    if place.path == reference:
        return f"line {place.line}"
    name = PurePath(place.path).name
    if len(name) > _LONGEST_NAME:
        name = f"\N{HORIZONTAL ELLIPSIS}{name[1 - _LONGEST_NAME :]}"
    return f"{name}:{place.line}"


def shorten(text: str, longest: int = LONGEST) -> str:
    """Cut `text` where a lens ends."""
    line = " ".join(text[: 2 * longest].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def age(result: TargetResult) -> str:
    """Say that a result is of the text before an edit, of a verified fix, or when an earlier session made it."""
    if result.verified and not result.stale:
        return VERIFIED
    if result.stale or not result.restored:
        return STALE if result.stale else ""
    return f"from {format_moment(result.restored)}"


def with_state(text: str, state: str) -> str:
    """Append a state in parentheses."""
    return f"{text} ({state})" if state else text


def caveats(result: TargetResult) -> str:
    """Say why a result is not final, and that it is not of the current text."""
    return with_state(with_state("", result.unfinished), age(result))


def _state(result: TargetResult, *, is_running: bool) -> str:
    return STILL_RUNNING if is_running and result.unfinished else result.unfinished or age(result.shown)


BENCH = "fuselight.server.bench"
CANCEL_BENCHMARK = "fuselight.server.cancelBench"
ASK_BENCHMARK = "fuselight.benchmark"
SHOW_BENCHMARK = "fuselight.showBenchmark"
"""The client's commands: one that asks what to measure before it asks the server, one that opens the page."""

TUNE = "fuselight.server.tune"
CANCEL_TUNING = "fuselight.server.cancelTune"
ASK_TUNE = "fuselight.tune"
SHOW_TUNING = "fuselight.showTuning"
"""The client's commands: one that starts a search and opens its page, one that only opens the page."""

ACCURACY = "fuselight.server.accuracy"
CANCEL_ACCURACY = "fuselight.server.cancelAccuracy"

MEMORY = "fuselight.server.memory"
CANCEL_MEMORY = "fuselight.server.cancelMemory"

_PLAIN = frozenset({WRITTEN, "default"})
"""Configurations that a line does not name."""
_CONFIGURATIONS = 3
"""Configurations that a summary names, eager apart."""


def benchmark_info(result: MeasuredResult, *, is_running: bool) -> Info:
    """Say what was measured of a target: `eager 12.3 ms, default 4.1 ms (3.0×)`."""
    shown = result.shown
    state = _state(result, is_running=is_running)
    measured = shown.report.measured
    if result.unfinished == STILL_RUNNING and not result.has_data:
        return Info(first_calls(measured.configurations if measured else (), 2), state, SHOW_BENCHMARK)
    if not shown.has_data or measured is None:
        return Info(f"benchmark {_short_end(result.failures)}", "", SHOW_BENCHMARK, tooltip=_nothing(result))
    end = _later_end(result)
    text = benchmark_times(measured, _CONFIGURATIONS, LONGEST - len(end) - (len(state) + 3 if state else 0))
    return Info(text + end, state, SHOW_BENCHMARK, tooltip=benchmark_summary(result))


def benchmark_summary(result: MeasuredResult) -> str:
    """Say all in one line: `eager 12.3 ms, default 4.1 ms (3.0×), measured on NVIDIA H200`."""
    shown = result.shown
    if result.unfinished == STILL_RUNNING and not result.has_data:
        rows = result.report.measured.configurations if result.report.measured is not None else ()
        return with_state(first_calls(rows, _CONFIGURATIONS + 1), "still measuring")
    if not shown.has_data or shown.report.measured is None:
        return _nothing(result)
    measured = shown.report.measured
    text = f"{benchmark_times(measured, _CONFIGURATIONS)}, measured on {words.device(measured.machine)}"
    peaks = words.peaks_of_tensors(measured, _CONFIGURATIONS)
    text += f"; {peaks}" if peaks else ""
    return f"{text}{caveats(shown)}{_later_sentence(result)}"


def _nothing(result: MeasuredResult) -> str:
    return f"no benchmark: {failed(result.failures[0]) if result.failures else 'nothing was measured'}"


def _short_end(failures: Sequence[Failure]) -> str:
    """How a run without a result ended, in a few words."""
    return short_end(failures[0]) if failures else "measured nothing"


def _later_end(result: KernelResult | MeasuredResult | TuningResult) -> str:
    """`, stopped at the time limit`: how the run ended if not well, or the one after what is shown."""
    failures = result.report.failures or (() if result.shown is result else result.failures)
    if failures:
        return f", {short_end(failures[0])}"
    return "" if result.shown is result or result.unfinished else ", failed later"


def _later_sentence(result: KernelResult | MeasuredResult | TuningResult) -> str:
    """The same as a sentence with what to do, for a hover and a tooltip."""
    failures = result.report.failures or (() if result.shown is result else result.failures)
    return end_in_words(failures, is_shown=result.shown is result)


def end_in_words(failures: Sequence[Failure], *, is_shown: bool) -> str:
    """How the run that is shown ended if not well, or the one after it, as the end of a sentence."""
    if not failures:
        return ""
    return f"; {'' if is_shown else 'the next run: '}{failed(failures[0])}"


def tuning_info(result: TuningResult, *, is_running: bool) -> Info:
    """Say what a search decided: `Tuned: 1.34× over default`."""
    shown = result.shown
    tuned = shown.tuned
    if tuned is None or not shown.has_data:
        return Info(f"search {_short_end(result.failures)}", "", SHOW_TUNING, tooltip=_not_tuned(result))
    text = lens_words(tuned)
    if tuned.result is None and not tuned.finished:
        text = progress_best(tuned) or "nothing faster than default yet"
    state = _state(result, is_running=is_running)
    return Info(text + _later_end(result), state, SHOW_TUNING, tooltip=tuning_summary(result))


def tuning_summary(result: TuningResult) -> str:
    """Say all in one line: the decision, and where it was measured."""
    shown = result.shown
    tuned = shown.tuned
    if tuned is None or not shown.has_data:
        return _not_tuned(result)
    text = f"{headline(tuned)}, on {words.device(tuned.machine)}"
    return f"{text}{caveats(shown)}{_later_sentence(result)}"


def _not_tuned(result: TuningResult) -> str:
    return f"not tuned: {failed(result.failures[0]) if result.failures else 'nothing was measured'}"


def shown_benchmarks(snapshot: Snapshot) -> list[MeasuredResult]:
    """Return the benchmarks whose times stand on lines of the file, the newest first."""
    measured_results = []
    for key, measured_result in snapshot.measured.items():
        estimates = snapshot.kernels.get(Key(key.path, key.name, Tier.KERNELS))
        if measured_result.shown.lines and not _is_superseded(
            measured_result.shown, estimates.shown if estimates is not None else None
        ):
            measured_results.append(measured_result.shown)
    return sorted(measured_results, key=lambda result: -result.generation)


def shows_estimates(result: KernelResult, measured: Iterable[MeasuredResult]) -> bool:
    """Whether a target's estimates stand on its lines: no measurement does."""
    return all(
        (measured_result.key.path, measured_result.key.name) != (result.key.path, result.key.name)
        for measured_result in measured
    )


def _is_superseded(measured: MeasuredResult, estimates: KernelResult | None) -> bool:
    """Whether estimates are shown instead: of the code as it is now, or for another device, asked for since."""
    if estimates is None or not estimates.has_data:
        return False
    if measured.stale:
        return True
    elsewhere = measured.report.target_device is None or (
        estimates.report.target_device is not None
        and estimates.report.target_device.key != measured.report.target_device.key
    )
    return elsewhere and not estimates.stale and estimates.generation > measured.generation


def measured_words(result: MeasuredResult, rows: list[MeasuredRow], *, longest: int | None = None) -> str:
    """Say the part of some lines: `2 kernels, 38.4 µs ± 1% (17%), fused with lines 12-19`.

    Without a length, all about them: where it was measured, and whether that is current.
    """
    text = line_summary((row.line for row in rows), result.us)
    if longest is not None:
        return text + fused(rows, longest - len(text))
    measured, configuration = result.report.measured, result.configuration
    named = (
        f" as {configuration.name}" if configuration is not None and configuration.name not in _PLAIN else ""
    )
    text += f", measured{named} on {words.device(measured.machine)}" if measured is not None else ""
    return text + fused(rows) + caveats(result)


def fused(rows: Sequence[KernelRow | MeasuredRow], longest: int | None = None) -> str:
    """`, fused with lines 12-19`: the lines that share kernels with `rows`; their number where that is too long."""
    lines = frozenset[SourceLine]().union(*(row.fused_with for row in rows)) - {row.place for row in rows}
    if not lines:
        return ""
    text = f", fused with {format_line_ranges(lines, rows[0].place)}"
    return (
        text
        if longest is None or len(text) <= longest
        else f", fused with {format_count(len(lines), 'line')}"
    )


USE_INPUTS = "fuselight.server.useInputs"
ADD_INPUTS = "fuselight.server.addInputs"
SHOW_FIRST = "fuselight.server.showFirst"
KERNELS = "fuselight.server.kernels"
SHOW_KERNEL = "fuselight.showKernel"
"""The client's command that opens the source of a kernel."""
DETAILS = "fuselight.showDetails"
SHOW_JOB = "fuselight.showJob"
"""The client's command that opens the page of a job."""


def kernel_info(result: KernelResult, *, is_running: bool) -> Info:
    """Say how many kernels a target has: `24 kernels, ~228 µs on h200`."""
    shown = result.shown
    if not shown.has_data:
        return Info(f"kernels: {_short_end(result.failures)}", "", DETAILS, tooltip=kernel_summary(result))
    text = target_summary(shown.report) + _later_end(result)
    return Info(text, _state(result, is_running=is_running), DETAILS, tooltip=kernel_summary(result))


def kernel_summary(result: KernelResult) -> str:
    """Say all that a run generated: `24 kernels, ~228 µs on h200, saves 12.6 MB for backward`."""
    shown = result.shown
    if not shown.has_data:
        return f"no kernels: {failed(result.failures[0])}"
    text = target_details(shown.report, shown.kept_bytes)
    if shown.headline:
        text += f" - {shown.headline}"
    return f"{text}{caveats(shown)}{_later_sentence(result)}"


def line_facts(snapshot: Snapshot) -> Iterator[LineFact]:
    """Say of each line, or each function, its part in kernels: measured times before estimates."""
    how = snapshot.settings.kernels.lens
    if how == "off":
        return
    measured = shown_benchmarks(snapshot)
    estimated = [
        kernel.shown for kernel in snapshot.kernels.values() if shows_estimates(kernel.shown, measured)
    ]
    estimated.sort(key=lambda kernel_result: -kernel_result.generation)
    shown: list[MeasuredResult | KernelResult] = [*measured, *estimated]
    several = sum(bool(result.rows(snapshot.path)) for result in shown) > 1
    covered: set[int] = set()
    for benchmark in measured:
        for line, timed in _grouped(snapshot, benchmark.rows(snapshot.path), covered):
            text = _named(benchmark, several) + measured_words(benchmark, timed, longest=LONGEST)
            yield _line_fact(snapshot, benchmark, line, timed, text)
    for result in estimated:
        for line, group in _grouped(snapshot, result.rows(snapshot.path), covered):
            text = _named(result, several) + kernel_words(result, group, longest=LONGEST)
            yield _line_fact(snapshot, result, line, group, text)


def _line_fact(
    snapshot: Snapshot,
    result: KernelResult | MeasuredResult,
    line: int,
    rows: Sequence[KernelRow | MeasuredRow],
    text: str,
) -> LineFact:
    has_source = replace(result.key, tier=Tier.KERNELS) in snapshot.kernels
    target = result.key.name if has_source else None
    return LineFact(line, text, target, rows[0].place.line, rows[-1].place.line)


Lined = TypeVar("Lined", "KernelRow", "MeasuredRow")


def _grouped(snapshot: Snapshot, rows: Iterable[Lined], covered: set[int]) -> list[tuple[int, list[Lined]]]:
    """Put rows on lines that are not `covered` yet, or under their functions, as the settings say."""
    fresh = [row for row in rows if row.place.line not in covered]
    covered.update(row.place.line for row in fresh)
    if snapshot.settings.kernels.lens == "function":
        return _functions(snapshot, fresh)
    return [(row.place.line, [row]) for row in fresh]


def _named(result: KernelResult | MeasuredResult, several: bool) -> str:  # noqa: FBT001 - one of two words
    return f"{format_target(result.key.name)}: " if several else ""


def kernel_words(result: KernelResult, rows: list[KernelRow], *, longest: int | None = None) -> str:
    """Say the part of some lines: `2 kernels, ~41 µs (18%), fused with lines 12-19`.

    Without a length, all about them: for which device, what they save for backward, and whether that is current.
    """
    launches = {(id(graph), kernel.launch) for row in rows for graph, kernel in row.line.launches}
    text, on = format_count(len(launches), "kernel"), f" on {result.device}" if longest is None else ""
    if result.us:
        us = sum(row.us for row in rows)
        text += f"{f', {format_estimate(us)}' if us else ''}{on} ({format_percent(us, result.us)})"
    else:
        text += f"{on}, {format_size(float(sum(row.line.bytes for row in rows)))}"
    if longest is not None:
        return text + fused(rows, longest - len(text))
    text += fused(rows)
    saved = sum(kept_line.bytes for row in rows if (kept_line := result.saved_on(row)) is not None)
    if saved:
        text += f", saves {format_size(saved)} for backward"
    return text + caveats(result)


def _functions(snapshot: Snapshot, rows: Iterable[Lined]) -> list[tuple[int, list[Lined]]]:
    """Put lines under the innermost function or module around them; the rest stand for themselves."""
    groups: dict[int, list[Lined]] = {}
    for row in rows:
        line = row.place.line
        around = [
            target
            for target in snapshot.reading.targets
            if target.span.line <= line <= (target.span.end_line or target.span.line)
        ]
        inner = max(around, key=lambda target: target.span.line, default=None)
        groups.setdefault(inner.name_span.line if inner else line, []).append(row)
    return sorted(groups.items())

"""A comparison of results with eager mode, in a lens and in one line.

Invariant: a target is said to be as eager mode only for the calls that were compared.
"""

from __future__ import annotations

from fuselight.shared.report import ResultComparison
from fuselight_server.base.result_verdicts import AS_EAGER, NOT_COMPARED
from fuselight_server.editor.results.accuracy import AccuracyResult
from fuselight_server.editor.results.lens_facts import DETAILS, Info, age, caveats, end_in_words, format_where
from fuselight_server.editor.results.target_result import STILL_RUNNING
from fuselight_server.explain.benchmarks.words import failed
from fuselight_server.explain.findings.common.result_words import (
    compared_calls,
    not_compared,
    results_in_words,
)
from fuselight_server.explain.findings.failures import short_end


def accuracy_info(result: AccuracyResult, *, is_running: bool) -> Info:
    """Say the verdict: `accuracy: as eager`, `results differ from eager: line 12`, `accuracy: not compared: ...`."""
    shown = result.shown
    state = STILL_RUNNING if is_running and result.unfinished else result.unfinished or age(shown)
    tooltip = accuracy_summary(result)
    results = shown.results
    if results is None or not shown.has_data:
        end = short_end(result.report.failures[0]) if result.report.failures else "nothing was compared"
        return Info(f"accuracy: {end}", "", DETAILS, tooltip=tooltip)
    later = "" if shown is result or result.unfinished else ", failed later"
    return Info(f"{_verdict(shown, results)}{later}", state, DETAILS, tooltip=tooltip)


def _verdict(shown: AccuracyResult, results: ResultComparison) -> str:
    compared = len(compared_calls(results))
    if shown.is_wrong:
        lines = [format_where(line, shown.key.path) for line in shown.lines_now()]
        more = f" and {len(lines) - 1:,} more" if len(lines) > 1 else ""
        return f"results differ from eager: {lines[0]}{more}" if lines else "results differ from eager"
    if not compared:
        why = next((why for _, why in not_compared(results)), "no call of compiled code was made")
        return f"accuracy: {NOT_COMPARED}: {why}"
    if compared < results.call_count:
        return f"accuracy: {AS_EAGER} in {compared:,} of {results.call_count:,} calls"
    return f"accuracy: {AS_EAGER}"


def accuracy_summary(result: AccuracyResult) -> str:
    """Say all in one line: `as eager (5 calls, 23 values compared)`, whether that is current, how a later run ended."""
    shown = result.shown
    if shown.results is None or not shown.has_data:
        why = failed(result.report.failures[0]) if result.report.failures else "nothing was compared"
        return f"{NOT_COMPARED}: {why}"
    end = end_in_words(result.report.failures, is_shown=shown is result)
    return f"{results_in_words(shown.results)}{caveats(shown)}{end}"

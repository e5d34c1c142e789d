"""`fuselight accuracy --format html`: one file that needs no network, with calls, differences, settings, coverage.

Invariant: what was not compared is listed, with the reason, and no text of a program becomes markup.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuselight.shared.report import ComparedCall, Location, Report
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_count, format_ratio, format_target
from fuselight_server.base.result_verdicts import AS_EAGER, DIFFERS, NOT_COMPARED
from fuselight_server.cli.formats.accuracy import accuracy_verdict
from fuselight_server.cli.formats.finding_parts import severity_word
from fuselight_server.cli.formats.text_parts import target_name
from fuselight_server.commands.accuracy import AccuracyOutcome, ResultsState, state_of
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.findings.common.result_words import (
    STAGE_NAMES,
    call_words,
    cause_of,
    compared_calls,
    not_compared,
    remarks,
    setting_text,
)
from fuselight_server.explain.pages.document import static_page
from fuselight_server.explain.pages.parts import (
    ROWS,
    TableCell,
    TableLine,
    filled_columns,
    html_section,
    html_table,
    html_text,
    number_cell,
    search_bar,
)

_CALL_COLUMNS = (
    "target", "call", "function", "called on", "verdict", "result", "first line that differs", "operator", "stage",
    "values", "eager, ms", "compiled, with the compile if any, ms",
)  # fmt: skip


def accuracy_as_page(outcome: AccuracyOutcome) -> str:
    """The page of a command's targets."""
    sections = [
        _targets(outcome),
        _differences(outcome),
        _calls(outcome),
        _settings(outcome),
        _notes(outcome),
    ]
    return static_page("Accuracy of compiled results", _headline(outcome), (), filter(None, sections))


def _headline(outcome: AccuracyOutcome) -> str:
    states = [_state_words(report) for report in outcome.check.reports]
    counts = [(states.count(words), words) for words in dict.fromkeys(states)]
    parts = [f"{format_count(count, 'target')} {words}" for count, words in counts if count]
    return ", ".join(parts) or "no target was compared"


def _targets(outcome: AccuracyOutcome) -> str:
    lines = [
        TableLine(
            (
                TableCell(target_name(report)),
                _state_cell(_state_words(report)),
                TableCell(accuracy_verdict(report)),
                number_cell(report.results.call_count if report.results is not None else None),
                number_cell(len(compared_calls(report.results)) if report.results is not None else None),
                TableCell("; ".join(_left_out(report))),
            )
        )
        for report in outcome.check.reports
    ]
    columns = ("target", "state", "verdict", "calls", "compared", "not compared")
    return html_section("Targets", html_table("One row for each target", *filled_columns(columns, lines)))


def _state_cell(words: str) -> TableCell:
    return TableCell(words, css="failure" if words == DIFFERS else "")


def _state_words(report: Report) -> str:
    state = state_of(report)
    if state is ResultsState.AS_EAGER:
        return _as_reference(report)
    return DIFFERS if state is ResultsState.DIFFERS else NOT_COMPARED


def _as_reference(report: Report) -> str:
    """`as eager`, or as the configuration that calls were compared with."""
    against = report.results.against if report.results is not None else ""
    return f"as {against}" if against else AS_EAGER


def _left_out(report: Report) -> Iterator[str]:
    yield from (f"failed: {failure.message}. {failure.next_step}".rstrip() for failure in report.failures)
    for count, why in not_compared(report.results) if report.results is not None else ():
        yield f"{format_count(count, 'call')}: {why}"


def _differences(outcome: AccuracyOutcome) -> str:
    parts = [_difference(finding, outcome) for finding in outcome.check.findings]
    return html_section("Results that differ", *parts) if parts else ""


def _difference(finding: Finding, outcome: AccuracyOutcome) -> str:
    place = f"{shown_path(finding.span.path)}:{finding.span.line}"
    head = f"{severity_word(finding)}[{finding.code}] {place}: {finding.title}"
    source = outcome.check.sources.line(finding.span.path, finding.span.line)
    text = "\n\n".join(filter(None, [source.strip() if source else "", finding.message]))
    return f"<details open><summary>{html_text(head)}</summary><pre>{html_text(text)}</pre></details>"


def _calls(outcome: AccuracyOutcome) -> str:
    lines = [
        _call_line(report, call)
        for report in outcome.check.reports
        for call in (report.results.calls if report.results is not None else ())
    ]
    if not lines:
        return ""
    columns, filled = filled_columns(_CALL_COLUMNS, lines)
    names = dict.fromkeys(map(target_name, outcome.check.reports))
    verdicts = dict.fromkeys((*map(_as_reference, outcome.check.reports), DIFFERS, NOT_COMPARED))
    bar = search_bar("Target", names, "Verdict", verdicts)
    caption = "One row for each call that was looked at; press a heading to sort"
    return html_section("Calls", bar, html_table(caption, columns, filled, table_id=ROWS))


def _call_line(report: Report, call: ComparedCall) -> TableLine:
    words = DIFFERS if call.is_wrong else _as_reference(report) if call.is_as_eager else NOT_COMPARED
    cause = cause_of(report.results, call) if report.results is not None else None
    return TableLine(
        (
            TableCell(target_name(report)),
            number_cell(call.index + 1),
            TableCell(format_target(call.name)),
            TableCell(_place(call.caller)),
            _state_cell(words),
            TableCell(call_words(call)),
            TableCell(_place(call.accuracy.first[-1] if call.accuracy.first else None)),
            TableCell(call.accuracy.first_operator or ""),
            TableCell(STAGE_NAMES[cause.stage] if cause is not None else ""),
            number_cell(call.accuracy.compared or None),
            _milliseconds(call.eager_seconds),
            _milliseconds(call.compiled_seconds),
        ),
        {"job": target_name(report), "status": words},
    )


def _place(at: Location | None) -> str:
    return f"{shown_path(at.path)}:{at.line}" if at is not None else ""


def _milliseconds(seconds: float) -> TableCell:
    return number_cell(1000 * seconds, f"{1000 * seconds:.2f}") if seconds else TableCell("")


def _settings(outcome: AccuracyOutcome) -> str:
    lines = [
        TableLine(
            (
                TableCell(target_name(report)),
                number_cell(cause.call + 1),
                TableCell(STAGE_NAMES[cause.stage]),
                TableCell(setting_text(setting).strip("`")),
                TableCell("results as in eager mode" if setting.cures else "the results still differ"),
                TableCell(format_ratio(setting.ratio) if setting.ratio is not None else ""),
            )
        )
        for report in outcome.check.reports
        for cause in (report.results.causes if report.results is not None else ())
        for setting in cause.tried
    ]
    if not lines:
        return ""
    columns = ("target", "call", "stage", "setting", "with it", "time of a call")
    return html_section(
        "Settings of torch that were tried",
        html_table("One row for each setting and call", *filled_columns(columns, lines)),
    )


def _notes(outcome: AccuracyOutcome) -> str:
    notes = dict.fromkeys(_note_texts(outcome))
    return html_section("Notes", *(f"<p>{html_text(note)}</p>" for note in notes)) if notes else ""


def _note_texts(outcome: AccuracyOutcome) -> Iterator[str]:
    for report in outcome.check.reports:
        name = target_name(report)
        yield from (f"{name}: {note}" for note in (remarks(report.results) if report.results else ()))
        yield from (f"{name}: {note.text}" for note in report.notes if note.kind == "cuda_graphs")
        yield from (f"{name}: {problem.what}: {problem.why}" for problem in report.problems)
    yield from (f"{problem.what}: {problem.why}" for problem in outcome.check.problems)

"""`fuselight tune` for people and as data: the decision, what each knob could gain, what was tried, how to replay it.

Invariant: nothing is shown by color alone, and the data has everything that the text says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fuselight.shared.codec import encode
from fuselight.shared.report import TuneOutcome
from fuselight_server.base.formatting import format_ratio, format_spread, format_time
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.text_parts import print_machine, print_measured_heading, print_notes
from fuselight_server.commands.notebook_cells import CellNames, cell_names
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import shown_path
from fuselight_server.commands.tune import TargetSearch
from fuselight_server.explain.benchmarks import words
from fuselight_server.explain.pages.document import standalone_page
from fuselight_server.explain.searches.page import Surroundings, page
from fuselight_server.explain.searches.page_types import CandidateRow, KnobRow, TunedPage

SCHEMA = 1
_LEGEND = (
    "time: median of all rounds ± half the interquartile range; gain: how many times as fast as default in the same "
    "rounds, of the winner in the confirming race; first call: with its compile"
)
_KNOB_LEGEND = (
    "at most: how many times as fast as default, if the knob removed all of the part that it acts on"
)


def _page_of(search: TargetSearch) -> TunedPage:
    written = search.written
    around = Surroundings()
    if written is not None:
        uri = "" if written.problem else Path(written.path).as_uri()
        around = Surroundings(file=uri, file_shown=shown_path(written.path), file_problem=written.problem)
    return page(search.report, around, uri_of=lambda path: Path(path).as_uri(), shown=shown_path)


def as_json(outcome: CheckOutcome, searches: Sequence[TargetSearch]) -> str:
    """All targets, each with its page, its result as the tuned file has it, and its failures."""
    targets = [
        {
            "path": search.report.target.path,
            "name": search.report.target.name or "__main__",
            "page": encode(_page_of(search)),
            "result": encode(search.report.tuned.result)
            if search.report.tuned is not None and search.report.tuned.result is not None
            else None,
            "failures": encode(cell_names(outcome).report_in_cells(search.report).failures),
        }
        for search in searches
    ]
    return (
        json.dumps({"schema": SCHEMA, "targets": targets, "problems": encode(outcome.problems)}, indent=1)
        + "\n"
    )


def as_html(_outcome: CheckOutcome, searches: Sequence[TargetSearch]) -> str:
    """The page of the first target that was searched. Raises NotBuiltError."""
    for search in searches:
        tuned_page = _page_of(search)
        if tuned_page.found:
            return standalone_page(tuned_page, f"Tuning: {tuned_page.title}", "tune")
    return ""


def print_searches(outcome: CheckOutcome, searches: Sequence[TargetSearch], terminal: Terminal) -> None:
    """Print every target."""
    for search in searches:
        _print_target(search, cell_names(outcome), terminal)


def _print_target(search: TargetSearch, names: CellNames, terminal: Terminal) -> None:
    report, tuned_page = search.report, _page_of(search)
    tuned = report.tuned
    where = ""
    if tuned is not None:
        on = f" on {words.device(tuned.machine)}" if words.has_device(tuned.machine) else ""
        where = f"{tuned_page.work}{on}"
    failed = print_measured_heading(names.report_in_cells(report), where, tuned_page.inputs, terminal)
    if tuned is None:
        terminal.print()
        return
    headline, *others = tuned_page.statements
    terminal.print((headline, "bold"))
    for text in others:
        terminal.print(f"  - {text}")
    _print_knobs(tuned_page.knobs, terminal)
    _print_candidates(tuned_page.candidates, terminal, printed=failed)
    print_notes(tuned_page.notes, failed, terminal)
    _print_replay(tuned_page, terminal)
    print_machine(tuned_page.machine, terminal)


def _print_knobs(knobs: Sequence[KnobRow], terminal: Terminal) -> None:
    """Print what each knob could gain, and why some were not tried; those that do not apply, by their reason."""
    rows = [
        (
            row.label,
            format_ratio(row.ceiling) if row.ceiling is not None else "-",
            format_time(row.bound_us) if row.bound_us is not None else "-",
            "yes" if row.tried else "no",
            _why_of(row),
        )
        for row in knobs
        if row.applies
    ]
    if rows:
        terminal.print(("\nwhat each knob could gain", "bold"))
        terminal.print_table([("knob", "at most", "of a call", "tried", ""), *rows])
        terminal.print((_KNOB_LEGEND, "dim"))
    reasons: dict[str, list[str]] = {}
    for knob in knobs:
        if not knob.applies:
            reasons.setdefault(knob.why, []).append(knob.label)
    for why, labels in reasons.items():
        terminal.print((f"not tried, {why}: {', '.join(labels)}", "dim"))


def _why_of(knob: KnobRow) -> str:
    return ": ".join(part for part in (knob.bound, knob.why) if part)


def _print_candidates(
    candidates: Sequence[CandidateRow], terminal: Terminal, *, printed: Sequence[str]
) -> None:
    """Print what was tried, in that order, then why some have no time, without the reasons that are `printed`."""
    tried = [candidate for candidate in candidates if candidate.outcome is not TuneOutcome.SKIPPED]
    if any(candidate_row.us is not None or candidate_row.why not in printed for candidate_row in tried):
        terminal.print(("\nconfigurations, in the order of the trials", "bold"))
        header = ("configuration", "time", "", "gain", "results", "first call", "outcome")
        terminal.print_table([header, *map(_candidate_cells, tried)])
        terminal.print((_LEGEND, "dim"))
    for row in tried:
        accuracy = [row.accuracy] if row.accurate is False else []
        memory = [row.memory.text] if row.memory is not None else []
        for text in [*([row.why] if row.why and row.why not in printed else []), *accuracy, *memory]:
            terminal.print(f"{row.label}: {text}")
    for row in candidates:
        if row.outcome is TuneOutcome.SKIPPED:
            terminal.print(f"not tried: {row.label}: {row.why}")


def _candidate_cells(row: CandidateRow) -> tuple[str, ...]:
    passed = {None: "-", True: "passed", False: "WRONG"}
    spread = format_spread(row.spread) if row.spread is not None else ""
    return (
        row.label,
        format_time(row.us) if row.us is not None else "-",
        f"{spread} unsteady" if row.unsteady else spread,
        format_ratio(row.gain) if row.gain is not None else "-",
        passed[row.accurate],
        format_time(row.first_us) if row.first_us is not None else "-",
        row.outcome_words,
    )


def _print_replay(tuned_page: TunedPage, terminal: Terminal) -> None:
    """Print where the result is, how to replay it, and the same without Fuselight."""
    result = tuned_page.result
    if result is None:
        return
    if tuned_page.file:
        terminal.print((f"\nwritten to {tuned_page.file_shown}. Replay it with", "bold"))
        terminal.print(f"    {result.replay}")
    if result.configuration != "default":
        terminal.print(("\nor, without Fuselight:", "bold"))
        for line in result.code.splitlines():
            terminal.print(f"    {line}".rstrip())
    for title in result.fixes:
        terminal.print(f"apply this fix first, with `fuselight fix --write`: {title}")

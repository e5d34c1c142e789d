"""`fuselight tune` for people and as data: the decision, what each knob could gain, what was tried, how to replay it.

Invariant: nothing is shown by color alone, and the data has everything that the text says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.codec import encode
from fuselight.shared.report import TuneOutcome
from fuselight_server.base.formatting import format_ratio, format_spread, format_time
from fuselight_server.cli.formats.text_parts import print_machine, print_measured_heading, print_notes
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.benchmarks import exports, words
from fuselight_server.explain.searches.page import Surroundings, page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuselight_server.base.terminal import Terminal
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.tune import TargetSearch
    from fuselight_server.explain.searches.page_types import CandidateRow, KnobRow, TunedPage

SCHEMA = 1
_LEGEND = (
    "time: median of all rounds ± half the interquartile range; gain: how many times as fast as default in the same "
    "rounds, of the winner in the confirming race; first call: with its compile"
)
_KNOB_LEGEND = (
    "at most: how many times as fast as default, if the knob removed all of the part that it acts on"
)


def _page_of(one: TargetSearch) -> TunedPage:
    written = one.written
    around = Surroundings()
    if written is not None:
        uri = "" if written.problem else Path(written.path).as_uri()
        around = Surroundings(file=uri, file_shown=shown_path(written.path), file_problem=written.problem)
    return page(one.report, around, uri_of=lambda path: Path(path).as_uri(), shown=shown_path)


def as_json(outcome: CheckOutcome, searches: Sequence[TargetSearch]) -> str:
    """All targets, each with its page, its result as the tuned file has it, and its failures."""
    targets = [
        {
            "path": one.report.target.path,
            "name": one.report.target.name or "__main__",
            "page": encode(_page_of(one)),
            "result": encode(one.report.tuned.result)
            if one.report.tuned is not None and one.report.tuned.result is not None
            else None,
            "failures": encode(one.report.failures),
        }
        for one in searches
    ]
    return (
        json.dumps({"schema": SCHEMA, "targets": targets, "problems": encode(outcome.problems)}, indent=1)
        + "\n"
    )


def as_html(_outcome: CheckOutcome, searches: Sequence[TargetSearch]) -> str:
    """The page of the first target that was searched. Raises NotBuiltError."""
    for one in searches:
        made = _page_of(one)
        if made.found:
            return exports.standalone_page(made, f"Tuning: {made.title}", "tune")
    return ""


def print_searches(searches: Sequence[TargetSearch], terminal: Terminal) -> None:
    """Print every target."""
    for one in searches:
        _print_target(one, terminal)


def _print_target(one: TargetSearch, terminal: Terminal) -> None:
    report, made = one.report, _page_of(one)
    tuned = report.tuned
    where = ""
    if tuned is not None:
        on = f" on {words.device(tuned.machine)}" if words.has_device(tuned.machine) else ""
        where = f"{made.work}{on}"
    failed = print_measured_heading(report, where, made.inputs, terminal)
    if tuned is None:
        terminal.print()
        return
    headline, *others = made.statements
    terminal.print((headline, "bold"))
    for text in others:
        terminal.print(f"  - {text}")
    _print_knobs(made.knobs, terminal)
    _print_candidates(made.candidates, terminal, printed=failed)
    print_notes(made.notes, failed, terminal)
    _print_replay(made, terminal)
    print_machine(made.machine, terminal)


def _print_knobs(knobs: Sequence[KnobRow], terminal: Terminal) -> None:
    """Print what each knob could gain, and why some were not tried; those that do not apply, by their reason."""
    rows = [
        (
            one.label,
            format_ratio(one.ceiling) if one.ceiling is not None else "-",
            format_time(one.bound_us) if one.bound_us is not None else "-",
            "yes" if one.tried else "no",
            _why_of(one),
        )
        for one in knobs
        if one.applies
    ]
    if rows:
        terminal.print(("\nwhat each knob could gain", "bold"))
        terminal.print_table([("knob", "at most", "of a call", "tried", ""), *rows])
        terminal.print((_KNOB_LEGEND, "dim"))
    reasons: dict[str, list[str]] = {}
    for one in knobs:
        if not one.applies:
            reasons.setdefault(one.why, []).append(one.label)
    for why, labels in reasons.items():
        terminal.print((f"not tried, {why}: {', '.join(labels)}", "dim"))


def _why_of(knob: KnobRow) -> str:
    return ": ".join(part for part in (knob.bound, knob.why) if part)


def _print_candidates(
    candidates: Sequence[CandidateRow], terminal: Terminal, *, printed: Sequence[str]
) -> None:
    """Print what was tried, in that order, then why some have no time, without the reasons that are `printed`."""
    tried = [one for one in candidates if one.outcome is not TuneOutcome.SKIPPED]
    if any(one.us is not None or one.why not in printed for one in tried):
        terminal.print(("\nconfigurations, in the order of the trials", "bold"))
        header = ("configuration", "time", "", "gain", "results", "first call", "outcome")
        terminal.print_table([header, *map(_candidate_cells, tried)])
        terminal.print((_LEGEND, "dim"))
    for one in tried:
        accuracy = [one.accuracy] if one.accurate is False else []
        for text in [*([one.why] if one.why and one.why not in printed else []), *accuracy]:
            terminal.print(f"{one.label}: {text}")
    for one in candidates:
        if one.outcome is TuneOutcome.SKIPPED:
            terminal.print(f"not tried: {one.label}: {one.why}")


def _candidate_cells(one: CandidateRow) -> tuple[str, ...]:
    passed = {None: "-", True: "passed", False: "WRONG"}
    spread = format_spread(one.spread) if one.spread is not None else ""
    return (
        one.label,
        format_time(one.us) if one.us is not None else "-",
        f"{spread} unsteady" if one.unsteady else spread,
        format_ratio(one.gain) if one.gain is not None else "-",
        passed[one.accurate],
        format_time(one.first_us) if one.first_us is not None else "-",
        one.outcome_words,
    )


def _print_replay(made: TunedPage, terminal: Terminal) -> None:
    """Print where the result is, how to replay it, and the same without Fuselight."""
    result = made.result
    if result is None:
        return
    if made.file:
        terminal.print((f"\nwritten to {made.file_shown}. Replay it with", "bold"))
        terminal.print(f"    {result.replay}")
    if result.configuration != "default":
        terminal.print(("\nor, without Fuselight:", "bold"))
        for line in result.code.splitlines():
            terminal.print(f"    {line}".rstrip())
    for title in result.fixes:
        terminal.print(f"apply this fix first, with `fuselight fix --write`: {title}")

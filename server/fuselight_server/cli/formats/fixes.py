"""The fixes of `fuselight fix`, as a table and as JSON.

Invariant: each remedy that was considered has one row, which says what became of it and why.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuselight_server.base.diff_text import name_in
from fuselight_server.base.finding import Finding, by_place
from fuselight_server.base.formatting import format_count, format_list
from fuselight_server.base.option_names import with_options
from fuselight_server.base.remedies import RemedyState, advised
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.finding_parts import file_and_line
from fuselight_server.cli.formats.fix_first import print_first
from fuselight_server.cli.formats.json import SCHEMA, fix_first_as_json, problems_as_json
from fuselight_server.commands.fix import Attempt, FindingRefusal, FixOutcome, FixStatus
from fuselight_server.commands.sources import shown_path

_DIFF_STYLES = {"--- ": "bold", "+++ ": "bold", "@@": "cyan", "-": "red", "+": "green"}
_HEADER = ("place", "code", "fix", "result", "why")
_STATUS, _WHY = _HEADER.index("result"), _HEADER.index("why")


def print_diff(outcome: FixOutcome, terminal: Terminal) -> None:
    """Print the changes of the fixes that have passed, in the encoding of each file unless people see them."""
    folder = outcome.diff_folder
    for change in outcome.changes:
        name = name_in(folder, change.path)
        if not terminal.is_terminal:
            terminal.write_bytes(change.encoded_diff(name))
            continue
        for line in change.diff(name).removesuffix("\n").split("\n"):
            style = next((style for mark, style in _DIFF_STYLES.items() if line.startswith(mark)), "")
            terminal.print((line.rstrip("\r"), style))


def print_verdict(attempt: Attempt, terminal: Terminal) -> None:
    """Print one row of the table as a line, as soon as it is known, and before that when the program's calls pass."""
    if terminal.is_terminal:
        terminal.overwrite("")  # the progress that stands there
    place, code, title, status, why = _row(attempt)
    status = "passes the known calls, comparing other inputs" if attempt.is_checking else status
    terminal.print(f"{place}: {code}: {title}: {status}" + (f": {why}" if why else ""))
    terminal.flush()


def print_fixes(outcome: FixOutcome, terminal: Terminal, *, diff_shown: bool) -> None:
    """Print which line to fix first, a table of the attempts, and how many there are of each result."""
    print_first(outcome.checked, terminal, outcome.verified_fix)
    attempts = outcome.attempts
    rows = list(dict.fromkeys(map(_row, attempts)))  # two findings of a line may have the same
    if rows:
        terminal.print_table([_HEADER, *rows], left_columns=len(_HEADER))
    for note in dict.fromkeys(note for attempt in attempts for note in attempt.notes):
        terminal.print(f"note: {note}")
    counted = Counter(row[_STATUS] for row in rows)
    totals = [f"{counted[status.value]} {status.value}" for status in FixStatus if counted[status.value]]
    if rows:
        several = sum(attempt.has_passed for attempt in attempts) > 1
        on_top = " Each is counted on top of those above it." if several else ""
        terminal.print((f"{format_count(len(rows), 'fix', 'fixes')}: {format_list(totals)}.{on_top}", "bold"))
    elif outcome.checked.reports or not outcome.checked.problems:  # else what went wrong says it
        terminal.print(("No fix.", "bold"))
    for refused in dict.fromkeys(refusal.words for refusal in outcome.refusals):
        terminal.print(f"not offered: {refused}")
    if outcome.unsolved:
        terminal.print(f"{format_count(outcome.unsolved, 'finding')} without a known fix.")
    for line in dict.fromkeys(_advice(outcome)):
        terminal.print(line)
    if any(attempt.status is FixStatus.PASSED for attempt in attempts):
        shows = "" if diff_shown else "--diff shows the changes, "
        changes = "the changes" if diff_shown else "them"
        left_out = any("more compiled call" in row[_WHY] for row in rows)
        first = "first compares the calls that were left out, then " if left_out else ""
        terminal.print(f"No file has changed: {shows}--write {first}makes {changes}.")
    for note in _diff_notes(outcome) if diff_shown else ():
        terminal.print(f"note: {note}")


def _diff_notes(outcome: FixOutcome) -> Iterator[str]:
    """What those who apply the diff have to know."""
    folder = outcome.diff_folder
    if outcome.changes and folder != str(Path.cwd()):
        yield (
            f"the paths of the diff are relative to {folder}, since it changes files outside of the working folder: "
            "run `git apply` or `patch -p1` there"
        )
    if any(change.is_cell for change in outcome.changes):
        yield (
            "the diff names cells of a notebook: `fuselight verify` reads it, `git apply` and `patch` cannot. "
            "--write changes the notebook"
        )


def _advice(outcome: FixOutcome) -> Iterator[str]:
    """What to do about findings that no fix removes, as `fuselight check` says it: all that was tried, or else advice.

    A fix that a trial has shown to help, and that was not verified here, is one of them. What is only to be expected
    is said once all changes were tried.
    """
    for finding in sorted(outcome.findings, key=by_place):
        tried = [remedy for remedy in finding.remedies if remedy.state is RemedyState.TRIED]
        others = [remedy for remedy in finding.remedies if not remedy.is_fix]
        is_open = any(remedy.is_pending for remedy in others)
        words = advised(tried) or advised(remedy for remedy in others if remedy.is_step or not is_open)
        is_fixed = any(remedy.state is RemedyState.VERIFIED for remedy in finding.remedies)
        is_left = (finding.code, finding.span.path, finding.span.line) in outcome.left
        if words and is_left and not is_fixed:
            place = f"{shown_path(finding.span.path)}:{finding.span.line}"
            text = with_options(f"{'. '.join(words)}.").removesuffix(".")
            yield f"to do: {place}: {finding.code}: {text}"


def _row(attempt: Attempt) -> tuple[str, ...]:
    place = f"{shown_path(attempt.finding.span.path)}:{attempt.line}"
    return (place, attempt.finding.code, attempt.remedy.title, attempt.status.value, _why(attempt))


def _why(attempt: Attempt) -> str:
    """`3 -> 1 graphs, same results`, or the other count that falls, and what the fix uncovers."""
    if attempt.graphs is None or attempt.status not in {FixStatus.PASSED, FixStatus.WRITTEN}:
        return attempt.why
    shown = attempt.effect or "{} → {} graphs".format(*attempt.graphs)
    effect = shown.replace("→", "->").replace("-> 1 graphs", "-> 1 graph")
    return ", ".join(filter(None, (effect, attempt.why, attempt.next_words)))


def fixes_as_json(outcome: FixOutcome) -> str:
    """The outcome as JSON text (docs/fixes.md)."""
    data = {
        "schema": SCHEMA,
        "fix_first": fix_first_as_json(outcome.checked, "", outcome.verified_fix),
        "fixes": [_fix(attempt) for attempt in outcome.attempts],
        "findings": [_remedies(finding) for finding in outcome.findings],
        "unsolved": outcome.unsolved,
        "refusals": [_refusal(refusal) for refusal in outcome.refusals],
        "diff": outcome.diff,
        "diff_folder": outcome.diff_folder,
        "problems": problems_as_json(outcome.checked),
    }
    return json.dumps(data, indent=2)


def _remedies(finding: Finding) -> dict[str, Any]:
    return {
        **file_and_line(finding.span.path, finding.span.line),
        "code": finding.code,
        "title": finding.title,
        "remedies": [remedy.as_data() for remedy in finding.remedies],
    }


def _refusal(refusal: FindingRefusal) -> dict[str, Any]:
    return {
        **file_and_line(refusal.finding.span.path, refusal.finding.span.line),
        "code": refusal.finding.code,
        "kind": refusal.refusal.kind,
        "title": refusal.refusal.title,
        "reason": refusal.refusal.reason,
    }


def _fix(attempt: Attempt) -> dict[str, Any]:
    return {
        **file_and_line(attempt.finding.span.path, attempt.line),
        "code": attempt.finding.code,
        "target": attempt.finding.target,
        "kind": attempt.remedy.kind,
        "title": attempt.remedy.title,
        "class": attempt.fix_class.value,
        "changes": attempt.remedy.changes,
        "files": sorted(attempt.remedy.texts),
        "status": attempt.status.value,
        "why": attempt.why,
        "graphs_before": attempt.graphs[0] if attempt.graphs else None,
        "graphs_after": attempt.graphs[1] if attempt.graphs else None,
        "next": [_uncovered(finding) for finding in attempt.next],
        "notes": list(attempt.notes),
        "excepted": list(attempt.excepted),
        "cases": {
            "tried": list(attempt.comparison.tried),
            "not_accepted": list(attempt.comparison.not_accepted),
            "not_reached": list(attempt.comparison.not_reached),
        },
    }


def _uncovered(finding: Finding) -> dict[str, Any]:
    return {
        **file_and_line(finding.span.path, finding.span.line),
        "code": finding.code,
        "title": finding.title,
    }

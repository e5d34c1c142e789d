"""`fuselight memory` for people and as JSON (docs/memory.md): the peaks, what is allocated then, and by which line.

Invariant: the rows of a peak add up to it; what is not listed is summed in a last row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from fuselight.shared.codec import encode
from fuselight.shared.report import Device, HeldMemory, Location, MemoryEstimate, MemoryPeak, Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import format_count, format_percent, format_size
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.json import problems_as_json
from fuselight_server.cli.formats.memory_page import MemoryPage
from fuselight_server.cli.formats.text_parts import print_heading, print_problems, shown_line, target_name
from fuselight_server.commands.memory import MemoryOutcome
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.memory.fit import LargestBatch, fit_of
from fuselight_server.explain.memory.modules import module_rows
from fuselight_server.explain.memory.words import (
    NOTES,
    USES,
    cause_in_words,
    changed_lines,
    difference_in_words,
    edit_in_words,
    edit_lines,
    edit_results,
    forms_of,
    grouped_ranks,
    growth_in_words,
    measured_in_words,
    measured_rows,
    peak_in_words,
    saving_in_words,
    saving_name,
    step_in_words,
    use_in_words,
    useful_savings,
)

_MAX_ROWS = 10
_MAX_CHANGES = 5
_WIDTH = 9
"""Of a size, as `999.9 MB`."""
_WORDS = 24


def print_memory(outcome: MemoryOutcome, terminal: Terminal, *, by_module: bool = False) -> None:
    """Each call with its peaks, and what is allocated at the compiled one by line, or by module."""
    for report in outcome.check.reports:
        device = report.target_device
        name = f"memory, estimated for {device.name}" if device is not None else "memory"
        print_heading(report, name, terminal)
        if device is not None:
            for estimate, ranks in grouped_ranks(report.memory):
                _print_estimate(estimate, ranks, device, outcome.check, terminal, by_module=by_module)
            _print_largest(outcome.largest_of(report), device, terminal)
        for note in report.notes:
            if note.kind in NOTES:
                terminal.print((f"  note: {note.text}", "dim"))
        print_problems(report, terminal)
        terminal.print()


def _print_largest(largest: LargestBatch | None, device: Device, terminal: Terminal) -> None:
    if largest is None:
        return
    words = [
        f"{'not determined' if batch is None else f'{batch:,}'} {form}"
        for form, batch in (("in eager mode", largest.eager), ("compiled", largest.compiled))
    ]
    terminal.print(f"  largest batch that fits in {device.memory_gb:,.0f} GB: {', '.join(words)}")


def _print_estimate(
    estimate: MemoryEstimate,
    ranks: str,
    device: Device,
    outcome: CheckOutcome,
    terminal: Terminal,
    *,
    by_module: bool,
) -> None:
    batch = f", batch {estimate.batch:,}" if estimate.batch is not None else ""
    terminal.print(f"  {estimate.call}{batch}{ranks}: {step_in_words(estimate)}")
    _print_peaks(estimate, device, terminal)
    form, peak, _, _, measured = forms_of(estimate)[estimate.compiled is not None]
    if peak is not None:
        columns = ", estimated and measured" if measured is not None and not by_module else ""
        terminal.print(f"    at the peak of {form}{columns}:")
        if by_module:
            _print_modules(peak, terminal)
            return
        rows: list[tuple[HeldMemory, tuple[int, ...]]] = (
            [(row, (row.bytes,)) for row in peak.held]
            if measured is None
            else [(row, (size, real)) for row, size, real in measured_rows(peak, measured)]
        )
        _print_rows(rows, outcome, terminal)
    _print_changes(estimate, outcome, terminal)


def _print_peaks(estimate: MemoryEstimate, device: Device, terminal: Terminal) -> None:
    for form, peak, why_not, least, measured in forms_of(estimate):
        words = peak_in_words(peak, device) if peak is not None else f"not estimated: {why_not}"
        words += f"; at least {format_size(least)} with the smallest sizes" if least is not None else ""
        terminal.print(f"    {form:9}{words}")
        if measured is not None:
            terminal.print(f"    {'':9}{measured_in_words(peak, measured)}")
    if estimate.why_not_measured:
        terminal.print(f"    not measured: {estimate.why_not_measured}")


def _print_changes(estimate: MemoryEstimate, outcome: CheckOutcome, terminal: Terminal) -> None:
    """What compiling changes, and what would need less."""
    for grown in estimate.growth:
        place = f"  {_line(grown.location, outcome)}" if grown.location is not None else ""
        terminal.print(f"    {growth_in_words(grown)}{place}")
    changes = list(changed_lines(estimate))
    if changes:
        terminal.print(f"    {difference_in_words(estimate)}, by line:")
        for more, row in changes[:_MAX_CHANGES]:
            size = f"{'+' if more > 0 else '-'}{format_size(abs(more))}"
            terminal.print(f"      {size:>{_WIDTH}}  {_described(row, outcome)}")
            cause = cause_in_words(estimate, more, row)
            if cause:
                terminal.print((f"      {'':>{_WIDTH}}  {cause}", "dim"))
        terminal.print_more(len(changes) - _MAX_CHANGES, "line", indent=6)
    savings = useful_savings(estimate)
    if savings:
        terminal.print("    what would need less, each tried without data (on fake tensors):")
    elif estimate.savings:
        terminal.print("    nothing that was tried needs less")
    for saving in savings:
        terminal.print(f"      {saving_name(saving)}: {saving_in_words(estimate, saving)}")
    _print_edits(estimate, terminal)
    if estimate.untried:
        terminal.print(f"    not tried, as the time was over (--savings-time): {', '.join(estimate.untried)}")


def _print_edits(estimate: MemoryEstimate, terminal: Terminal) -> None:
    if estimate.edits:
        terminal.print("    changes of the source that need less, each tried alone:")
    for edit in estimate.edits:
        place = shown_line(SourceLine(edit.location.path, edit.location.line))
        terminal.print(f"      {place}  {edit_in_words(estimate, edit)}")
        terminal.print((f"        {edit_results(edit)}", "dim"))
        for line in edit_lines(edit):
            terminal.print(f"        {line}")


def _print_rows(
    rows: Sequence[tuple[HeldMemory, tuple[int, ...]]], outcome: CheckOutcome, terminal: Terminal
) -> None:
    """What is held, with its bytes: estimated, and measured if they are."""
    shown = [(_described(row, outcome), sizes) for row, sizes in rows[:_MAX_ROWS]]
    rest = [sizes for _, sizes in rows[_MAX_ROWS:]]
    if rest:
        shown.append((f"in {format_count(len(rest), 'more row')}", tuple(map(sum, zip(*rest, strict=True)))))
    for text, sizes in shown:
        terminal.print(f"      {'  '.join(f'{format_size(size):>{_WIDTH}}' for size in sizes)}  {text}")


def _print_modules(peak: MemoryPeak, terminal: Terminal) -> None:
    rows = module_rows(peak)
    names = [f"{'  ' * row.depth}{row.name or '(no module)'}" for row in rows]
    width = max(map(len, names), default=0)
    for row, name in zip(rows, names, strict=True):
        uses = ", ".join(f"{USES[use]} {format_size(size)}" for use, size in row.uses[:3])
        share = format_percent(row.bytes, peak.bytes)
        terminal.print(
            f"      {format_size(row.bytes):>{_WIDTH}}  {share:>4}  {name:{width}}  {uses}".rstrip()
        )


def memory_as_page(outcome: MemoryOutcome) -> str:
    """The page of a command's targets."""
    check = outcome.check

    def place(at: Location) -> str:
        return shown_line(SourceLine(at.path, at.line))

    def source(at: Location) -> str:
        return (check.sources.line(at.path, at.line) or "").strip()

    targets = [(target_name(report), report, outcome.largest_of(report)) for report in check.reports]
    problems = [*(f"{problem.what}: {problem.why}" for problem in check.problems), *check.uncalled]
    return MemoryPage(targets, place, source, problems).as_html()


def _described(row: HeldMemory, outcome: CheckOutcome) -> str:
    """`saved for the backward  model.py:16  x + self.b(h)`."""
    use = use_in_words(row)
    if row.location is None:
        return use
    return f"{use:{_WORDS - 1}} {_line(row.location, outcome)}"


def _line(at: Location, outcome: CheckOutcome) -> str:
    """`model.py:16  x + self.b(h)`."""
    text = outcome.sources.line(at.path, at.line)
    return f"{shown_line(SourceLine(at.path, at.line))}  {(text or '').strip()}".rstrip()


def memory_as_json(outcome: MemoryOutcome) -> str:
    """The estimates of each target, and what could not be determined."""
    data = {
        "schema": 1,
        "targets": [
            {**_target(report), "largest_batch": encode(outcome.largest_of(report))}
            for report in outcome.check.reports
        ],
        "problems": problems_as_json(outcome.check),
    }
    return json.dumps(data, indent=2)


def _target(report: Report) -> dict[str, Any]:
    device = report.target_device
    return {
        "path": report.target.path,
        "name": report.target.name or MAIN,
        "line": report.target.line,
        "torch": report.versions.torch,
        "device": device.key if device is not None else None,
        "memory_gb": device.memory_gb if device is not None else None,
        "calls": [_estimate(estimate, device) for estimate in report.memory],
        "failures": encode(report.failures),
    }


def _estimate(estimate: MemoryEstimate, device: Device | None) -> dict[str, Any]:
    data = {field.name: encode(getattr(estimate, field.name)) for field in fields(estimate)}
    return {**data, "eager": _peak(estimate.eager, device), "compiled": _peak(estimate.compiled, device)}


def _peak(peak: MemoryPeak | None, device: Device | None) -> dict[str, Any] | None:
    if peak is None:
        return None
    fit = fit_of(peak.bytes, device) if device is not None else None
    return {**encode(peak), "fit": fit.value if fit is not None else None}

"""`fuselight bench` for people: the verdict, the configurations beside each other, lines, and where the time goes.

Invariant: a time that was measured carries its spread, and an estimate its `~`; nothing is told by colour alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from fuselight_server.cli.formats.bench_data import page_of
from fuselight_server.cli.formats.json import severity_word
from fuselight_server.cli.sources import shown_path
from fuselight_server.cli.targets import NO_TARGET
from fuselight_server.kernels.shares import place_of
from fuselight_server.kernels.words import microseconds, size
from fuselight_server.measured import words
from fuselight_server.measured.comparing import EAGER, WRITTEN, clock_of, has_times, shown_of
from fuselight_server.measured.comparison import compare, label, said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from fuselight_server.cli.bench import Benched
    from fuselight_server.cli.outcome import Outcome

ROWS = (
    "time: the median of one call, +- half of what lies between its quartiles; unsteady: it varies too much to rely "
    "on; memory: the most that one call has in use, parameters and inputs included; first call: with its compile"
)
KERNELS = {
    "alone": "the kernel launched by itself, over and over",
    "estimate": "what it was thought to take before it ran",
    "of the limit": "how near it comes to what the device can do at best",
}
"""What is known of few kernels, and what it means."""
UNEQUAL = "some of the profiled calls took far longer than others"
_STEADY = 0.75
"""Medians below this part of the mean are of calls that took very different times; the page has the same."""
_LINES = 25
"""Lines and kernels told of one target; the rest is one line that says how many."""
_PARTS = 12
"""Parts of a call that are told of, the longest."""
_TENSORS = 5
_BAR = 20
"""Characters of a bar of the whole."""


def print_benchmarks(outcome: Outcome, benched: list[Benched], console: Console) -> None:
    """Print every target, then what could not be measured."""
    for one in benched:
        _print_target(one, outcome, console)
    for problem in outcome.problems:
        console.print(f"cannot measure {problem.what}: {problem.why}", soft_wrap=True)
    if not benched and not outcome.problems:
        console.print(NO_TARGET, soft_wrap=True)


def _print_target(one: Benched, outcome: Outcome, console: Console) -> None:
    report, made = one.report, page_of(one, outcome)
    name = f"{shown_path(report.target.path)}: {made['title']}"
    measured = report.measured
    where = ""
    if measured is not None and has_times(measured):
        clock = words.CLOCK[clock_of(measured)]
        where = f" - {made['work']}, measured on {words.device(measured.machine)} by {clock}"
    console.print(Text.assemble((name, "bold"), where), soft_wrap=True)
    failed = [words.failed(failure) for failure in report.failures]
    for failure, text in zip(report.failures, failed, strict=True):
        at = place_of(failure.stack, report.roots)
        line = f" ({shown_path(at.path)}:{at.line})" if at is not None else ""
        console.print(Text(f"failed: {text}{line}", "bold red"), soft_wrap=True)
    for text in made["inputs"]:
        console.print(Text(f"inputs: {text}", "dim"), soft_wrap=True)
    if measured is None:
        console.print()
        return
    if has_times(measured):
        _print_verdict(made, console)
    _print_rows(made, console, said=failed)
    shown = shown_of(measured)
    if shown is not None:
        _print_profile(shown.name, made["profiles"][shown.name], console)
    for finding in outcome.of_measured(report):
        place = f"{shown_path(finding.span.path)}:{finding.span.line}"
        console.print(f"{severity_word(finding)}[{finding.code}] {place}: {finding.title}", soft_wrap=True)
    _print_comparison(one, console)
    for note in made["notes"]:
        if note not in failed:
            console.print(f"note: {note}", soft_wrap=True)
    console.print(
        Text(", ".join(f"{fact['name']} {fact['value']}" for fact in made["machine"]), "dim"), soft_wrap=True
    )
    console.print()


def _print_verdict(made: dict[str, Any], console: Console) -> None:
    if not made["verdict"]:
        return
    names = [row["name"] for row in made["configurations"]]
    headline, *others = made["verdict"]
    about = [name for name in names if name != EAGER and f" {name} " in f" {headline['text']} "]
    console.print(Text(_stated(headline), "bold"), soft_wrap=True)
    if len(names) > 2 and about:  # noqa: PLR2004 - with eager and one other it is clear
        named = [one for one in others if any(one["text"].startswith(f"{name} ") for name in names)]
        for one in named:
            console.print(f"  - {_stated(one)}", soft_wrap=True)
        others = [one for one in others if one not in named]
        if others:
            console.print(f"  to be seen of {max(about, key=len)}:", soft_wrap=True)
    for one in others:
        console.print(f"  - {_stated(one)}", soft_wrap=True)


def _stated(statement: dict[str, Any]) -> str:
    place = f" ({_place(statement['place'])})" if statement["place"] else ""
    return f"{statement['text']}{place}"


def _place(place: dict[str, Any]) -> str:
    return f"{place['path']}:{place['line'] + 1}"


def _print_rows(made: dict[str, Any], console: Console, *, said: Sequence[str]) -> None:
    """Print the configurations beside each other, and of those that failed why, if that is not `said`."""
    if all(row["us"] is None and row["failure"] in {None, *said} for row in made["configurations"]):
        return
    table = [
        ("configuration", "time", "", "speed-up", "accuracy", "memory", "first call", "breaks", "recompiles")
    ]
    for row in made["configurations"]:
        accuracy = row["accuracy"]
        passed = {None: "not compared", True: "passed", False: "FAILED"}
        spread = words.spread(row["spread"]) if row["spread"] is not None else ""
        table.append((
            row["name"],
            words.time(row["us"]) if row["us"] is not None else "failed" if row["failure"] else "not measured",
            f"{spread} unsteady" if row["unsteady"] else spread,
            words.times(row["speedup"]) if row["speedup"] is not None else "-",
            "-" if accuracy is None else passed[accuracy["passed"]],
            size(row["peak_bytes"]) if row["peak_bytes"] is not None else "-",
            words.time(row["first_us"]) if row["first_us"] is not None else "-",
            _number(row["graph_breaks"]),
            _number(row["recompiles"]),
        ))  # fmt: skip
    console.print()
    _print_table(table, console)
    console.print(Text(ROWS, "dim"), soft_wrap=True)
    if any(row["name"] == WRITTEN for row in made["configurations"]):
        console.print(Text(f"{WRITTEN}: as the source compiles it", "dim"), soft_wrap=True)
    for row in made["configurations"]:
        why = [f"failed: {row['failure']}"] if row["failure"] and row["failure"] not in said else []
        for text in why + row["notes"]:
            console.print(f"{row['name']}: {text}", soft_wrap=True)
        if row["accuracy"] is not None and row["accuracy"]["passed"] is not True:
            _print_accuracy(row, console)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _print_accuracy(row: dict[str, Any], console: Console) -> None:
    accuracy = row["accuracy"]
    place = _place(accuracy["place"]) if accuracy["place"] else ""
    at = f" ({place})" if place not in accuracy["text"] else ""
    console.print(f"{row['name']}: {accuracy['text']}{at}", soft_wrap=True)
    for tensor in [one for one in accuracy["tensors"] if not one["passed"]][:_TENSORS]:
        figures = ", ".join(
            f"{name} {tensor[key]:.6g}"
            for name, key in (("cosine", "cosine"), ("largest error", "absolute"), ("relative", "relative"))
            if tensor[key] is not None
        )
        console.print(f"    {tensor['what']}: {figures or 'not a number'}", soft_wrap=True)


def _print_profile(name: str, found: dict[str, Any], console: Console) -> None:
    """Print lines, kernels and where the time goes: empty ones not at all."""
    if found["lines"]:
        rows = [
            (_place(one["place"]), words.time(one["us"]), words.percent(one["share"]), one["place"]["text"])
            for one in found["lines"]
        ]
        console.print(Text(f"\ntime of the kernels of {name} by line", "bold"), soft_wrap=True)
        _print_table([("line", "time", "share", "source"), *rows[:_LINES]], console)
        _print_more(len(rows) - _LINES, "line", console)
    if found["kernels"]:
        kernels = [_kernel(one, is_told=not found["no_lines"]) for one in found["kernels"]]
        console.print(Text(f"\nkernels of {name}", "bold"), soft_wrap=True)
        head = ("time", *KERNELS, "count", "kernel")
        shown = _print_table([head, *kernels[:_LINES]], console)
        _print_more(len(kernels) - _LINES, "kernel", console)
        meant = [f"{name}: {meaning}" for name, meaning in KERNELS.items() if name in shown]
        if meant:
            console.print(Text("; ".join(meant), "dim"), soft_wrap=True)
        if found["no_lines"]:
            console.print(found["no_lines"], soft_wrap=True)
    if found["where"]:
        parts = [
            (words.time(part["us"]), words.percent(part["share"]), _bar(part["share"]), _part(part))
            for part in _largest(found["where"])
        ]
        whole = f"{words.time(found['wall_us'])}, with the profiler on ({found['source']})"
        console.print(Text(f"\nwhere one call of {name} goes: {whole}", "bold"), soft_wrap=True)
        _print_table(parts, console, head=False)
        _print_more(len(found["where"]) - _PARTS, "part", console)
        medians = sum(one["us"] for one in found["kernels"])
        if medians < _STEADY * found["kernel_us"]:
            text = (
                f"times by line and by kernel are medians, {words.time(medians)} in all, and these are means"
            )
            console.print(Text(f"{text}: {UNEQUAL}", "dim"), soft_wrap=True)
    console.print()


def _largest(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the longest parts, in their order: what is left out is small, whatever its kind."""
    longest = sorted(range(len(parts)), key=lambda index: -parts[index]["us"])[:_PARTS]
    return [parts[index] for index in sorted(longest)]


def _kernel(one: dict[str, Any], *, is_told: bool) -> tuple[str, ...]:
    return (
        words.time(one["us"]),
        words.time(one["isolated_us"]) if one["isolated_us"] is not None else "-",
        microseconds(one["estimate_us"]) if one["estimate_us"] is not None else "-",
        words.percent(one["of_limit"]) if one["of_limit"] is not None else "-",
        f"{one['count']:g}",
        one["name"] + ("" if one["joined"] or not is_told else "  (joined to no line)"),
    )


def _bar(share: float) -> str:
    return ("#" * round(_BAR * min(max(share, 0.0), 1.0))).ljust(_BAR)


def _part(part: dict[str, Any]) -> str:
    what = f" ({part['what']})" if part["what"] else ""
    return f"{part['label']}{what}" + (f"  {_place(part['place'])}" if part["place"] else "")


def _print_comparison(one: Benched, console: Console) -> None:
    if one.before is None or one.run is None:
        return
    found = compare(one.before, one.run)
    changes = said(found, one.run)
    console.print(Text(f"\nagainst {label(one.before.past)}", "bold"), soft_wrap=True)
    for text in found.differs:
        console.print(Text(f"  not the same for both: {text}"), soft_wrap=True)
    for text in changes[:_LINES]:
        console.print(f"  {text}", soft_wrap=True)
    _print_more(len(changes) - _LINES, "change", console)
    if not changes:
        console.print("  nothing changed beyond the spread of both")


def _print_more(count: int, noun: str, console: Console) -> None:
    if count > 0:
        console.print(f"... and {words.counted(count, f'more {noun}')}: --format json has them all")


def _print_table(rows: Sequence[tuple[str, ...]], console: Console, *, head: bool = True) -> tuple[str, ...]:
    """Print columns: the first and the last to the left, figures to the right. Return the first row as it is shown.

    Under a head, a column of which nothing is known is left out.
    """
    if head:
        known = [any(row[column] != "-" for row in rows[1:]) for column in range(len(rows[0]))]
        rows = [tuple(cell for cell, is_known in zip(row, known, strict=True) if is_known) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    last = len(widths) - 1
    for index, row in enumerate(rows):
        cells = [
            cell if column == last else cell.ljust(width) if column == 0 and last > 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        console.print(Text("  ".join(cells).rstrip(), "bold" if head and index == 0 else ""), soft_wrap=True)
    return rows[0]

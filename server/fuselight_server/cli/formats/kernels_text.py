"""`fuselight kernels` for people: the cost of each line, then the kernels in the order of their launches.

Invariant: every time is an estimate and carries its `~`; nothing is told by colour alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from fuselight_server.cli.formats.json import severity_word
from fuselight_server.cli.outcome import NO_DETAILS
from fuselight_server.cli.sources import shown_path
from fuselight_server.cli.targets import NO_TARGET
from fuselight_server.findings.text import counted
from fuselight_server.kernels import Place, costs_by_line, fold, place_of
from fuselight_server.kernels.fusion import sentence, why
from fuselight_server.kernels.words import (
    candidates,
    compiled_again,
    line_ranges,
    microseconds,
    operations,
    resources,
    share,
    size,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from fuselight.report import GeneratedGraph, Report
    from fuselight_server.cli.outcome import Details, Outcome
    from fuselight_server.kernels import Folded

_KEPT = 8
"""Lines told of what is kept for backward, and of what is computed again."""
_LINES = 40
"""Lines told of one target; the rest is one line that says how many."""


def print_kernels(
    outcome: Outcome,
    console: Console,
    details: Details = NO_DETAILS,
    *,
    pairs: Sequence[tuple[int, int]] = (),
) -> None:
    """Print every target, then what could not be learnt."""
    for report in outcome.reports:
        _print_target(report, outcome, console, details)
        for first, second in pairs:
            ends = Place(report.target.path, first), Place(report.target.path, second)
            console.print(sentence(why(report, *ends), *ends), soft_wrap=True)
    for problem in outcome.problems:
        console.print(f"cannot analyse {problem.what}: {problem.why}", soft_wrap=True)
    if not outcome.reports and not outcome.problems:
        console.print(NO_TARGET, soft_wrap=True)


def _print_target(report: Report, outcome: Outcome, console: Console, details: Details) -> None:
    device = report.target_device.name if report.target_device else report.device
    head = f"{shown_path(report.target.path)}: {report.target.name or '__main__'}"
    console.print(Text.assemble((head, "bold"), f" - kernels for {device}, none launched"), soft_wrap=True)
    for failure in report.failures:
        console.print(Text(f"failed: {failure.message}. {failure.next_step}", "bold red"), soft_wrap=True)
    _print_lines(report, outcome, console)
    for finding in outcome.of_kernels(report):
        place = f"{shown_path(finding.span.path)}:{finding.span.line}"
        head = f"{severity_word(finding)}[{finding.code}] {place}: {finding.title}"
        cost = f" ({'; '.join(finding.cost)})" if finding.cost else ""
        console.print(f"{head}{cost}", soft_wrap=True)
    for graph in report.generated:
        _print_graph(graph, report, console, details)
    for problem in report.problems:
        console.print(f"not known: {problem.what}: {problem.why}", soft_wrap=True)
    console.print()


def _print_lines(report: Report, outcome: Outcome, console: Console) -> None:
    costs = costs_by_line(report)
    if not costs:
        return
    whole = float(sum(cost.us for cost in costs))
    rows = [("line", "estimate", "share", "kernels", "moves", "source, and what it is fused with")]
    for cost in costs[:_LINES]:
        place = cost.place
        text = (outcome.sources.line(place.path, place.line) or "").strip() if place else ""
        fused = line_ranges(cost.fused_with, place) if place else ""
        rows.append(
            (
                f"{shown_path(place.path)}:{place.line}" if place else "(no line)",
                microseconds(float(cost.us)),
                share(float(cost.us), whole),
                str(len(cost.launches)),
                size(float(cost.bytes)),
                f"{text}  # with {fused}" if fused else text,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for index, (where, *figures, text) in enumerate(rows):
        padded = [cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True)]
        line = "  ".join([where.ljust(widths[0]), *padded, text])
        console.print(Text(line, "bold" if index == 0 else ""), soft_wrap=True)
    if len(costs) > _LINES:
        console.print(f"... and {len(costs) - _LINES} more lines")
    console.print(
        f"{'total':<8} {microseconds(whole)} at the parts of the published rates that kernels reach{_again(report)}",
        soft_wrap=True,
    )


def _again(report: Report) -> str:
    """Say that the total is of several calls' kernels, where graphs were compiled again."""
    again = compiled_again(report)
    if not again:
        return ""
    return f"; {counted(again, 'graph')} of these compiled again: one call need not run all of them"


def _print_graph(graph: GeneratedGraph, report: Report, console: Console, details: Details) -> None:
    folded = fold(graph, report.roots)
    count = sum(one.count for one in folded)
    launches = "1 launch" if count == 1 else f"{count} launches"
    console.print(Text(f"\n{graph.phase.value} graph {graph.compile_id}: {launches}", "bold"))
    if graph.failure is not None:
        console.print(f"no kernels: {graph.failure}", soft_wrap=True)
    for one in folded:
        kernel, facts = one.kernel, _facts(one)
        times = f" x {one.count}" if one.count > 1 else ""
        where = line_ranges(one.places, one.places[0]) if one.places else "no line"
        first = Place(one.places[0].path, one.places[0].line) if one.places else None
        name = f"{shown_path(first.path)} {where}" if first else where
        console.print(
            Text.assemble("  ", (kernel.name, "bold cyan"), f"{times}  {', '.join(facts)}"), soft_wrap=True
        )
        console.print(Text(f"      {name}", "dim"), soft_wrap=True)
        if kernel.candidates:
            told = candidates(kernel.candidates)
            console.print(f"      a GPU decides between {len(kernel.candidates)}: {told}", soft_wrap=True)
        assembled = report.assembled.get(kernel.text_key or "")
        if assembled is not None:
            console.print(f"      {resources(assembled)}", soft_wrap=True)
        if details.source and kernel.text_key:
            console.print(Text(report.texts.get(kernel.text_key, "")), soft_wrap=True)
        if details.asm is not None and assembled is not None and details.asm in assembled.listings:
            console.print(Text(assembled.listings[details.asm].text), soft_wrap=True)
    _print_kept(graph, report, console)
    if details.graphs:
        _print_texts(graph, report, console)


def _print_texts(graph: GeneratedGraph, report: Report, console: Console) -> None:
    """Print the graph as text, and before a forward one the joint graph that it was cut from."""
    name = f"{graph.phase.value} graph {graph.compile_id}"
    joint = f"joint graph {graph.compile_id}, before it was cut into forward and backward"
    for head, key in ((joint, graph.joint_key), (f"{name}, as it went to Inductor", graph.aten_key)):
        if key in report.texts:
            console.print(Text(f"\n{head}:", "bold"), soft_wrap=True)
            console.print(Text(report.texts[key]), soft_wrap=True)


def _facts(one: Folded) -> list[str]:
    """What one kernel is, costs, moves and computes: the time is of all its launches, the rest of one."""
    kernel = one.kernel
    facts = [kernel.kind.value.replace("_", " ")]
    if one.us is not None:
        together = " together" if one.count > 1 else ""
        facts.append(f"{microseconds(one.us)}{together} ({kernel.bound}-bound)")
    each = "each " if one.count > 1 else ""
    if kernel.bytes_read is not None and kernel.bytes_written is not None:
        facts.append(f"{each}reads {size(kernel.bytes_read)}, writes {size(kernel.bytes_written)}")
    if kernel.flops:
        facts.append(f"{each}{operations(kernel.flops)}")
    return facts


def _print_kept(graph: GeneratedGraph, report: Report, console: Console) -> None:
    """What the forward graph keeps for the backward one, and what that computes again instead."""
    kept: Counter[Place | None] = Counter()
    for tensor in graph.saved:
        kept[place_of(tensor.stack, report.roots)] += tensor.bytes
    if whole := sum(kept.values()):
        most = [f"{size(count)} of {_where(place)}" for place, count in kept.most_common(_KEPT) if count]
        rest = whole - sum(count for _, count in kept.most_common(_KEPT))
        more = [f"{size(rest)} of others"] if rest else []
        console.print(f"  keeps {size(whole)} for backward: {', '.join([*most, *more])}", soft_wrap=True)
    again = Counter((one.operator, place_of(one.stack, report.roots)) for one in graph.recomputed)
    if again:
        noun = "operator" if again.total() == 1 else "operators"
        console.print(f"  computes {again.total()} {noun} again instead of keeping what they make:")
    for (operator, place), count in again.most_common(_KEPT):
        times = f" x {count}" if count > 1 else ""
        console.print(f"      {operator}{times} of {_where(place)}", soft_wrap=True)
    if len(again) > _KEPT:
        console.print(f"      ... and {sum(sorted(again.values(), reverse=True)[_KEPT:])} more")


def _where(place: Place | None) -> str:
    return f"{shown_path(place.path)}:{place.line}" if place else "no line"

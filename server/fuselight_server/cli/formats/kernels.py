"""`fuselight kernels` as JSON (docs/kernels.md), and for people: the cost of each line, then kernels in launch order.

Invariant: every time is an estimate and carries its `~`; nothing is shown by color alone. Costs of lines and their
total are those of one call; graphs that only other compiles have come after the graphs of the call.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from fuselight.shared.codec import encode
from fuselight.shared.report import GeneratedGraph, Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_flops,
    format_line_ranges,
    format_percent,
    format_size,
)
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.json import finding_as_json
from fuselight_server.cli.formats.own_kernels import own_kernels_json, print_own_kernels
from fuselight_server.cli.formats.text_parts import finding_line, print_heading, print_problems, shown_line
from fuselight_server.commands.notebook_lines import NamedLine, cell_of, in_words
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.kernels.fusion import sentence, why
from fuselight_server.explain.kernels.shares import Folded, costs_by_line, fold, place_of
from fuselight_server.explain.kernels.summary import candidates, one_call, resources, target_summary


@dataclass(frozen=True)
class Details:
    """Texts of kernels and graphs that are printed with them."""

    source: bool = False
    """Of each kernel."""
    graphs: bool = False
    """AOTAutograd's: joint, forward and backward."""
    asm: str | None = None
    """What each Triton kernel is compiled to: the name of a listing."""
    pairs: tuple[tuple[NamedLine, NamedLine], ...] = ()
    """Lines of which is shown whether they are fused, and why not."""


NO_DETAILS = Details()

_MAX_KEPT = 8
"""Lines that are printed of what is saved for backward, and of what is recomputed."""
_MAX_LINES = 40
"""Lines that are printed of one target."""


def as_json(outcome: CheckOutcome, details: Details = NO_DETAILS) -> str:
    """The kernels of every target."""
    targets = [_target_json(report, outcome, details) for report in outcome.reports]
    return json.dumps({"schema": 2, "targets": targets, "problems": encode(outcome.problems)}, indent=2)


def _target_json(report: Report, outcome: CheckOutcome, details: Details) -> dict[str, Any]:
    call = one_call(report)
    return {
        "path": report.target.path,
        "name": report.target.name or "__main__",
        "line": report.target.line,
        "device": encode(report.target_device),
        "graphs": [
            {**_graph_json(graph, report, details), "in_call": graph in call.generated}
            for graph in report.generated
        ],
        "lines": [
            {
                "path": cost.place.path if cost.place else None,
                "line": cost.place.line if cost.place else None,
                "kernels": len(cost.launches),
                "bytes": float(cost.bytes),
                "flops": float(cost.flops),
                "estimate_us": float(cost.us),
                "fused_with": [[place.path, place.line] for place in sorted(cost.fused_with)],
            }
            for cost in costs_by_line(call)
        ],
        "own_kernels": own_kernels_json(report, details.asm),
        "findings": [finding_as_json(folded, outcome.sources) for folded in outcome.of_kernels(report)],
        "failures": encode(report.failures),
        "problems": encode(report.problems),
        "why": _why_json(report, details),
    }


def _graph_json(graph: GeneratedGraph, report: Report, details: Details) -> dict[str, Any]:
    out: dict[str, Any] = {
        "compile_id": graph.compile_id,
        "phase": graph.phase.value,
        "failure": graph.failure,
        "kernels": [_kernel_json(folded, report, details) for folded in fold(graph, report.roots)],
        "saved": encode(graph.saved),
        "saved_bytes": sum(tensor.bytes for tensor in graph.saved),
        "recomputed": encode(graph.recomputed),
        "refusals": encode(graph.refusals),
        "handed": encode(graph.handed),
        "repeated": encode(graph.repeated),
        "cudagraph_skips": encode(graph.cudagraph_skips),
    }
    if details.graphs:
        out["joint"] = report.texts.get(graph.joint_key or "")
        out["aten"] = report.texts.get(graph.aten_key or "")
    return out


def _kernel_json(folded: Folded, report: Report, details: Details) -> dict[str, Any]:
    kernel = folded.kernel
    out: dict[str, Any] = {
        "name": kernel.name,
        "kind": kernel.kind.value,
        "launch": kernel.launch,
        "count": folded.count,
        "call": kernel.call,
        "lines": [[place.path, place.line] for place in folded.places],
        "operators": [
            {
                "name": operator.name,
                "original": operator.original,
                "stack": [[frame.path, frame.line] for frame in operator.stack],
            }
            for operator in kernel.operators
        ],
        "bytes_read": kernel.bytes_read,
        "bytes_written": kernel.bytes_written,
        "flops": kernel.flops,
        "dtype": kernel.dtype,
        "estimate_us": kernel.estimate_us,
        "bound": kernel.bound,
        "copies": kernel.copies,
        "candidates": list(kernel.candidates),
    }
    if details.source:
        out["source"] = report.texts.get(kernel.text_key or "")
    assembled = report.assembled.get(kernel.text_key or "")
    if assembled is not None:
        out["resources"] = encode(dataclasses.replace(assembled, listings={}))
        if details.asm is not None:
            listing = assembled.listings.get(details.asm)
            out["asm"] = None if listing is None else listing.text
    return out


def _why_json(report: Report, details: Details) -> list[dict[str, Any]]:
    out = []
    for first, second in details.pairs:
        ends = first.line_for(report.target.path), second.line_for(report.target.path)
        fusion = why(report, *ends)
        reasons = [
            {"words": words, "reason": reason, "count": count} for words, reason, count in fusion.reasons
        ]
        out.append(
            {
                "lines": [first.line, second.line],
                **_cells_json(ends),
                "verdict": fusion.verdict,
                "kernels": fusion.kernels,
                "reasons": reasons,
            }
        )
    return out


def _cells_json(ends: tuple[SourceLine, SourceLine]) -> dict[str, list[int]]:
    """The cells of two lines of a notebook."""
    cells = [cell for end in ends if (cell := cell_of(end.path)[1]) is not None]
    return {"cells": cells} if cells else {}


def print_kernels(outcome: CheckOutcome, terminal: Terminal, details: Details = NO_DETAILS) -> None:
    """Print every target."""
    for report in outcome.reports:
        _print_target(report, outcome, terminal, details)
        for first, second in details.pairs:
            ends = first.line_for(report.target.path), second.line_for(report.target.path)
            name = in_words if cell_of(report.target.path)[1] is not None else None
            terminal.print(sentence(why(report, *ends), *ends, name=name))


def _print_target(report: Report, outcome: CheckOutcome, terminal: Terminal, details: Details) -> None:
    device = report.target_device.name if report.target_device else report.device
    print_heading(report, f"estimates for {device}; nothing was launched", terminal)
    _print_lines(report, outcome, terminal)
    for finding in outcome.of_kernels(report):
        terminal.print(finding_line(finding))
    call = one_call(report).generated
    others = [graph for graph in report.generated if graph not in call]
    for graph in call:
        _print_graph(graph, report, terminal, details)
    if others:
        terminal.print(("\nrecompiled graphs, which a call runs in place of those above:", "bold"))
    for graph in others:
        _print_graph(graph, report, terminal, details)
    print_own_kernels(report, terminal, details.asm)
    print_problems(report, terminal)
    terminal.print()


def _print_lines(report: Report, outcome: CheckOutcome, terminal: Terminal) -> None:
    costs = costs_by_line(one_call(report))
    if not costs:
        return
    whole = float(sum(cost.us for cost in costs))
    rows = [("line", "estimate", "share", "kernels", "traffic", "source, and lines fused with it")]
    for cost in costs[:_MAX_LINES]:
        line = cost.place
        text = (outcome.sources.line(line.path, line.line) or "").strip() if line else ""
        fused = format_line_ranges(cost.fused_with, line) if line else ""
        rows.append(
            (
                f"{shown_path(line.path)}:{line.line}" if line else "(no source line)",
                format_estimate(float(cost.us)),
                format_percent(float(cost.us), whole),
                f"{len(cost.launches):,}",
                format_size(float(cost.bytes)),
                f"{text}  # with {fused}" if fused else text,
            )
        )
    terminal.print_table(rows)
    terminal.print_more(len(costs) - _MAX_LINES, "line")
    terminal.print(
        f"{'total':<8} {target_summary(report)}; times assume typical fractions of the published rates"
    )


def _print_graph(graph: GeneratedGraph, report: Report, terminal: Terminal, details: Details) -> None:
    folded = fold(graph, report.roots)
    launches = format_count(sum(folded.count for folded in folded), "launch", "launches")
    terminal.print((f"\n{graph.phase.value} graph {graph.compile_id}: {launches}", "bold"))
    if graph.failure is not None:
        terminal.print(f"no kernels: {graph.failure}")
    for other_folded in folded:
        _print_kernel(other_folded, report, terminal, details)
    _print_saved(graph, report, terminal)
    if details.graphs:
        _print_texts(graph, report, terminal)


def _print_kernel(folded: Folded, report: Report, terminal: Terminal, details: Details) -> None:
    kernel = folded.kernel
    count = f" × {folded.count}" if folded.count > 1 else ""
    terminal.print("  ", (kernel.name, "bold cyan"), f"{count}  {', '.join(_facts(folded))}")
    lines = "no source line"
    if folded.places:
        lines = f"{shown_path(folded.places[0].path)} {format_line_ranges(folded.places, folded.places[0])}"
    terminal.print((f"      {lines}", "dim"))
    if kernel.candidates:
        terminal.print(
            f"      autotuned on a GPU from {len(kernel.candidates)}: {candidates(kernel.candidates)}"
        )
    assembled = report.assembled.get(kernel.text_key or "")
    if assembled is not None:
        terminal.print(f"      {resources(assembled)}")
    if details.source and kernel.text_key:
        terminal.print(report.texts.get(kernel.text_key, ""))
    if details.asm is not None and assembled is not None and details.asm in assembled.listings:
        terminal.print(assembled.listings[details.asm].text)


def _print_texts(graph: GeneratedGraph, report: Report, terminal: Terminal) -> None:
    """Print the graph as text, and before a forward graph the joint graph that it was partitioned from."""
    name = f"{graph.phase.value} graph {graph.compile_id}"
    joint = f"joint graph {graph.compile_id}, before it was partitioned into forward and backward"
    for head, key in ((joint, graph.joint_key), (f"{name}, as Inductor got it", graph.aten_key)):
        if key in report.texts:
            terminal.print((f"\n{head}:", "bold"))
            terminal.print(report.texts[key])


def _facts(folded: Folded) -> list[str]:
    """What one kernel is, costs, moves and computes: the time is of all its launches, the rest of one."""
    kernel = folded.kernel
    facts = [kernel.kind.value.replace("_", " ")]
    if folded.us is not None:
        together = " in total" if folded.count > 1 else ""
        facts.append(f"{format_estimate(folded.us)}{together} ({kernel.bound}-bound)")
    each = "each " if folded.count > 1 else ""
    if kernel.bytes_read is not None and kernel.bytes_written is not None:
        facts.append(
            f"{each}reads {format_size(kernel.bytes_read)}, writes {format_size(kernel.bytes_written)}"
        )
    if kernel.flops:
        facts.append(f"{each}{format_flops(kernel.flops)}")
    return facts


def _print_saved(graph: GeneratedGraph, report: Report, terminal: Terminal) -> None:
    """Print what the forward graph saves for the backward graph, and what that recomputes instead."""
    saved: Counter[SourceLine | None] = Counter()
    for tensor in graph.saved:
        saved[place_of(tensor.stack, report.roots)] += tensor.bytes
    if whole := sum(saved.values()):
        most = [
            f"{format_size(count)} from {shown_line(line)}"
            for line, count in saved.most_common(_MAX_KEPT)
            if count
        ]
        rest = whole - sum(count for _, count in saved.most_common(_MAX_KEPT))
        more = [f"{format_size(rest)} from other lines"] if rest else []
        terminal.print(f"  saves {format_size(whole)} for backward: {', '.join([*most, *more])}")
    recomputed = Counter(
        (folded.operator, place_of(folded.stack, report.roots)) for folded in graph.recomputed
    )
    if recomputed:
        terminal.print(
            f"  recomputes {format_count(recomputed.total(), 'operator')} instead of saving the results:"
        )
    for (operator, line), count in recomputed.most_common(_MAX_KEPT):
        times = f" × {count}" if count > 1 else ""
        terminal.print(f"      {operator}{times} from {shown_line(line)}")
    if len(recomputed) > _MAX_KEPT:
        terminal.print(f"      ... and {sum(sorted(recomputed.values(), reverse=True)[_MAX_KEPT:])} more")

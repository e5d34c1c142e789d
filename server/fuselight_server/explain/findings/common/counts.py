"""What a run found, in numbers: the same ones in the lens, in the report view and in the terminal.

Invariant: a graph counts once however often it was compiled (each further time is a recompilation), and a break
once for each place and cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fuselight.shared.report import Break, Location, Outcome, Report, Rung
from fuselight_server.base.formatting import format_count
from fuselight_server.explain.findings.common.refused_calls import is_of_refused_call, refused_calls


@dataclass(frozen=True)
class Counts:
    """What a run found, in numbers."""

    graphs: int
    breaks: int
    recompilations: int

    def __str__(self) -> str:
        """`2 graphs, 1 break, 3 recompilations`."""
        named = (
            format_count(self.graphs, "graph"),
            format_count(self.breaks, "break"),
            format_count(self.recompilations, "recompilation"),
        )
        return ", ".join(named)

    @property
    def is_any(self) -> bool:
        """Whether anything was counted."""
        return bool(self.graphs or self.breaks or self.recompilations)

    @property
    def short(self) -> str:
        """`2 graphs, 1 break`, `1 graph, no breaks`: the counts that are not 0."""
        counted = (
            format_count(self.breaks, "break") if self.breaks else "",
            format_count(self.recompilations, "recompilation") if self.recompilations else "",
        )
        return ", ".join(filter(None, (format_count(self.graphs, "graph"), *counted))) + (
            "" if any(counted) else ", no breaks"
        )


def everywhere(_location: Location) -> bool:
    """The whole report."""
    return True


def counts(report: Report, inside: Callable[[Location], bool] = everywhere) -> Counts:
    """Count a report, or those functions of it whose `def` line is `inside`."""
    graphs = {
        record.frame
        for record in report.compiles
        if record.graph is not None
        and record.outcome is Outcome.COMPILED
        and 0 <= record.frame < len(report.frames)
        and inside(report.frames[record.frame].location)
    }
    refused = refused_calls(report)
    breaks = break_groups(
        graph_break
        for graph_break in report.breaks
        if not is_of_refused_call(refused, graph_break.call, graph_break.ids[0] if graph_break.ids else None)
        and (inside is everywhere or (graph_break.stack and inside(graph_break.stack[0])))
    )
    # One that the limit stopped compiled nothing.
    again = sum(
        recompilation.compile_id is not None and inside(recompilation.location)
        for recompilation in report.recompiles
    )
    return Counts(graphs=len(graphs), breaks=len(breaks), recompilations=again)


def runs_of(reports: Iterable[Report]) -> list[list[Report]]:
    """The reports of each run: that of a file's own statements counts for all targets of the file together."""
    runs: dict[object, list[Report]] = {}
    for report in reports:
        is_of_file = report.inputs is not None and report.inputs.rung is Rung.SCRIPT
        key = (report.target.path, counts(report)) if is_of_file else id(report)
        runs.setdefault(key, []).append(report)
    return list(runs.values())


def break_groups(breaks: Iterable[Break]) -> list[list[Break]]:
    """Group breaks by place and cause: a group is what counts as one break, and has one finding."""
    groups: dict[object, list[Break]] = {}
    for graph_break in breaks:
        last = graph_break.stack[-1] if graph_break.stack else None
        place = last and (last.path, last.line, last.column)
        groups.setdefault((place, graph_break.ids[:1]), []).append(graph_break)
    return list(groups.values())

"""The capture of a target as nodes of the report's tree: inputs, findings, frames, breaks, recompilations, forecast.

Invariant: a count is that of the whole report, even where only the first entries are listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Compile, Graph, Location, Recompile, Report
from fuselight_server.base.finding import SourceLine, Span, rank
from fuselight_server.base.formatting import format_count, format_estimate, format_place
from fuselight_server.editor.messages.answers import ReportNode
from fuselight_server.editor.presenters.tree_nodes import LISTED, NodeMaker
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.kernels import KernelResult
from fuselight_server.editor.results.lens_facts import format_where, with_state
from fuselight_server.editor.results.refused_fixes import RefusedFix
from fuselight_server.editor.results.target_lens import inputs_words
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.counts import break_groups
from fuselight_server.explain.findings.common.resume_functions import worded_recompilations
from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange, folded, folded_text
from fuselight_server.explain.findings.recompilations.recompilation_groups import birthplace
from fuselight_server.explain.findings.recompilations.recompilations import difference_of
from fuselight_server.source.positions import resumption, span


@dataclass(frozen=True)
class CaptureNodeMaker(NodeMaker):
    """Makes the nodes of one result."""

    result: CaptureResult
    context: Context

    def now(self, at: Location | None) -> Span | None:
        """Return where a place of the report is now; None for what is no place in a file."""
        is_file = at is not None and os.path.isabs(at.path)  # noqa: PTH117 - paths stay text
        return self.result.places.now(span(at)) if at is not None and is_file else None

    def words(self, at: Location) -> str:
        """Say where a place of the report is now: `line 12` of the target's file, `layers.py:12` of another one."""
        now = self.result.places.now(span(at))
        return format_where(SourceLine(now.path, now.line), self.result.key.path)

    def text(self, path: str, text: str) -> str:
        """Return a text about a file with the lines that it names where they are now."""
        return self.result.text_now(text, path)


def forecast_nodes(make: CaptureNodeMaker) -> list[ReportNode]:
    """Make one node for each change that recompiles, and one over the changes that do not."""
    changes = make.result.expected_changes
    listed, breaks = folded(change for change in changes if change.recompiles)
    recompiling = [_expected(make, change) for change in listed]
    for place, count in breaks:
        text = folded_text(make.words(place), count)
        inside = [_expected(make, change) for change in changes if change.first_break == place]
        label = f"{text[0].upper()}{text[1:]}"
        recompiling.append(make.node("expected", label, "sync", where=make.now(place), children=inside))
    others = [_expected(make, change) for change in changes if not change.recompiles]
    none = make.group("expected", "Needs no compile", "pass", others)
    if not recompiling:
        return none
    (node,) = make.group("forecast", "Recompiles if", "watch", recompiling)
    return [{**node, "children": [*node["children"], *none]}]


def _expected(make: CaptureNodeMaker, change: ExpectedChange) -> ReportNode:
    place = "" if change.place is None or not change.recompiles else make.words(change.place)
    title = make.text(change.path, change.title)
    guard = f"The compiled code holds while {change.reason}." if change.reason else ""
    tried = [make.text(change.path, line) for line in make.result.tried.get(change, ())]
    advice = [f"Advice: {line}" for line in change.remedies]
    return make.node(
        "expected",
        title,
        "sync" if change.recompiles else "pass",
        description=", ".join(filter(None, [make.text(change.path, change.cost), place])),
        tooltip="\n".join(
            filter(None, [title, *(make.text(change.path, line) for line in (guard, *advice)), *tried])
        ),
        where=make.now(change.place) if change.recompiles else None,
        children=[
            make.node("remedy", line, "verified" if line.startswith("verified") else "circle-slash")
            for line in tried
        ],
    )


def input_nodes(make: CaptureNodeMaker, report: Report) -> list[ReportNode]:
    """Make the node of the inputs over one for each call; none where no inputs were found."""
    if report.inputs is None:
        return []
    calls = [
        make.node(
            "call",
            call.text,
            "symbol-parameter",
            description=f"{call.seconds:.2f} s" if call.seconds is not None else "",
            where=make.now(call.location),
        )
        for call in report.inputs.calls[:LISTED]
    ]
    modes = {True: "training", False: "inference", None: ""}[report.inputs.training]
    label = f"Calls ({len(report.inputs.calls)})" if calls else "Inputs"
    words = ", ".join(filter(None, [make.result.text_now(inputs_words(report.inputs)), modes]))
    return [make.node("inputs", label, "symbol-parameter", description=words, children=calls)]


def first_nodes(make: CaptureNodeMaker, fix: str = "") -> list[ReportNode]:
    """Make the node of the line to fix first, over the lines that come after it; none where it goes without saying.

    `fix`: the fix of that line that has passed verification.
    """
    first = make.result.fix_first(fix)
    if not first:
        return []
    places = [Location(priority.cost.path, priority.cost.line) for priority in make.result.priorities]
    rest = [
        make.node(
            "priority",
            make.text(place.path, priority.gain),
            "lightbulb",
            description=make.words(place),
            where=make.now(place),
        )
        for priority, place in zip(make.result.priorities[1:], places[1:], strict=True)
    ]
    # The side bar cuts off what is long: the line comes first, what it gains is beside it.
    return [
        make.node(
            "priority",
            f"Fix {make.words(places[0])} first",
            "lightbulb",
            description=with_state(make.text(places[0].path, make.result.priorities[0].gain), fix),
            tooltip=first,
            where=make.now(places[0]),
            children=rest[:LISTED],
        )
    ]


def refused_nodes(make: CaptureNodeMaker, refused: Iterable[RefusedFix]) -> list[ReportNode]:
    """Make one node for each fix that is not offered, with the reason."""
    nodes: dict[tuple[str, Span], ReportNode] = {}
    for fix in refused:
        now = make.result.places.now(fix.finding.span)
        title, reason = fix.entry.text, fix.entry.reason
        tooltip = f"{title}: {reason}\n{fix.finding.code}, {format_place(now.path, now.line)}"
        nodes[tooltip, now] = make.node(
            "refused",
            title,
            "circle-slash",
            description=f"{format_where(SourceLine(now.path, now.line), make.result.key.path)}: {reason}",
            tooltip=tooltip,
            where=now,
        )
    return list(nodes.values())


def finding_nodes(make: CaptureNodeMaker, kernels: KernelResult | None) -> list[ReportNode]:
    """Make one node for each finding that has a known cost: the estimated or measured part of a call."""
    live = [*make.result.findings, *(kernels.findings if kernels is not None else ())]
    findings = [finding.now() for finding in live if finding.finding.cost_us and not finding.place.is_deleted]
    return [
        make.node(
            "finding",
            f"{finding.code}: {finding.title}",
            "lightbulb",
            description=f"{format_estimate(finding.cost_us)}, {format_place(finding.span.path, finding.span.line)}",
            tooltip=finding.message,
            where=finding.span,
        )
        for finding in sorted(findings, key=rank)
    ]


def frame_nodes(make: CaptureNodeMaker, report: Report) -> list[ReportNode]:
    """Make one node for each frame, over its compiles."""
    nodes = []
    for index, frame in enumerate(report.frames):
        compiles = [record for record in report.compiles if record.frame == index]
        start = resumption(frame)
        resumed = f", from line {make.result.places.now(span(start)).line} on" if frame.resumes_at else ""
        nodes.append(
            make.node(
                "frame",
                f"{frame.function}{resumed}",
                "symbol-function",
                description=format_count(len(compiles), "compile"),
                where=make.now(start),
                children=[_compile(make, report, record) for record in compiles[:LISTED]],
            )
        )
    return nodes


def _compile(make: CaptureNodeMaker, report: Report, compilation: Compile) -> ReportNode:
    guards = [
        make.node(
            "guard",
            f"{guard.kind} {guard.source}".strip(),
            "shield",
            description=guard.code[0] if guard.code else "",
            tooltip="\n".join(guard.code),
            where=make.now(_last(guard.born)),
        )
        for guard in compilation.guards[:LISTED]
    ]
    symbols = [
        make.node(
            "symbol",
            f"{symbol.name}: {symbol.source}",
            "symbol-numeric",
            description=f"fixed to {symbol.specialized_to}" if symbol.specialized_to else symbol.range or "",
            where=make.now(_last(symbol.stack)),
        )
        for symbol in compilation.symbols[:LISTED]
    ]
    count = compilation.guard_count if compilation.guard_count is not None else len(compilation.guards)
    facts = [compilation.outcome.value]
    children = []
    if compilation.graph is not None:
        facts.append(format_count(compilation.graph.operators, "operator"))
        children.append(_graph(make, report, compilation.graph))
    if compilation.guard_us is not None:
        facts.append(f"guards checked in {compilation.guard_us:.1f} µs")
    if compilation.seconds is not None:
        facts.append(f"{compilation.seconds:.2f} s")
    children += make.group("compile", "Guards", "shield", guards, total=count)
    children += make.group(
        "compile", "Dynamic sizes", "symbol-numeric", symbols, total=len(compilation.symbols)
    )
    return make.node(
        "compile", f"compile {compilation.id}", "package", description=", ".join(facts), children=children
    )


def _graph(make: CaptureNodeMaker, report: Report, graph: Graph) -> ReportNode:
    operators = [
        make.node(
            "operator",
            name,
            "symbol-operator",
            where=make.now(_last(graph.lines[index])) if index < len(graph.lines) else None,
        )
        for index, name in enumerate(graph.targets[:LISTED])
    ]
    return make.node(
        "graph",
        f"Graph ({format_count(graph.operators, 'operator')})",
        "type-hierarchy",
        description=", ".join(graph.inputs[:4]),
        tooltip=report.texts.get(graph.text_key or "", ""),
        children=make.listed("compile", operators, graph.operators),
    )


def _last(stack: Sequence[Location]) -> Location | None:
    return stack[-1] if stack else None


def break_nodes(make: CaptureNodeMaker, report: Report) -> list[ReportNode]:
    """Make one node for each break that a lens counts, in the words and at the place of its finding.

    A break in a library that several lines lead to is one node over those lines.
    """
    titles = {
        (live.finding.code, live.finding.span.path, live.finding.span.line): live.now().title
        for live in make.result.own
    }
    nodes = []
    for graph_break, *others in break_groups(report.breaks):
        code = graph_break.ids[0] if graph_break.ids and graph_break.ids[0] else "FL107"
        homes: dict[tuple[str, int], Location] = {}
        for same in (graph_break, *others):
            home = make.context.innermost_user_frame(same.stack, same.above)
            if home is not None:
                homes.setdefault((home.path, home.line), home)
        places = [homes[key] for key in sorted(homes)]
        home = places[0] if places else _last(graph_break.stack)
        title = titles.get((code, home.path, home.line)) if home else None
        what = title or (
            graph_break.reason.splitlines()[0] if graph_break.reason else "torch gives no reason"
        )
        more = format_count(len(places) - 1, "more place") if len(places) > 1 else ""
        times = f"{len(others) + 1} times" if others else ""
        facts = [make.words(home) if home else "", more, times]
        lines = [make.node("place", make.words(at), "location", where=make.now(at)) for at in places]
        nodes.append(
            make.node(
                "break",
                f"{code}: {what.removeprefix('graph break: ')}",
                "debug-disconnect",
                description=", ".join(filter(None, facts)),
                tooltip="\n".join((graph_break.reason, graph_break.explanation, *graph_break.hints)),
                where=make.now(home),
                children=make.listed("place", lines) if len(lines) > 1 else (),
            )
        )
    return nodes


def recompilation_nodes(make: CaptureNodeMaker) -> tuple[list[ReportNode], list[ReportNode]]:
    """Make one node for each recompilation, in the words of its finding; those that the limit stopped apart."""
    nodes_of = [
        (recompilation, _recompilation(make, recompilation))
        for recompilation in worded_recompilations(make.context)
    ]
    counted = [node for recompilation, node in nodes_of if recompilation.compile_id is not None]
    stopped = [
        node for recompilation, node in nodes_of if recompilation.compile_id is None
    ]  # a lens does not count those
    return counted, stopped


def _recompilation(make: CaptureNodeMaker, recompilation: Recompile) -> ReportNode:
    """Make the node of one recompilation, over the compiled versions that it was compared with."""
    home, failure = birthplace(make.context, recompilation)
    entries = [
        make.node(
            "entry",
            f"compile {entry.compile_id}",
            "symbol-event",
            description=make.text(
                recompilation.location.path, "; ".join(failure.difference for failure in entry.failures)
            ),
            tooltip="\n".join(failure.code for failure in entry.failures),
            where=make.now(next((failure.born[-1] for failure in entry.failures if failure.born), None)),
        )
        for entry in recompilation.entries[:LISTED]
    ]
    return make.node(
        "recompilation",
        make.text(
            recompilation.location.path,
            f"{recompilation.function}: {difference_of(make.context, recompilation, failure)}",
        ),
        "sync",
        description=make.words(home),
        tooltip="\n".join(recompilation.reasons),
        where=make.now(home),
        children=entries,
    )


def not_compiled_nodes(make: CaptureNodeMaker, report: Report) -> list[ReportNode]:
    """Make one node for each function that ran in eager mode."""
    return [
        make.node(
            "eager",
            uncompiled_code.function,
            "circle-slash",
            description=uncompiled_code.kind.value.replace("_", " "),
            tooltip=uncompiled_code.reason,
            where=make.now(uncompiled_code.location),
        )
        for uncompiled_code in report.not_compiled
    ]


def failure_nodes(make: CaptureNodeMaker, report: Report) -> list[ReportNode]:
    """Make one node for each failure, with its next step."""
    return [
        make.node(
            "failure",
            failure.message,
            "error",
            description=f"{failure.culprit.value}: {failure.kind}",
            tooltip=f"{failure.message}\n{failure.next_step}",
            where=make.now(_last(failure.stack)),
        )
        for failure in report.failures
    ]


def note_nodes(make: CaptureNodeMaker, report: Report) -> list[ReportNode]:
    """Make one node for each note of the run."""
    return [
        make.node("note", make.result.text_now(note.text), "info", where=make.now(note.location))
        for note in report.notes
    ]

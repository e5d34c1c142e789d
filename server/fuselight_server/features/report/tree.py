"""The report as a tree for the client's view: `fuselight/reportTree`. The client only shows it.

Invariant: each node with a line jumps to where that line is now. A count is that of the whole report, even where only
the first entries are listed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuselight_server.features import convert
from fuselight_server.features.code_lens import inputs_words, summary
from fuselight_server.features.report.kernel_nodes import kernel_nodes, shown_results
from fuselight_server.features.report.nodes import LISTED, NodeMaker
from fuselight_server.finding import rank
from fuselight_server.findings.context import Context, Thresholds
from fuselight_server.findings.counts import break_groups
from fuselight_server.findings.recompilations import birthplace, difference_of
from fuselight_server.findings.resume_functions import in_the_users_words
from fuselight_server.formatting import format_count, format_estimate
from fuselight_server.results.positions import resumption, span
from fuselight_server.session.intake import PROGRAM

if TYPE_CHECKING:
    from fuselight.report import Compile, Location, Report
    from fuselight_server.features.protocol import ReportTreeParams
    from fuselight_server.features.report.nodes import Node
    from fuselight_server.features.server import Server
    from fuselight_server.results.captures import CaptureResult
    from fuselight_server.results.kernels import KernelResult


@dataclass(frozen=True)
class _ReportMaker:
    """Makes the nodes of one result."""

    result: CaptureResult
    nodes: NodeMaker
    context: Context

    def node(self, identity: str, label: str, icon: str, *, at: Location | None = None, **parts: Any) -> Node:
        """Make a node; `at` is the place in the report that it jumps to."""
        is_file = at is not None and os.path.isabs(at.path)  # noqa: PTH117 - paths stay text
        where = self.result.places.now(span(at)) if at is not None and is_file else None
        return self.nodes.make(identity, label, icon, where=where, **parts)

    def place(self, location: Location) -> str:
        """Say where `location` is now, as `model.py:12`."""
        now = self.result.places.now(span(location))
        return f"{os.path.basename(now.path)}:{now.line}"  # noqa: PTH119 - paths stay text


def report_tree(server: Server, params: ReportTreeParams) -> Node:
    """Answer `fuselight/reportTree`."""
    path = convert.path(params.uri) if params.uri else None
    shown = shown_results(server.state, path)
    return {"nodes": [target_node(result, server.view, kernels) for result, kernels in shown]}


def target_node(result: CaptureResult, view: convert.Client, kernels: KernelResult | None = None) -> Node:
    """Make the node of one target and all below it."""
    report, key = result.report, result.key
    # After an edit the lines are not those that ran: their text is left out.
    context = Context.of(report, Thresholds(), None if result.stale else view.read_line)
    make = _ReportMaker(result, NodeMaker(view, f"{key.path}::{key.name}"), context)
    name = PROGRAM if key.name == PROGRAM else key.name or "__main__"
    start = next((one.location for one in report.frames if one.location.line >= report.target.line), None)
    changes = [make.node(f"changes/{index}", text, "diff") for index, text in enumerate(result.changes)]
    children = [
        *_inputs(make, report),
        *make.nodes.group("findings", "Findings, costliest first", "checklist", _findings(make, kernels)),
        *make.nodes.group("changes", "Changed since the run before", "diff", changes),
        *(kernel_nodes(kernels, view, make.nodes.root) if kernels is not None else ()),
        *make.nodes.group("frames", "Frames", "symbol-function", _frames(make, report)),
        *make.nodes.group("breaks", "Graph breaks", "debug-disconnect", _breaks(make, report)),
        *make.nodes.group(
            "recompilations", "Recompilations", "sync", _recompilations(make, report, stopped=False)
        ),
        *make.nodes.group(
            "stopped",
            "Stopped by the recompile limit",
            "stop-circle",
            _recompilations(make, report, stopped=True),
        ),
        *make.nodes.group("eager", "Not compiled", "circle-slash", _not_compiled(make, report)),
        *make.nodes.group("failures", "Failures", "error", _failures(make, report)),
        *make.nodes.group("notes", "Notes", "info", _notes(make, report)),
        *make.nodes.group("problems", "Not available", "question", _problems(make, report)),
    ]
    versions = f"torch {report.versions.torch}, Python {report.versions.python}, {report.device}"
    node = make.node(
        "target",
        name,
        "history" if result.stale else "symbol-class",
        description=summary(result),
        tooltip=f"{name} in {key.path}\n{summary(result)}\n{versions}",
        at=start if start and start.path == report.target.path else None,
        kind="target",
        children=children,
    )
    return {**node, "target": {"uri": view.uri_of(key.path), "target": key.name}}


def _inputs(make: _ReportMaker, report: Report) -> list[Node]:
    if report.inputs is None:
        return []
    calls = [
        make.node(
            f"inputs/{call.index}",
            call.text,
            "symbol-parameter",
            description=f"{call.seconds:.2f} s" if call.seconds is not None else "",
            at=call.location,
            kind="call",
        )
        for call in report.inputs.calls[:LISTED]
    ]
    modes = {True: "training", False: "inference", None: ""}[report.inputs.training]
    words = inputs_words(report.inputs)
    return [
        make.node(
            "inputs",
            f"Calls ({len(report.inputs.calls)})" if calls else "Inputs",
            "symbol-parameter",
            description=", ".join(part for part in (words, modes) if part),
            children=calls,
        )
    ]


def _findings(make: _ReportMaker, kernels: KernelResult | None) -> list[Node]:
    """Make one node for each finding that has a known cost: the estimated or measured part of a call."""
    live = [*make.result.findings, *(kernels.findings if kernels is not None else ())]
    found = [one.now() for one in live if one.finding.cost_us and not one.place.gone]
    nodes = []
    for index, one in enumerate(sorted(found, key=rank)):
        place = f"{os.path.basename(one.span.path)}:{one.span.line}"  # noqa: PTH119 - paths stay text
        nodes.append(
            make.nodes.make(
                f"finding/{index}",
                f"{one.code}: {one.title}",
                "lightbulb",
                description=f"{format_estimate(one.cost_us)}, {place}",
                tooltip=one.message,
                where=one.span,
            )
        )
    return nodes


def _frames(make: _ReportMaker, report: Report) -> list[Node]:
    nodes = []
    for index, frame in enumerate(report.frames):
        compiles = [one for one in report.compiles if one.frame == index]
        start = resumption(frame)
        resumed = f", from line {make.result.places.now(span(start)).line} on" if frame.resumes_at else ""
        children = [_compile(make, report, one, number) for number, one in enumerate(compiles[:LISTED])]
        nodes.append(
            make.node(
                f"frame/{index}",
                f"{frame.function}{resumed}",
                "symbol-function",
                description=format_count(len(compiles), "compile"),
                at=start,
                children=children,
            )
        )
    return nodes


def _compile(make: _ReportMaker, report: Report, one: Compile, number: int) -> Node:
    place = f"compile/{one.frame}/{number}"
    guards = [
        make.node(
            f"guard/{one.frame}/{number}/{index}",
            f"{guard.kind} {guard.source}".strip(),
            "shield",
            description=guard.code[0] if guard.code else "",
            tooltip="\n".join(guard.code),
            at=guard.born[-1] if guard.born else None,
            kind="guard",
        )
        for index, guard in enumerate(one.guards[:LISTED])
    ]
    symbols = [
        make.node(
            f"symbol/{one.frame}/{number}/{index}",
            f"{symbol.name}: {symbol.source}",
            "symbol-numeric",
            description=f"specialized to {symbol.specialized_to}"
            if symbol.specialized_to
            else symbol.range or "",
            at=symbol.stack[-1] if symbol.stack else None,
            kind="symbol",
        )
        for index, symbol in enumerate(one.symbols[:LISTED])
    ]
    count = one.guard_count if one.guard_count is not None else len(one.guards)
    facts = [one.outcome.value]
    if one.graph is not None:
        facts.append(format_count(one.graph.operators, "operator"))
    if one.guard_us is not None:
        facts.append(f"guards checked in {one.guard_us:.1f} µs")
    if one.seconds is not None:
        facts.append(f"{one.seconds:.2f} s")
    graph = [_graph(make, report, one, place)] if one.graph is not None else []
    children = graph + make.nodes.group(f"{place}/guards", "Guards", "shield", guards, total=count)
    children += make.nodes.group(
        f"{place}/symbols", "Dynamic sizes", "symbol-numeric", symbols, total=len(one.symbols)
    )
    return make.node(place, f"compile {one.id}", "package", description=", ".join(facts), children=children)


def _graph(make: _ReportMaker, report: Report, one: Compile, place: str) -> Node:
    graph = one.graph
    assert graph is not None  # noqa: S101 - the caller looked
    operators = [
        make.node(
            f"{place}/operator/{index}",
            name,
            "symbol-operator",
            at=graph.lines[index][-1] if index < len(graph.lines) and graph.lines[index] else None,
            kind="operator",
        )
        for index, name in enumerate(graph.targets[:LISTED])
    ]
    text = report.texts.get(graph.text_key or "", "")
    return make.node(
        f"{place}/graph",
        f"Graph ({format_count(graph.operators, 'operator')})",
        "type-hierarchy",
        description=", ".join(graph.inputs[:4]),
        tooltip=text,
        kind="graph",
        children=make.nodes.listed(f"{place}/operator", operators, graph.operators),
    )


def _breaks(make: _ReportMaker, report: Report) -> list[Node]:
    """Make one node for each break that a lens counts, in the words and at the place of its finding."""
    titles = {
        (live.finding.code, live.finding.span.path, live.finding.span.line): live.finding.title
        for live in make.result.own
    }
    nodes = []
    for index, (one, *others) in enumerate(break_groups(report.breaks)):
        code = one.ids[0] if one.ids and one.ids[0] else "FL107"
        home = make.context.innermost_user_frame(one.stack, one.above) or (
            one.stack[-1] if one.stack else None
        )
        title = titles.get((code, home.path, home.line)) if home else None
        what = title or (one.reason.splitlines()[0] if one.reason else "torch gives no reason")
        times = f", {len(others) + 1} times" if others else ""
        nodes.append(
            make.node(
                f"break/{index}",
                f"{code}: {what.removeprefix('graph break: ')}",
                "debug-disconnect",
                description=f"{make.place(home)}{times}" if home else times.lstrip(", "),
                tooltip="\n".join((one.reason, one.explanation, *one.hints)),
                at=home,
            )
        )
    return nodes


def _recompilations(make: _ReportMaker, report: Report, *, stopped: bool) -> list[Node]:
    """Make a node for each recompilation, or for each that the limit stopped: a lens does not count those."""
    nodes = []
    for index, raw in enumerate(report.recompiles):
        if (raw.compile_id is None) is not stopped:
            continue
        one = in_the_users_words(make.context, raw)
        home, _ = birthplace(make.context, one)
        entries = [
            make.node(
                f"entry/{index}/{number}",
                f"compile {entry.compile_id}",
                "symbol-event",
                description="; ".join(failure.difference for failure in entry.failures),
                tooltip="\n".join(failure.code for failure in entry.failures),
                at=next((failure.born[-1] for failure in entry.failures if failure.born), None),
                kind="entry",
            )
            for number, entry in enumerate(one.entries[:LISTED])
        ]
        nodes.append(
            make.node(
                f"recompilation/{index}",
                f"{one.function}: {difference_of(one)}",
                "sync",
                description=make.place(home),
                tooltip="\n".join(one.reasons),
                at=home,
                children=entries,
            )
        )
    return nodes


def _not_compiled(make: _ReportMaker, report: Report) -> list[Node]:
    return [
        make.node(
            f"eager/{index}",
            one.function,
            "circle-slash",
            description=one.kind.value.replace("_", " "),
            tooltip=one.reason,
            at=one.location,
        )
        for index, one in enumerate(report.not_compiled)
    ]


def _failures(make: _ReportMaker, report: Report) -> list[Node]:
    return [
        make.node(
            f"failure/{index}",
            one.message,
            "error",
            description=f"{one.culprit.value}: {one.kind}",
            tooltip=f"{one.message}\n{one.next_step}",
            at=one.stack[-1] if one.stack else None,
        )
        for index, one in enumerate(report.failures)
    ]


def _notes(make: _ReportMaker, report: Report) -> list[Node]:
    return [
        make.node(f"note/{index}", one.text, "info", at=one.location)
        for index, one in enumerate(report.notes)
    ]


def _problems(make: _ReportMaker, report: Report) -> list[Node]:
    return [
        make.node(f"problem/{index}", one.what, "question", description=one.why)
        for index, one in enumerate(report.problems)
    ]

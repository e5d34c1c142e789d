"""The report as a tree for the client's view: `fuselight/reportTree`. The client only shows it.

Invariant: each node that has a line jumps to where that line is now; every count is that of the whole report, also
where only the first entries are listed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server import convert
from fuselight_server.features.code_lens import inputs_words, summary
from fuselight_server.features.report_kernels import LISTED, Node, kernel_nodes, shown_results
from fuselight_server.findings.context import Context, Thresholds
from fuselight_server.findings.recompilations import birthplace, difference_of
from fuselight_server.findings.resumptions import in_the_users_words
from fuselight_server.findings.text import counted
from fuselight_server.outcomes import PROGRAM
from fuselight_server.places import resumption, span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.report import Break, Compile, Location, Report
    from fuselight_server.features.protocol import ReportTreeParams
    from fuselight_server.features.server import Server
    from fuselight_server.kernel_results import KernelResult
    from fuselight_server.places import Result


@dataclass(frozen=True)
class Maker:
    """Makes the nodes of one result."""

    result: Result
    view: convert.Client
    root: str
    context: Context

    def node(
        self,
        identity: str,
        label: str,
        icon: str,
        *,
        description: str = "",
        tooltip: str = "",
        at: Location | None = None,
        kind: str = "",
        children: Iterable[Node] = (),
    ) -> Node:
        """Make one node; `at` is the place that it jumps to."""
        where = None if at is None or not os.path.isabs(at.path) else self.result.places.now(span(at))  # noqa: PTH117
        listed = list(children)
        return {
            "id": f"{self.root}/{identity}",
            "label": label,
            "description": description,
            "tooltip": tooltip or label,
            "icon": icon,
            "uri": self.view.uri_of(where.path) if where else None,
            "range": convert.plain_range(where, self.view) if where else None,
            "contextValue": kind or identity.split("/", maxsplit=1)[0],
            "children": listed,
        }

    def place(self, location: Location) -> str:
        """Say where `location` is now, as `model.py:12`."""
        now = self.result.places.now(span(location))
        return f"{os.path.basename(now.path)}:{now.line}"  # noqa: PTH119 - paths stay text

    def group(
        self, identity: str, label: str, icon: str, nodes: list[Node], total: int | None = None
    ) -> list[Node]:
        """Make a node over `nodes` with their number; none without nodes."""
        if not nodes:
            return []
        count = len(nodes) if total is None else total
        children = nodes[:LISTED]
        if count > len(children):
            children.append(self.node(f"{identity}/more", f"and {count - len(children)} more", "ellipsis"))
        return [self.node(identity, f"{label} ({count})", icon, children=children)]


def report_tree(server: Server, params: ReportTreeParams) -> Node:
    """Answer `fuselight/reportTree`."""
    path = convert.path(params.uri) if params.uri else None
    shown = shown_results(server.state, path)
    return {"nodes": [target_node(result, server.view, kernels) for result, kernels in shown]}


def target_node(result: Result, view: convert.Client, kernels: KernelResult | None = None) -> Node:
    """Make the node of one target and all below it."""
    report, key = result.report, result.key
    # After an edit the lines are not those that ran: what was written on them is then left unsaid.
    context = Context.of(report, Thresholds(), None if result.stale else view.read_line)
    make = Maker(result, view, f"{key.path}::{key.name}", context)
    name = PROGRAM if key.name == PROGRAM else key.name or "__main__"
    start = next((one.location for one in report.frames if one.location.line >= report.target.line), None)
    changes = [make.node(f"changes/{index}", text, "diff") for index, text in enumerate(result.changes)]
    children = [
        *_inputs(make, report),
        *make.group("changes", "Changed since the run before", "diff", changes),
        *(kernel_nodes(kernels, view, make.root) if kernels is not None else ()),
        *make.group("frames", "Frames", "symbol-function", _frames(make, report)),
        *make.group("breaks", "Graph breaks", "debug-disconnect", _breaks(make, report)),
        *make.group("recompilations", "Recompilations", "sync", _recompilations(make, report)),
        *make.group("eager", "Not compiled", "circle-slash", _not_compiled(make, report)),
        *make.group("failures", "Failures", "error", _failures(make, report)),
        *make.group("notes", "Notes", "info", _notes(make, report)),
        *make.group("problems", "Not learnt", "question", _problems(make, report)),
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


def _inputs(make: Maker, report: Report) -> list[Node]:
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


def _frames(make: Maker, report: Report) -> list[Node]:
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
                description=counted(len(compiles), "compile"),
                at=start,
                children=children,
            )
        )
    return nodes


def _compile(make: Maker, report: Report, one: Compile, number: int) -> Node:
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
            description=f"specialised to {symbol.specialized_to}"
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
        facts.append(counted(one.graph.operators, "operator"))
    if one.guard_us is not None:
        facts.append(f"guards checked in {one.guard_us:.1f} µs")
    if one.seconds is not None:
        facts.append(f"{one.seconds:.2f} s")
    graph = [_graph(make, report, one, place)] if one.graph is not None else []
    children = graph + make.group(f"{place}/guards", "Guards", "shield", guards, count)
    children += make.group(f"{place}/symbols", "Dynamic sizes", "symbol-numeric", symbols, len(one.symbols))
    return make.node(place, f"compile {one.id}", "package", description=", ".join(facts), children=children)


def _graph(make: Maker, report: Report, one: Compile, place: str) -> Node:
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
    if graph.operators > len(operators):
        operators.append(
            make.node(f"{place}/operator/more", f"and {graph.operators - len(operators)} more", "ellipsis")
        )
    text = report.texts.get(graph.text_key or "", "")
    return make.node(
        f"{place}/graph",
        f"Graph ({counted(graph.operators, 'operator')})",
        "type-hierarchy",
        description=", ".join(graph.inputs[:4]),
        tooltip=text[:4000],
        kind="graph",
        children=operators,
    )


def _breaks(make: Maker, report: Report) -> list[Node]:
    """Make one node for each cause and line, as a lens counts them, in the words and at the place of its finding."""
    groups: dict[object, list[Break]] = {}
    for one in report.breaks:
        last = one.stack[-1] if one.stack else None
        groups.setdefault((last and (last.path, last.line), one.ids[:1]), []).append(one)
    titles = {
        (live.finding.code, live.finding.span.path, live.finding.span.line): live.finding.title
        for live in make.result.own
    }
    nodes = []
    for index, (one, *others) in enumerate(groups.values()):
        code = one.ids[0] if one.ids and one.ids[0] else "FL107"
        home = make.context.innermost_ours(one.stack, one.above) or (one.stack[-1] if one.stack else None)
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


def _recompilations(make: Maker, report: Report) -> list[Node]:
    """Make one node for each, in the words and at the place that its finding has."""
    nodes = []
    for index, raw in enumerate(report.recompiles):
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


def _not_compiled(make: Maker, report: Report) -> list[Node]:
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


def _failures(make: Maker, report: Report) -> list[Node]:
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


def _notes(make: Maker, report: Report) -> list[Node]:
    return [
        make.node(f"note/{index}", one.text, "info", at=one.location)
        for index, one in enumerate(report.notes)
    ]


def _problems(make: Maker, report: Report) -> list[Node]:
    return [
        make.node(f"problem/{index}", one.what, "question", description=one.why)
        for index, one in enumerate(report.problems)
    ]

"""The report as a tree for the client's view: `fuselight/reportTree`. The client only shows it.

Invariant: each node with a line jumps to where that line is now. A count is that of the whole report, even where only
the first entries are listed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fuselight.report import Tier
from fuselight_server.features import convert
from fuselight_server.features.code_lens import inputs_words, summary
from fuselight_server.features.lens import kernel_summary
from fuselight_server.finding import SourceLine, Span, rank
from fuselight_server.findings.context import Context, Thresholds
from fuselight_server.findings.counts import break_groups
from fuselight_server.findings.recompilations import birthplace, difference_of
from fuselight_server.findings.resume_functions import in_the_users_words
from fuselight_server.formatting import (
    format_count,
    format_estimate,
    format_line_ranges,
    format_place,
    format_size,
)
from fuselight_server.kernels.documents import ATEN, JOINT, SOURCE, WRAPPER, document, file_name, key_of
from fuselight_server.kernels.shares import ACTIVATION, fold, place_of
from fuselight_server.results.captures import capture_result_of
from fuselight_server.results.positions import resumption, span

if TYPE_CHECKING:
    from fuselight.report import Compile, GeneratedGraph, Graph, Location, Recompile, Report
    from fuselight_server.features.protocol import ReportTreeParams
    from fuselight_server.features.server import Server
    from fuselight_server.findings.forecasts import ExpectedChange
    from fuselight_server.kernels.shares import Folded
    from fuselight_server.results.captures import CaptureResult
    from fuselight_server.results.kernels import KernelResult
    from fuselight_server.session.state import State


Node = dict[str, Any]

LISTED = 200
"""Entries of one kind that a node lists."""

LONGEST_LABEL = 300
LONGEST_TOOLTIP = 4000


@dataclass(frozen=True)
class NodeMaker:
    """Makes the nodes of one target."""

    view: convert.Client

    def node(
        self,
        kind: str,
        label: str,
        icon: str,
        *,
        description: str = "",
        tooltip: str = "",
        where: Span | None = None,
        kernel: Node | None = None,
        children: Iterable[Node] = (),
    ) -> Node:
        """Make one node. The client's menus depend on `kind`.

        `where` is the place that it jumps to, `kernel` the text that it opens instead.
        """
        label, description = _line(label), _line(description)
        return {
            "label": label,
            "description": description,
            "tooltip": (tooltip or label)[:LONGEST_TOOLTIP],
            "accessibilityLabel": ", ".join(filter(None, [label, description])),
            "icon": icon,
            "uri": self.view.uri_of(where.path) if where else None,
            "range": convert.plain_range(where, self.view) if where else None,
            "contextValue": kind,
            "kernel": kernel,
            "children": list(children),
        }

    def listed(self, kind: str, nodes: list[Node], total: int | None = None) -> list[Node]:
        """Return the first nodes, and one that counts the rest of `total`."""
        shown = nodes[:LISTED]
        more = (len(nodes) if total is None else total) - len(shown)
        return [*shown, self.node(kind, f"and {more:,} more", "ellipsis")] if more > 0 else shown

    def group(
        self,
        kind: str,
        label: str,
        icon: str,
        nodes: list[Node],
        *,
        description: str = "",
        total: int | None = None,
    ) -> list[Node]:
        """Make a node over `nodes` with their number; none without nodes."""
        if not nodes:
            return []
        count = len(nodes) if total is None else total
        children = self.listed(kind, nodes, total)
        return [self.node(kind, f"{label} ({count:,})", icon, description=description, children=children)]

    def changes(self, kind: str, texts: Iterable[str]) -> list[Node]:
        """Make a node over what differs from the run before; none where nothing does."""
        nodes = [self.node(kind, text, "diff") for text in texts]
        return self.group("changes", "Changed since the run before", "diff", nodes)

    def problems(self, report: Report) -> list[Node]:
        """Make one node for each part that the report lacks."""
        return [self.node("problem", one.what, "question", description=one.why) for one in report.problems]


def _identified(node: Node, identity: str) -> Node:
    """Give a node and all below it their ids, which are the same for the same places in the tree."""
    counts: Counter[str] = Counter()
    for child in node["children"]:
        kind = child["contextValue"]
        _identified(child, f"{identity}/{kind}/{counts[kind]}")
        counts[kind] += 1
    node["id"] = identity
    return node


def _line(text: str) -> str:
    """Return `text` on one line that is not too long for a tree."""
    line = " ".join(text[: 2 * LONGEST_LABEL].split())
    is_cut = len(text) > 2 * LONGEST_LABEL or len(line) > LONGEST_LABEL
    return f"{line[:LONGEST_LABEL]}\N{HORIZONTAL ELLIPSIS}" if is_cut else line


@dataclass(frozen=True)
class _KernelMaker(NodeMaker):
    """Makes the nodes of one target's kernels."""

    result: KernelResult

    def now(self, place: SourceLine | None) -> Span | None:
        """Return where a line of the report is now."""
        there = None if place is None else self.result.now(place)
        return None if there is None else Span(there.path, there.line)

    def words(self, places: Iterable[SourceLine]) -> str:
        """Say where lines of the report are now, as `lines 12-14`."""
        now = [there for place in places if (there := self.result.now(place)) is not None]
        return format_line_ranges(now, SourceLine(self.result.key.path, 0))

    def text(self, kernel: str, form: str, name: str) -> Node:
        """What the client opens."""
        uri = self.view.uri_of(self.result.key.path)
        return {"uri": uri, "target": self.result.key.name, "kernel": kernel, "form": form, "name": name}


def shown_results(state: State, path: str | None) -> list[tuple[CaptureResult, KernelResult | None]]:
    """Return the results of the targets that a file is part of (None: of all targets), by target.

    Where only kernels were generated, their report serves as the capture, too.
    """
    kernels = {replace(key, tier=Tier.CAPTURE): one for key, one in state.kernels.items()}
    results = state.captures
    for key, one in kernels.items():
        if key not in results:
            made = capture_result_of(key, one.generation, one.report, ())
            results[key] = replace(made, places=one.places, stale=one.stale)
    return [
        (result, kernels.get(key))
        for key, result in sorted(results.items(), key=lambda item: (item[0].path, item[0].name))
        if path is None or key.path == path or path in result.depends
    ]


def kernel_node(result: KernelResult, view: convert.Client) -> Node:
    """Make the node of a target's kernels."""
    make = _KernelMaker(view, result.shown)
    report, kept = make.result.report, format_size(make.result.kept_bytes)
    children = [
        *make.changes("change", make.result.changes),
        *(_kernel_graph(make, graph) for graph in report.generated),
        *make.group("saved", "Saved for backward, by line", "save", _saved(make), description=kept),
        *make.group("lost", "Not available", "question", make.problems(report)),
    ]
    return make.node("all", "Kernels", "circuit-board", description=kernel_summary(result), children=children)


def _kernel_graph(make: _KernelMaker, graph: GeneratedGraph) -> Node:
    us = sum(kernel.estimate_us or 0.0 for kernel in graph.kernels)
    words = format_count(len(graph.kernels), "kernel") + (f", {format_estimate(us)}" if us else "")
    kernels = [_kernel(make, graph, one) for one in fold(graph, make.result.report.roots)]
    return make.node(
        "graph",
        f"{graph.phase.value} graph {graph.compile_id}",
        "type-hierarchy",
        description=graph.failure or words,
        tooltip=graph.failure or "",
        children=[
            *_texts(make, graph),
            *make.listed("graph", kernels),
            *make.group("graph", "Operators", "symbol-operator", _operators(make, graph)),
            *make.group("graph", "Not fused", "circle-slash", _refusals(make, graph)),
            *make.group("graph", "Not replayed as CUDA graphs", "warning", _skips(make, graph)),
        ],
    )


def _texts(make: _KernelMaker, graph: GeneratedGraph) -> list[Node]:
    nodes = []
    texts = [(WRAPPER, "Wrapper that calls the kernels"), (ATEN, "ATen graph")]
    if graph.joint_key is not None:
        texts.append((JOINT, "Joint graph of forward and backward"))
    for form, label in texts:
        made = document(make.result.report, key_of(graph), form)
        if made is not None:
            text = make.text(key_of(graph), form, made.name)
            nodes.append(make.node("kernel", label, "file-code", kernel=text))
    return nodes


def _kernel(make: _KernelMaker, graph: GeneratedGraph, one: Folded) -> Node:
    kernel = one.kernel
    times = f" x {one.count}" if one.count > 1 else ""
    us = "" if one.us is None else format_estimate(one.us)
    facts = [kernel.kind.value.replace("_", " "), us, make.words(one.places)]
    operators = dict.fromkeys(operator.original or operator.name for operator in kernel.operators)
    return make.node(
        "kernel",
        f"{kernel.name}{times}",
        "symbol-function",
        description=", ".join(filter(None, facts)),
        tooltip="\n".join([kernel.name, *operators]),
        where=make.now(next(iter(one.places), None)),
        kernel=make.text(key_of(graph, kernel), SOURCE, file_name(kernel)),
    )


def _operators(make: _KernelMaker, graph: GeneratedGraph) -> list[Node]:
    """Make one node for each operator of the captured graph that is in a kernel, those in most kernels first."""
    found: Counter[str] = Counter()
    places: dict[str, SourceLine | None] = {}
    for kernel in graph.kernels:
        for name, stack in {one.original or one.name: one.stack for one in kernel.operators}.items():
            found[name] += 1
            places.setdefault(name, place_of(stack, make.result.report.roots))
    return [
        make.node(
            "graph",
            name,
            "symbol-operator",
            description=f"in {format_count(count, 'kernel')}",
            where=make.now(places[name]),
        )
        for name, count in found.most_common()
    ]


def _refusals(make: _KernelMaker, graph: GeneratedGraph) -> list[Node]:
    roots = make.result.report.roots
    nodes = []
    for one in graph.refusals:
        places = [place for stack in (one.first, one.second) if (place := place_of(stack, roots)) is not None]
        facts = [make.words(places), f"{one.count} times" if one.count > 1 else ""]
        where = make.now(next(iter(places), None))
        words = ", ".join(filter(None, facts))
        nodes.append(make.node("graph", one.reason, "circle-slash", description=words, where=where))
    return nodes


def _skips(make: _KernelMaker, graph: GeneratedGraph) -> list[Node]:
    roots = make.result.report.roots
    return [
        make.node("graph", one.reason, "warning", where=make.now(place_of(one.stack, roots)))
        for one in graph.cudagraph_skips
    ]


def _saved(make: _KernelMaker) -> list[Node]:
    """Make one node for each line, those that keep most first, over its tensors."""
    report, kept = make.result.report, make.result.saved
    by_line: dict[SourceLine | None, list[Node]] = {}
    for tensor in (tensor for graph in report.generated for tensor in graph.saved):
        if tensor.kind == ACTIVATION:
            place = place_of(tensor.stack, report.roots)
            node = make.node(
                "tensor",
                f"{tensor.dtype}[{', '.join(tensor.shape)}]",
                "symbol-array",
                description=f"{format_size(tensor.bytes)}, {tensor.name}",
                where=make.now(place),
            )
            by_line.setdefault(place, []).append(node)
    return [
        make.node(
            "kept",
            format_place(where.path, where.line) if (where := make.now(place)) else "no line",
            "save",
            description=f"{format_size(kept[place].bytes)} in {format_count(kept[place].tensors, 'tensor')}",
            where=where,
            children=by_line[place],
        )
        for place in sorted(by_line, key=lambda place: -kept[place].bytes)
    ]


@dataclass(frozen=True)
class _ReportMaker(NodeMaker):
    """Makes the nodes of one result."""

    result: CaptureResult
    context: Context

    def now(self, at: Location | None) -> Span | None:
        """Return where a place of the report is now; None for what is no place in a file."""
        is_file = at is not None and os.path.isabs(at.path)  # noqa: PTH117 - paths stay text
        return self.result.places.now(span(at)) if at is not None and is_file else None

    def words(self, at: Location) -> str:
        """Say where a place of the report is now, as `model.py:12`."""
        now = self.result.places.now(span(at))
        return format_place(now.path, now.line)


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
    make = _ReportMaker(view, result, context)
    name = key.name or "__main__"
    start = next((one.location for one in report.frames if one.location.line >= report.target.line), None)
    recompilations = [(one, _recompilation(make, one)) for one in report.recompiles]
    counted = [node for one, node in recompilations if one.compile_id is not None]
    stopped = [node for one, node in recompilations if one.compile_id is None]  # a lens does not count those
    children = [
        *_inputs(make, report),
        *make.group("findings", "Findings, costliest first", "checklist", _findings(make, kernels)),
        *make.changes("changes", result.changes),
        *([kernel_node(kernels, view)] if kernels is not None else []),
        *make.group("frames", "Frames", "symbol-function", _frames(make, report)),
        *make.group("breaks", "Graph breaks", "debug-disconnect", _breaks(make, report)),
        *make.group("recompilations", "Recompilations", "sync", counted),
        *make.group("stopped", "Stopped by the recompile limit", "stop-circle", stopped),
        *_forecast(make),
        *make.group("eager", "Not compiled", "circle-slash", _not_compiled(make, report)),
        *make.group("failures", "Failures", "error", _failures(make, report)),
        *make.group("notes", "Notes", "info", _notes(make, report)),
        *make.group("problems", "Not available", "question", make.problems(report)),
    ]
    versions = f"torch {report.versions.torch}, Python {report.versions.python}, {report.device}"
    node = make.node(
        "target",
        name,
        "history" if result.stale else "symbol-class",
        description=summary(result),
        tooltip=f"{name} in {key.path}\n{summary(result)}\n{versions}",
        where=make.now(start) if start and start.path == report.target.path else None,
        children=children,
    )
    _identified(node, f"{key.path}::{key.name}")
    return {**node, "target": {"uri": view.uri_of(key.path), "target": key.name}}


def _forecast(make: _ReportMaker) -> list[Node]:
    """Make one node for each change that recompiles, and one over the changes that do not."""
    changes = make.result.expected_changes
    recompiling = [_expected(make, one) for one in changes if one.recompiles]
    others = [_expected(make, one) for one in changes if not one.recompiles]
    none = make.group("expected", "Needs no compile", "pass", others)
    if not recompiling:
        return none
    (node,) = make.group("forecast", "Recompiles if", "watch", recompiling)
    return [{**node, "children": [*node["children"], *none]}]


def _expected(make: _ReportMaker, one: ExpectedChange) -> Node:
    place = "" if one.place is None or not one.recompiles else make.words(one.place)
    guard = f"The compiled code holds while {one.reason}." if one.reason else ""
    advice = [f"What to do: {one.remedies[0]}", *one.remedies[1:]] if one.remedies else []
    return make.node(
        "expected",
        one.title,
        "sync" if one.recompiles else "pass",
        description=", ".join(filter(None, [one.cost, place])),
        tooltip="\n".join(filter(None, [one.title, guard, *advice])),
        where=make.now(one.place) if one.recompiles else None,
    )


def _inputs(make: _ReportMaker, report: Report) -> list[Node]:
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
    words = ", ".join(filter(None, [inputs_words(report.inputs), modes]))
    return [make.node("inputs", label, "symbol-parameter", description=words, children=calls)]


def _findings(make: _ReportMaker, kernels: KernelResult | None) -> list[Node]:
    """Make one node for each finding that has a known cost: the estimated or measured part of a call."""
    live = [*make.result.findings, *(kernels.findings if kernels is not None else ())]
    found = [one.now() for one in live if one.finding.cost_us and not one.place.gone]
    return [
        make.node(
            "finding",
            f"{one.code}: {one.title}",
            "lightbulb",
            description=f"{format_estimate(one.cost_us)}, {format_place(one.span.path, one.span.line)}",
            tooltip=one.message,
            where=one.span,
        )
        for one in sorted(found, key=rank)
    ]


def _frames(make: _ReportMaker, report: Report) -> list[Node]:
    nodes = []
    for index, frame in enumerate(report.frames):
        compiles = [one for one in report.compiles if one.frame == index]
        start = resumption(frame)
        resumed = f", from line {make.result.places.now(span(start)).line} on" if frame.resumes_at else ""
        nodes.append(
            make.node(
                "frame",
                f"{frame.function}{resumed}",
                "symbol-function",
                description=format_count(len(compiles), "compile"),
                where=make.now(start),
                children=[_compile(make, report, one) for one in compiles[:LISTED]],
            )
        )
    return nodes


def _compile(make: _ReportMaker, report: Report, one: Compile) -> Node:
    guards = [
        make.node(
            "guard",
            f"{guard.kind} {guard.source}".strip(),
            "shield",
            description=guard.code[0] if guard.code else "",
            tooltip="\n".join(guard.code),
            where=make.now(_last(guard.born)),
        )
        for guard in one.guards[:LISTED]
    ]
    symbols = [
        make.node(
            "symbol",
            f"{symbol.name}: {symbol.source}",
            "symbol-numeric",
            description=f"specialized to {symbol.specialized_to}"
            if symbol.specialized_to
            else symbol.range or "",
            where=make.now(_last(symbol.stack)),
        )
        for symbol in one.symbols[:LISTED]
    ]
    count = one.guard_count if one.guard_count is not None else len(one.guards)
    facts = [one.outcome.value]
    children = []
    if one.graph is not None:
        facts.append(format_count(one.graph.operators, "operator"))
        children.append(_graph(make, report, one.graph))
    if one.guard_us is not None:
        facts.append(f"guards checked in {one.guard_us:.1f} µs")
    if one.seconds is not None:
        facts.append(f"{one.seconds:.2f} s")
    children += make.group("compile", "Guards", "shield", guards, total=count)
    children += make.group("compile", "Dynamic sizes", "symbol-numeric", symbols, total=len(one.symbols))
    return make.node(
        "compile", f"compile {one.id}", "package", description=", ".join(facts), children=children
    )


def _graph(make: _ReportMaker, report: Report, graph: Graph) -> Node:
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


def _breaks(make: _ReportMaker, report: Report) -> list[Node]:
    """Make one node for each break that a lens counts, in the words and at the place of its finding.

    A break in a library that several lines lead to is one node over those lines.
    """
    titles = {
        (live.finding.code, live.finding.span.path, live.finding.span.line): live.finding.title
        for live in make.result.own
    }
    nodes = []
    for one, *others in break_groups(report.breaks):
        code = one.ids[0] if one.ids and one.ids[0] else "FL107"
        homes: dict[tuple[str, int], Location] = {}
        for same in (one, *others):
            home = make.context.innermost_user_frame(same.stack, same.above)
            if home is not None:
                homes.setdefault((home.path, home.line), home)
        places = [homes[key] for key in sorted(homes)]
        home = places[0] if places else _last(one.stack)
        title = titles.get((code, home.path, home.line)) if home else None
        what = title or (one.reason.splitlines()[0] if one.reason else "torch gives no reason")
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
                tooltip="\n".join((one.reason, one.explanation, *one.hints)),
                where=make.now(home),
                children=make.listed("place", lines) if len(lines) > 1 else (),
            )
        )
    return nodes


def _recompilation(make: _ReportMaker, raw: Recompile) -> Node:
    one = in_the_users_words(make.context, raw)
    home, _ = birthplace(make.context, one)
    entries = [
        make.node(
            "entry",
            f"compile {entry.compile_id}",
            "symbol-event",
            description="; ".join(failure.difference for failure in entry.failures),
            tooltip="\n".join(failure.code for failure in entry.failures),
            where=make.now(next((failure.born[-1] for failure in entry.failures if failure.born), None)),
        )
        for entry in one.entries[:LISTED]
    ]
    return make.node(
        "recompilation",
        f"{one.function}: {difference_of(one)}",
        "sync",
        description=make.words(home),
        tooltip="\n".join(one.reasons),
        where=make.now(home),
        children=entries,
    )


def _not_compiled(make: _ReportMaker, report: Report) -> list[Node]:
    return [
        make.node(
            "eager",
            one.function,
            "circle-slash",
            description=one.kind.value.replace("_", " "),
            tooltip=one.reason,
            where=make.now(one.location),
        )
        for one in report.not_compiled
    ]


def _failures(make: _ReportMaker, report: Report) -> list[Node]:
    return [
        make.node(
            "failure",
            one.message,
            "error",
            description=f"{one.culprit.value}: {one.kind}",
            tooltip=f"{one.message}\n{one.next_step}",
            where=make.now(_last(one.stack)),
        )
        for one in report.failures
    ]


def _notes(make: _ReportMaker, report: Report) -> list[Node]:
    return [make.node("note", one.text, "info", where=make.now(one.location)) for one in report.notes]

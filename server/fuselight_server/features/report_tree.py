"""The report as a tree for the client's view: `fuselight/reportTree`. The client only shows it.

Invariant: each node with a line jumps to where that line is now. A count is that of the whole report, even where only
the first entries are listed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
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
from fuselight_server.formatting import format_count, format_estimate, format_line_ranges, format_size
from fuselight_server.kernels.documents import ATEN, JOINT, SOURCE, WRAPPER, document, file_name, key_of
from fuselight_server.kernels.shares import ACTIVATION, fold, place_of
from fuselight_server.results.captures import capture_result_of
from fuselight_server.results.positions import resumption, span
from fuselight_server.session.intake import PROGRAM

if TYPE_CHECKING:
    from fuselight.report import Compile, GeneratedGraph, Location, Report
    from fuselight_server.features.protocol import ReportTreeParams
    from fuselight_server.features.server import Server
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
    """Makes the nodes of one target: `root` starts their ids."""

    view: convert.Client
    root: str

    def make(
        self,
        identity: str,
        label: str,
        icon: str,
        *,
        description: str = "",
        tooltip: str = "",
        where: Span | None = None,
        kind: str = "",
        kernel: Node | None = None,
        children: Iterable[Node] = (),
    ) -> Node:
        """Make one node; `where` is the place that it jumps to, `kernel` the text that it opens instead."""
        label, description = _line(label), _line(description)
        return {
            "id": f"{self.root}/{identity}",
            "label": label,
            "description": description,
            "tooltip": (tooltip or label)[:LONGEST_TOOLTIP],
            "accessibilityLabel": ", ".join(filter(None, [label, description])),
            "icon": icon,
            "uri": self.view.uri_of(where.path) if where else None,
            "range": convert.plain_range(where, self.view) if where else None,
            "contextValue": kind or identity.split("/", maxsplit=1)[0],
            "kernel": kernel,
            "children": list(children),
        }

    def listed(self, identity: str, nodes: list[Node], total: int | None = None) -> list[Node]:
        """Return the first nodes, and one that counts the rest of `total`."""
        shown = nodes[:LISTED]
        more = (len(nodes) if total is None else total) - len(shown)
        return (
            [*shown, self.make(f"{identity}/more", f"and {more:,} more", "ellipsis")] if more > 0 else shown
        )

    def group(
        self,
        identity: str,
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
        children = self.listed(identity, nodes, total)
        return [self.make(identity, f"{label} ({count:,})", icon, description=description, children=children)]


def _line(text: str) -> str:
    """Return `text` on one line that is not too long for a tree."""
    line = " ".join(text[: 2 * LONGEST_LABEL].split())
    is_cut = len(text) > 2 * LONGEST_LABEL or len(line) > LONGEST_LABEL
    return f"{line[:LONGEST_LABEL]}\N{HORIZONTAL ELLIPSIS}" if is_cut else line


@dataclass(frozen=True)
class _KernelMaker(NodeMaker):
    """Makes the nodes of one target's kernels."""

    result: KernelResult

    def node(
        self, identity: str, label: str, icon: str, *, at: SourceLine | None = None, **parts: Any
    ) -> Node:
        """Make a node; `at` is the line of the report that it jumps to."""
        now = None if at is None else self.result.now(at)
        where = Span(now.path, now.line) if now is not None else None
        kind = "kernel" if parts.get("kernel") else ""
        return self.make(identity, label, icon, where=where, kind=kind, **parts)

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


def kernel_nodes(result: KernelResult, view: convert.Client, root: str) -> list[Node]:
    """Make the node of a target's kernels."""
    make = _KernelMaker(view, f"{root}/kernels", result.shown)
    report = make.result.report
    changes = [make.node(f"change/{index}", text, "diff") for index, text in enumerate(make.result.changes)]
    children = [
        *make.group("changes", "Changed since the run before", "diff", changes),
        *(_kernel_graph(make, graph, index) for index, graph in enumerate(report.generated)),
        *make.group(
            "saved",
            "Saved for backward, by line",
            "save",
            _saved(make),
            description=format_size(make.result.kept_bytes),
        ),
        *make.group("lost", "Not available", "question", _problems(make, report)),
    ]
    return [
        make.node("all", "Kernels", "circuit-board", description=kernel_summary(result), children=children)
    ]


def _kernel_graph(make: _KernelMaker, graph: GeneratedGraph, index: int) -> Node:
    here = f"graph/{index}"
    us = sum(kernel.estimate_us or 0.0 for kernel in graph.kernels)
    words = format_count(len(graph.kernels), "kernel") + (f", {format_estimate(us)}" if us else "")
    folded = fold(graph, make.result.report.roots)
    kernels = [_kernel(make, graph, one, f"{here}/kernel/{number}") for number, one in enumerate(folded)]
    return make.node(
        here,
        f"{graph.phase.value} graph {graph.compile_id}",
        "type-hierarchy",
        description=graph.failure or words,
        tooltip=graph.failure or "",
        children=[
            *_texts(make, graph, here),
            *make.listed(here, kernels),
            *make.group(f"{here}/operators", "Operators", "symbol-operator", _operators(make, graph, here)),
            *make.group(f"{here}/refusals", "Not fused", "circle-slash", _refusals(make, graph, here)),
            *make.group(f"{here}/skips", "Not replayed as CUDA graphs", "warning", _skips(make, graph, here)),
        ],
    )


def _texts(make: _KernelMaker, graph: GeneratedGraph, here: str) -> list[Node]:
    nodes = []
    texts = [(WRAPPER, "Wrapper that calls the kernels"), (ATEN, "ATen graph")]
    if graph.joint_key is not None:
        texts.append((JOINT, "Joint graph of forward and backward"))
    for form, label in texts:
        made = document(make.result.report, key_of(graph), form)
        if made is not None:
            text = make.text(key_of(graph), form, made.name)
            nodes.append(make.node(f"{here}/{form}", label, "file-code", kernel=text))
    return nodes


def _kernel(make: _KernelMaker, graph: GeneratedGraph, one: Folded, identity: str) -> Node:
    kernel = one.kernel
    times = f" x {one.count}" if one.count > 1 else ""
    facts = [kernel.kind.value.replace("_", " ")]
    facts += [] if one.us is None else [format_estimate(one.us)]
    now = [place for old in one.places if (place := make.result.now(old)) is not None]
    lines = format_line_ranges(now, SourceLine(make.result.key.path, 0))
    facts += [lines] if lines else []
    operators = dict.fromkeys(operator.original or operator.name for operator in kernel.operators)
    return make.node(
        identity,
        f"{kernel.name}{times}",
        "symbol-function",
        description=", ".join(facts),
        tooltip="\n".join([kernel.name, *operators]),
        at=one.places[0] if one.places else None,
        kernel=make.text(key_of(graph, kernel), SOURCE, file_name(kernel)),
    )


def _operators(make: _KernelMaker, graph: GeneratedGraph, here: str) -> list[Node]:
    """Make one node for each operator of the captured graph that is in a kernel, those in most kernels first."""
    found: Counter[str] = Counter()
    places: dict[str, SourceLine | None] = {}
    for kernel in graph.kernels:
        for name, stack in {one.original or one.name: one.stack for one in kernel.operators}.items():
            found[name] += 1
            places.setdefault(name, place_of(stack, make.result.report.roots))
    return [
        make.node(
            f"{here}/operator/{name}",
            name,
            "symbol-operator",
            description=f"in {format_count(count, 'kernel')}",
            at=places[name],
        )
        for name, count in found.most_common()
    ]


def _refusals(make: _KernelMaker, graph: GeneratedGraph, here: str) -> list[Node]:
    roots = make.result.report.roots
    nodes = []
    for index, one in enumerate(graph.refusals):
        places = [place for stack in (one.first, one.second) if (place := place_of(stack, roots)) is not None]
        now = [there for place in places if (there := make.result.now(place)) is not None]
        where = format_line_ranges(now, SourceLine(make.result.key.path, 0))
        times = f", {one.count} times" if one.count > 1 else ""
        nodes.append(
            make.node(
                f"{here}/refusal/{index}",
                one.reason,
                "circle-slash",
                description=f"{where}{times}".removeprefix(", "),
                at=places[0] if places else None,
            )
        )
    return nodes


def _skips(make: _KernelMaker, graph: GeneratedGraph, here: str) -> list[Node]:
    roots = make.result.report.roots
    return [
        make.node(f"{here}/skip/{index}", one.reason, "warning", at=place_of(one.stack, roots))
        for index, one in enumerate(graph.cudagraph_skips)
    ]


def _saved(make: _KernelMaker) -> list[Node]:
    """Make one node for each line, those that keep most first, over its tensors."""
    report = make.result.report
    by_line: dict[SourceLine | None, list[Node]] = {}
    for index, graph in enumerate(report.generated):
        for number, tensor in enumerate(graph.saved):
            if tensor.kind == ACTIVATION:
                place = place_of(tensor.stack, report.roots)
                by_line.setdefault(place, []).append(
                    make.node(
                        f"tensor/{index}/{number}",
                        f"{tensor.dtype}[{', '.join(tensor.shape)}]",
                        "symbol-array",
                        description=f"{format_size(tensor.bytes)}, {tensor.name}",
                        at=place,
                    )
                )
    kept = make.result.saved
    lines = sorted(by_line, key=lambda place: -kept[place].bytes)
    return [
        make.node(
            f"kept/{index}",
            _where(make, place),
            "save",
            description=f"{format_size(kept[place].bytes)} in {format_count(kept[place].tensors, 'tensor')}",
            at=place,
            children=by_line[place],
        )
        for index, place in enumerate(lines)
    ]


def _where(make: _KernelMaker, place: SourceLine | None) -> str:
    now = None if place is None else make.result.now(place)
    return "no line" if now is None else f"{os.path.basename(now.path)}:{now.line}"  # noqa: PTH119 - paths stay text


@dataclass(frozen=True)
class _ReportMaker(NodeMaker):
    """Makes the nodes of one result."""

    result: CaptureResult
    context: Context

    def node(self, identity: str, label: str, icon: str, *, at: Location | None = None, **parts: Any) -> Node:
        """Make a node; `at` is the place in the report that it jumps to."""
        is_file = at is not None and os.path.isabs(at.path)  # noqa: PTH117 - paths stay text
        where = self.result.places.now(span(at)) if at is not None and is_file else None
        return self.make(identity, label, icon, where=where, **parts)

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
    make = _ReportMaker(view, f"{key.path}::{key.name}", result, context)
    name = PROGRAM if key.name == PROGRAM else key.name or "__main__"
    start = next((one.location for one in report.frames if one.location.line >= report.target.line), None)
    changes = [make.node(f"changes/{index}", text, "diff") for index, text in enumerate(result.changes)]
    children = [
        *_inputs(make, report),
        *make.group("findings", "Findings, costliest first", "checklist", _findings(make, kernels)),
        *make.group("changes", "Changed since the run before", "diff", changes),
        *(kernel_nodes(kernels, view, make.root) if kernels is not None else ()),
        *make.group("frames", "Frames", "symbol-function", _frames(make, report)),
        *make.group("breaks", "Graph breaks", "debug-disconnect", _breaks(make, report)),
        *make.group("recompilations", "Recompilations", "sync", _recompilations(make, report, stopped=False)),
        *make.group(
            "stopped",
            "Stopped by the recompile limit",
            "stop-circle",
            _recompilations(make, report, stopped=True),
        ),
        *make.group("eager", "Not compiled", "circle-slash", _not_compiled(make, report)),
        *make.group("failures", "Failures", "error", _failures(make, report)),
        *make.group("notes", "Notes", "info", _notes(make, report)),
        *make.group("problems", "Not available", "question", _problems(make, report)),
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
            make.make(
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
    children = graph + make.group(f"{place}/guards", "Guards", "shield", guards, total=count)
    children += make.group(
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
        children=make.listed(f"{place}/operator", operators, graph.operators),
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


def _problems(make: NodeMaker, report: Report) -> list[Node]:
    return [
        make.make(f"problem/{index}", one.what, "question", description=one.why)
        for index, one in enumerate(report.problems)
    ]

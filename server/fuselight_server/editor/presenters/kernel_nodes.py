"""The kernels of a target as nodes of the report's tree: graphs, kernels, operators and saved tensors.

Invariant: each place is where the line is now, and each text that a node opens is one of the report's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fuselight.shared.report import GeneratedGraph
from fuselight_server.base.finding import SourceLine, Span
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_line_ranges,
    format_place,
    format_size,
)
from fuselight_server.editor.messages.answers import NodeKernel, ReportNode
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.tree_nodes import NodeMaker
from fuselight_server.editor.results.kernels import KernelResult
from fuselight_server.editor.results.lens_facts import kernel_summary
from fuselight_server.explain.kernels.documents import (
    ATEN,
    JOINT,
    SOURCE,
    WRAPPER,
    document,
    file_name,
    key_of,
)
from fuselight_server.explain.kernels.shares import ACTIVATION, Folded, fold, place_of


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

    def text(self, kernel: str, form: str, name: str) -> NodeKernel:
        """What the client opens."""
        uri = self.view.uri_of(self.result.key.path)
        return {"uri": uri, "target": self.result.key.name, "kernel": kernel, "form": form, "name": name}


def kernel_node(result: KernelResult, view: convert.Client) -> ReportNode:
    """Make the node of a target's kernels."""
    make = _KernelMaker(view, result.shown)
    report, kept = make.result.report, format_size(make.result.kept_bytes)
    children = [
        *make.changes("change", make.result.changes_now),
        *(_kernel_graph(make, graph) for graph in report.generated),
        *make.group("saved", "Saved for backward, by line", "save", _saved(make), description=kept),
        *make.group("lost", "Not available", "question", make.problems(report)),
    ]
    return make.node("all", "Kernels", "circuit-board", description=kernel_summary(result), children=children)


def _kernel_graph(make: _KernelMaker, graph: GeneratedGraph) -> ReportNode:
    us = sum(kernel.estimate_us or 0.0 for kernel in graph.kernels)
    words = format_count(len(graph.kernels), "kernel") + (f", {format_estimate(us)}" if us else "")
    kernels = [_kernel(make, graph, folded_kernel) for folded_kernel in fold(graph, make.result.report.roots)]
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


def _texts(make: _KernelMaker, graph: GeneratedGraph) -> list[ReportNode]:
    nodes = []
    texts = [(WRAPPER, "Wrapper that calls the kernels"), (ATEN, "ATen graph")]
    if graph.joint_key is not None:
        texts.append((JOINT, "Joint graph of forward and backward"))
    for form, label in texts:
        kernel_document = document(make.result.report, key_of(graph), form)
        if kernel_document is not None:
            text = make.text(key_of(graph), form, kernel_document.name)
            nodes.append(make.node("kernel", label, "file-code", kernel=text))
    return nodes


def _kernel(make: _KernelMaker, graph: GeneratedGraph, folded_kernel: Folded) -> ReportNode:
    kernel = folded_kernel.kernel
    times = f" x {folded_kernel.count}" if folded_kernel.count > 1 else ""
    us = "" if folded_kernel.us is None else format_estimate(folded_kernel.us)
    facts = [kernel.kind.value.replace("_", " "), us, make.words(folded_kernel.places)]
    operators = dict.fromkeys(operator.original or operator.name for operator in kernel.operators)
    return make.node(
        "kernel",
        f"{kernel.name}{times}",
        "symbol-function",
        description=", ".join(filter(None, facts)),
        tooltip="\n".join([kernel.name, *operators]),
        where=make.now(next(iter(folded_kernel.places), None)),
        kernel=make.text(key_of(graph, kernel), SOURCE, file_name(kernel)),
    )


def _operators(make: _KernelMaker, graph: GeneratedGraph) -> list[ReportNode]:
    """Make one node for each operator of the captured graph that is in a kernel, those in most kernels first."""
    counts: Counter[str] = Counter()
    places: dict[str, SourceLine | None] = {}
    for kernel in graph.kernels:
        for name, stack in {
            operator.original or operator.name: operator.stack for operator in kernel.operators
        }.items():
            counts[name] += 1
            places.setdefault(name, place_of(stack, make.result.report.roots))
    return [
        make.node(
            "graph",
            name,
            "symbol-operator",
            description=f"in {format_count(count, 'kernel')}",
            where=make.now(places[name]),
        )
        for name, count in counts.most_common()
    ]


def _refusals(make: _KernelMaker, graph: GeneratedGraph) -> list[ReportNode]:
    roots = make.result.report.roots
    nodes = []
    for refusal in graph.refusals:
        places = [
            place
            for stack in (refusal.first, refusal.second)
            if (place := place_of(stack, roots)) is not None
        ]
        facts = [make.words(places), f"{refusal.count} times" if refusal.count > 1 else ""]
        where = make.now(next(iter(places), None))
        words = ", ".join(filter(None, facts))
        nodes.append(make.node("graph", refusal.reason, "circle-slash", description=words, where=where))
    return nodes


def _skips(make: _KernelMaker, graph: GeneratedGraph) -> list[ReportNode]:
    roots = make.result.report.roots
    return [
        make.node("graph", skip.reason, "warning", where=make.now(place_of(skip.stack, roots)))
        for skip in graph.cudagraph_skips
    ]


def _saved(make: _KernelMaker) -> list[ReportNode]:
    """Make one node for each line, those that keep most first, over its tensors."""
    report, kept = make.result.report, make.result.saved
    by_line: dict[SourceLine | None, list[ReportNode]] = {}
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

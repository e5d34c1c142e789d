"""The kernels of a target in the report's tree: graphs, kernels, operators, what is saved, and what was not fused.

Invariant: equal launches are one node with a count. A count is that of the whole report, even where only the first
entries are listed. A kernel's node opens its source, every other node with a line jumps to where that is now.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fuselight.report import Tier
from fuselight_server.features.kernels.lens import total
from fuselight_server.features.report.nodes import NodeMaker
from fuselight_server.finding import Span
from fuselight_server.formatting import format_count, format_estimate, format_line_ranges, format_size
from fuselight_server.kernels import SourceLine, fold, place_of
from fuselight_server.kernels.documents import ATEN, JOINT, SOURCE, WRAPPER, document, file_name, key_of
from fuselight_server.kernels.shares import ACTIVATION
from fuselight_server.results.captures import capture_result_of

if TYPE_CHECKING:
    from fuselight.report import GeneratedGraph
    from fuselight_server.features import convert
    from fuselight_server.features.report.nodes import Node
    from fuselight_server.kernels import Folded
    from fuselight_server.results.captures import CaptureResult
    from fuselight_server.results.kernels import KernelResult
    from fuselight_server.session.state import State


@dataclass(frozen=True)
class _KernelMaker:
    """Makes the nodes of one target's kernels."""

    result: KernelResult
    nodes: NodeMaker

    def node(
        self, identity: str, label: str, icon: str, *, at: SourceLine | None = None, **parts: Any
    ) -> Node:
        """Make a node; `at` is the line of the report that it jumps to."""
        now = None if at is None else self.result.now(at)
        where = Span(now.path, now.line) if now is not None else None
        kind = "kernel" if parts.get("kernel") else ""
        return self.nodes.make(identity, label, icon, where=where, kind=kind, **parts)

    def text(self, kernel: str, form: str, name: str) -> Node:
        """What the client opens."""
        uri = self.nodes.view.uri_of(self.result.key.path)
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
    make = _KernelMaker(result.shown, NodeMaker(view, f"{root}/kernels"))
    report = make.result.report
    changes = [make.node(f"change/{index}", text, "diff") for index, text in enumerate(make.result.changes)]
    children = [
        *make.nodes.group("changes", "Changed since the run before", "diff", changes),
        *(_graph(make, graph, index) for index, graph in enumerate(report.generated)),
        *make.nodes.group(
            "saved",
            "Saved for backward, by line",
            "save",
            _saved(make),
            description=format_size(make.result.kept_bytes),
        ),
        *make.nodes.group(
            "lost",
            "Not available",
            "question",
            [
                make.node(f"problem/{index}", one.what, "question", description=one.why)
                for index, one in enumerate(report.problems)
            ],
        ),
    ]
    return [make.node("all", "Kernels", "circuit-board", description=total(result), children=children)]


def _graph(make: _KernelMaker, graph: GeneratedGraph, index: int) -> Node:
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
            *make.nodes.listed(here, kernels),
            *make.nodes.group(
                f"{here}/operators", "Operators", "symbol-operator", _operators(make, graph, here)
            ),
            *make.nodes.group(f"{here}/refusals", "Not fused", "circle-slash", _refusals(make, graph, here)),
            *make.nodes.group(
                f"{here}/skips", "Not replayed as CUDA graphs", "warning", _skips(make, graph, here)
            ),
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

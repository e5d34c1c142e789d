"""The kernels of a target in the report's tree: graphs, kernels, operators, what is saved, and what was not fused.

Invariant: equal launches are one node with a count, and every count is that of the whole report, also where only the
first entries are listed. A kernel's node opens its source, every other node with a line jumps to where that is now.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fuselight.report import Tier
from fuselight_server import convert
from fuselight_server.features.kernel_lens import total
from fuselight_server.finding import Span
from fuselight_server.findings.text import counted
from fuselight_server.kernels import Place, fold, place_of
from fuselight_server.kernels.documents import ATEN, JOINT, SOURCE, WRAPPER, document, file_name, key_of
from fuselight_server.kernels.saved import ACTIVATION
from fuselight_server.kernels.words import line_ranges, microseconds, size
from fuselight_server.places import result_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.report import GeneratedGraph
    from fuselight_server.kernel_results import KernelResult
    from fuselight_server.kernels import Folded
    from fuselight_server.places import Result
    from fuselight_server.state import State

LISTED = 200
"""Entries of one kind that a node lists."""

Node = dict[str, Any]


@dataclass(frozen=True)
class _Maker:
    result: KernelResult
    view: convert.Client
    root: str

    def node(
        self,
        identity: str,
        label: str,
        icon: str,
        *,
        description: str = "",
        tooltip: str = "",
        at: Place | None = None,
        kernel: Node | None = None,
        children: Iterable[Node] = (),
    ) -> Node:
        now = None if at is None else self.result.now(at)
        where = Span(now.path, now.line) if now is not None else None
        return {
            "id": f"{self.root}/{identity}",
            "label": label,
            "description": description,
            "tooltip": tooltip or label,
            "icon": icon,
            "uri": self.view.uri_of(where.path) if where else None,
            "range": convert.plain_range(where, self.view) if where else None,
            "contextValue": "kernel" if kernel else identity.split("/", maxsplit=1)[0],
            "kernel": kernel,
            "children": list(children),
        }

    def group(
        self, identity: str, label: str, icon: str, nodes: list[Node], *, description: str = ""
    ) -> list[Node]:
        if not nodes:
            return []
        children = nodes[:LISTED]
        if len(nodes) > LISTED:
            children.append(self.node(f"{identity}/more", f"and {len(nodes) - LISTED} more", "ellipsis"))
        name = f"{label} ({len(nodes)})"
        return [self.node(identity, name, icon, description=description, children=children)]

    def text(self, kernel: str, form: str, name: str) -> Node:
        """What the client opens."""
        uri = self.view.uri_of(self.result.key.path)
        return {"uri": uri, "target": self.result.key.name, "kernel": kernel, "form": form, "name": name}


def shown_results(state: State, path: str | None) -> list[tuple[Result, KernelResult | None]]:
    """Return what is known of the targets that have to do with a file (None: of all), by target.

    One of which only kernels were asked for has no other report than theirs, which tells the rest as well.
    """
    kernels = {replace(key, tier=Tier.CAPTURE): one for key, one in state.kernels.items()}
    results = dict(state.results)
    for key, one in kernels.items():
        if key not in results:
            made = result_of(key, one.generation, one.report, ())
            results[key] = replace(made, places=one.places, stale=one.stale)
    return [
        (result, kernels.get(key))
        for key, result in sorted(results.items(), key=lambda item: (item[0].path, item[0].name))
        if path is None or key.path == path or path in result.depends
    ]


def kernel_nodes(result: KernelResult, view: convert.Client, root: str) -> list[Node]:
    """Make the node over all that is known of a target's kernels."""
    make = _Maker(result.shown, view, f"{root}/kernels")
    report = make.result.report
    changes = [make.node(f"change/{index}", text, "diff") for index, text in enumerate(make.result.changes)]
    children = [
        *make.group("changes", "Changed since the run before", "diff", changes),
        *(_graph(make, graph, index) for index, graph in enumerate(report.generated)),
        *make.group(
            "saved",
            "Saved for backward, by line",
            "save",
            _saved(make),
            description=size(make.result.kept_bytes),
        ),
        *make.group(
            "lost",
            "Not learnt",
            "question",
            [
                make.node(f"problem/{index}", one.what, "question", description=one.why)
                for index, one in enumerate(report.problems)
            ],
        ),
    ]
    return [make.node("all", "Kernels", "circuit-board", description=total(result), children=children)]


def _graph(make: _Maker, graph: GeneratedGraph, index: int) -> Node:
    here = f"graph/{index}"
    us = sum(kernel.estimate_us or 0.0 for kernel in graph.kernels)
    words = counted(len(graph.kernels), "kernel") + (f", {microseconds(us)}" if us else "")
    folded = fold(graph, make.result.report.roots)
    kernels = [_kernel(make, graph, one, f"{here}/kernel/{number}") for number, one in enumerate(folded)]
    if len(kernels) > LISTED:
        kernels = [
            *kernels[:LISTED],
            make.node(f"{here}/more", f"and {len(kernels) - LISTED} more", "ellipsis"),
        ]
    return make.node(
        here,
        f"{graph.phase.value} graph {graph.compile_id}",
        "type-hierarchy",
        description=graph.failure or words,
        tooltip=graph.failure or "",
        children=[
            *_texts(make, graph, here),
            *kernels,
            *make.group(f"{here}/operators", "Operators", "symbol-operator", _operators(make, graph, here)),
            *make.group(f"{here}/refusals", "Not fused", "circle-slash", _refusals(make, graph, here)),
            *make.group(f"{here}/skips", "Not replayed as CUDA graphs", "warning", _skips(make, graph, here)),
        ],
    )


def _texts(make: _Maker, graph: GeneratedGraph, here: str) -> list[Node]:
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


def _kernel(make: _Maker, graph: GeneratedGraph, one: Folded, identity: str) -> Node:
    kernel = one.kernel
    times = f" x {one.count}" if one.count > 1 else ""
    facts = [kernel.kind.value.replace("_", " ")]
    facts += [] if one.us is None else [microseconds(one.us)]
    now = [place for old in one.places if (place := make.result.now(old)) is not None]
    lines = line_ranges(now, Place(make.result.key.path, 0))
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


def _operators(make: _Maker, graph: GeneratedGraph, here: str) -> list[Node]:
    """Make one node for each operator of the captured graph that is in a kernel, those in most kernels first."""
    found: Counter[str] = Counter()
    places: dict[str, Place | None] = {}
    for kernel in graph.kernels:
        for name, stack in {one.original or one.name: one.stack for one in kernel.operators}.items():
            found[name] += 1
            places.setdefault(name, place_of(stack, make.result.report.roots))
    return [
        make.node(
            f"{here}/operator/{name}",
            name,
            "symbol-operator",
            description=f"in {counted(count, 'kernel')}",
            at=places[name],
        )
        for name, count in found.most_common()
    ]


def _refusals(make: _Maker, graph: GeneratedGraph, here: str) -> list[Node]:
    roots = make.result.report.roots
    nodes = []
    for index, one in enumerate(graph.refusals):
        places = [place for stack in (one.first, one.second) if (place := place_of(stack, roots)) is not None]
        now = [there for place in places if (there := make.result.now(place)) is not None]
        where = line_ranges(now, Place(make.result.key.path, 0))
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


def _skips(make: _Maker, graph: GeneratedGraph, here: str) -> list[Node]:
    roots = make.result.report.roots
    return [
        make.node(f"{here}/skip/{index}", one.reason, "warning", at=place_of(one.stack, roots))
        for index, one in enumerate(graph.cudagraph_skips)
    ]


def _saved(make: _Maker) -> list[Node]:
    """Make one node for each line, those that keep most first, over its tensors."""
    report = make.result.report
    by_line: dict[Place | None, list[Node]] = {}
    for index, graph in enumerate(report.generated):
        for number, tensor in enumerate(graph.saved):
            if tensor.kind == ACTIVATION:
                place = place_of(tensor.stack, report.roots)
                by_line.setdefault(place, []).append(
                    make.node(
                        f"tensor/{index}/{number}",
                        f"{tensor.dtype}[{', '.join(tensor.shape)}]",
                        "symbol-array",
                        description=f"{size(tensor.bytes)}, {tensor.name}",
                        at=place,
                    )
                )
    kept = make.result.kept
    lines = sorted(by_line, key=lambda place: -kept[place].bytes)
    return [
        make.node(
            f"kept/{index}",
            _where(make, place),
            "save",
            description=f"{size(kept[place].bytes)} in {counted(kept[place].tensors, 'tensor')}",
            at=place,
            children=by_line[place],
        )
        for index, place in enumerate(lines)
    ]


def _where(make: _Maker, place: Place | None) -> str:
    now = None if place is None else make.result.now(place)
    return "no line" if now is None else f"{os.path.basename(now.path)}:{now.line}"  # noqa: PTH119 - paths stay text

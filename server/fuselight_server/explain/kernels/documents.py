"""A kernel, or the wrapper that launches a graph's kernels, as a text to read, and which lines of the user's it is of.

Invariant: a link is as fine as what is known: Inductor says which operators went into a kernel, and of no line of its
source which of them it is. So all of a kernel's source belongs to all of its lines; of a wrapper each launch to those
of its kernel. Of what a kernel is compiled to, each line belongs to the line of the source that it was made of.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fuselight.shared.report import Assembled, GeneratedGraph, Kernel, KernelKind, Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import (
    format_estimate,
    format_first,
    format_line_ranges,
    format_size,
    format_target,
)
from fuselight_server.explain.kernels.script import checks, standalone
from fuselight_server.explain.kernels.shares import places_of

SOURCE, WRAPPER, JOINT, ATEN, SCRIPT = "source", "wrapper", "joint", "aten", "script"
SASS = "sass"
STAGES = {"ttir": "//", "ttgir": "//", "llir": ";", "ptx": "//", SASS: "//", "amdgcn": ";"}
"""What a Triton kernel is compiled to on the way to the device, each with the mark of its comments."""
OF_BACKEND = {"cuda": ("ttir", "ttgir", "llir", "ptx", SASS), "hip": ("ttir", "ttgir", "llir", "amdgcn")}
_COMMENTS = {".py": "#", ".txt": "#", ".cpp": "//", **{f".{stage}": mark for stage, mark in STAGES.items()}}
OF_TRITON = frozenset({KernelKind.TRITON, KernelKind.TEMPLATE, KernelKind.USER_TRITON})
"""Kinds of kernels whose source Triton compiles."""
_OPERATORS = 8
"""Operators that a header names."""


@dataclass(frozen=True)
class Link:
    """Lines `first` to `last` of the text (1-based) are of these lines of the user's."""

    places: tuple[SourceLine, ...]
    first: int
    last: int


@dataclass(frozen=True)
class SourceLink:
    """Lines `first` to `last` of the text come from this line of the kernel's source as it is shown, all 1-based."""

    line: int
    first: int
    last: int


@dataclass(frozen=True)
class KernelDocument:
    """One text."""

    name: str
    """As a file: `triton_poi_fused_gelu_0.py`; the ending gives the language."""
    text: str
    links: tuple[Link, ...]
    forms: tuple[tuple[str, str], ...]
    """What there is to show of the same, each with its name as a file: `source`, `wrapper`, `script`, `aten`."""
    source_links: tuple[SourceLink, ...] = ()
    """Of what a kernel is compiled to."""


def key_of(graph: GeneratedGraph, kernel: Kernel | None = None) -> str:
    """Name a kernel of a report, or a graph: `0/0:forward:3:triton_poi_fused_gelu_1`."""
    head = f"{graph.compile_id}:{graph.phase.value}"
    return head if kernel is None else f"{head}:{kernel.launch}:{kernel.name}"


def find(report: Report, key: str) -> tuple[GeneratedGraph, Kernel | None] | None:
    """Return what `key` names; of a later report the kernel of that name in the same phase, wherever it is launched."""
    for graph in report.generated:
        if key == key_of(graph):
            return graph, None
        for kernel in graph.kernels:
            if key == key_of(graph, kernel):
                return graph, kernel
    _, _, rest = key.partition(":")
    phase, _, rest = rest.partition(":")
    name = rest.partition(":")[2]
    graphs = [graph for graph in report.generated if graph.phase.value == phase]
    if not name:
        return (graphs[0], None) if graphs else None
    return next(
        ((graph, kernel) for graph in graphs for kernel in graph.kernels if kernel.name == name), None
    )


def document(report: Report, key: str, form: str = SOURCE) -> KernelDocument | None:
    """Make the text that `key` names in one of its forms; None where the report has it no more."""
    graph_and_kernel = find(report, key)
    if graph_and_kernel is None:
        return None
    graph, kernel = graph_and_kernel
    if kernel is None and form == SOURCE:
        form = ATEN
    if kernel is None or form in {WRAPPER, SCRIPT, JOINT, ATEN}:
        return _of_graph(report, graph, kernel, form)
    source = report.texts.get(kernel.text_key or "")
    library_note = f"Its code is a library's, and not generated. It is called as: {kernel.call}"
    notes = [library_note] if source is None else []
    return _of_kernel(report, graph, kernel, name=file_name(kernel), notes=notes, body=source)[0]


def compiles(kernel: Kernel, report: Report) -> bool:
    """Whether there are texts of the kernel between its source and the device."""
    device = report.target_device
    has_source = kernel.kind in OF_TRITON and kernel.text_key in report.texts
    return has_source and device is not None and device.backend in OF_BACKEND


def compiled(
    report: Report, graph: GeneratedGraph, kernel: Kernel, stage: str, assembled: Assembled | None
) -> KernelDocument:
    """Make one of the texts that a Triton kernel is compiled to; `assembled` is None while that is not done."""
    listing = assembled.listings.get(stage) if assembled is not None else None
    if assembled is None:
        notes = [f"It is being compiled: its {stage.upper()} is shown here when that is done."]
    else:
        notes = list(_resources(assembled))
        if listing is None:
            why = assembled.failure or "; ".join(assembled.problems) or "it was not reached"
            notes.append(f"There is no {stage.upper()}: {why}")
    body = listing.text if listing is not None else None
    kernel_document, above = _of_kernel(
        report, graph, kernel, name=f"{kernel.name}.{stage}", notes=notes, body=body
    )
    origins = () if listing is None else listing.lines[: kernel_document.text.count("\n") - above]
    header = _header(report, graph, kernel, places_of(kernel, report.roots))
    _, shift = under_header(
        file_name(kernel), list(header), ""
    )  # what stands above the source, where that is shown
    return replace(kernel_document, source_links=tuple(_source_links(origins, after=above, shift=shift)))


def _source_links(origins: tuple[int, ...], *, after: int, shift: int) -> Iterator[SourceLink]:
    """Make one link for each stretch of lines after line `after` that come from the same line of the source."""
    numbered = enumerate(origins, after + 1)
    for origin, stretch in itertools.groupby(numbered, key=lambda item: item[1]):
        lines = [number for number, _ in stretch]
        if origin:
            yield SourceLink(origin + shift, lines[0], lines[-1])


def _resources(assembled: Assembled) -> Iterator[str]:
    parts = [
        text
        for value, text in (
            (assembled.registers, f"{assembled.registers} registers"),
            (assembled.spills, f"{assembled.spills} bytes spilled"),
            (assembled.shared, f"{assembled.shared} bytes of shared memory"),
            (assembled.num_warps, f"{assembled.num_warps} warps"),
        )
        if value is not None
    ]
    occupancy = assembled.occupancy
    if occupancy is not None:
        parts.append(
            f"{occupancy.warps} of {occupancy.most} warps resident, limited by {occupancy.limited_by}"
        )
    if parts:
        yield f"Compiled: {', '.join(parts)}."
    if len(assembled.configs) > 1:
        yield f"Inductor would time {len(assembled.configs)} configurations on the GPU; this is one of them."


def file_name(kernel: Kernel) -> str:
    """Name the source of a kernel as a file."""
    return f"{kernel.name.replace('/', '_')}{'.cpp' if kernel.kind is KernelKind.CPP else '.py'}"


def under_header(name: str, head: list[str], body: str | None) -> tuple[str, int]:
    """Put a text under a header of comments; return it with the number of lines that stand above it."""
    mark = _COMMENTS[os.path.splitext(name)[1]]  # noqa: PTH122 - a name, not a path
    lines = [f"{mark} {line}" for text in head for line in text.splitlines()]
    if body is None:
        return "\n".join([*lines, ""]), len(lines)
    return "\n".join([*lines, "", body.rstrip("\n"), ""]), len(lines) + 1


def _of_kernel(
    report: Report, graph: GeneratedGraph, kernel: Kernel, *, name: str, notes: list[str], body: str | None
) -> tuple[KernelDocument, int]:
    """A text of one kernel, all of it of the kernel's lines, and the lines that stand above its body."""
    places = places_of(kernel, report.roots)
    text, above = under_header(name, [*_header(report, graph, kernel, places), *notes], body)
    links = (Link(places, 1, text.count("\n")),) if places else ()
    return KernelDocument(name, text, links, _forms(report, graph, kernel)), above


def _of_graph(
    report: Report, graph: GeneratedGraph, kernel: Kernel | None, form: str
) -> KernelDocument | None:
    """Make a text of a whole graph; None where the report has it no more."""
    body = report.texts.get(_keys(report, graph).get(form, graph.text_key) or "")
    if body is None:
        return None
    name = _graph_file(graph, form)
    head = {
        WRAPPER: f"What calls the {len(graph.kernels)} kernels of the {_graph(graph)}.",
        ATEN: f"The {_graph(graph)} as it went to Inductor.",
        JOINT: f"Forward and backward of graph {graph.compile_id} together, before AOTAutograd cut them in two.",
    }.get(form)
    if head is None:
        aten = report.texts.get(graph.aten_key or "")
        does = "checks the kernels against the captured graph, and times them"
        if not checks(body, aten):
            does = "times the kernels; there is nothing to check them with here"
        head = (
            f"Runs by itself on a machine with the device and torch {report.versions.torch}: `python {name}`\n"
            f"makes random inputs, {does}. Of the {_graph(graph)}."
        )
        body = standalone(body, aten, name)
    text, above = under_header(name, [head, *_origin(report)], body)
    links = tuple(
        Link(places, kernel.wrapper_line + above, kernel.wrapper_line + above)
        for kernel in (graph.kernels if form == WRAPPER else ())
        if kernel.wrapper_line is not None and (places := places_of(kernel, report.roots))
    )
    return KernelDocument(name, text, links, _forms(report, graph, kernel))


def _keys(report: Report, graph: GeneratedGraph) -> dict[str, str | None]:
    """Return each text's key; a backward graph's joint one is with the forward graph that it was cut from."""
    same = (
        generated_graph
        for generated_graph in report.generated
        if (generated_graph.compile_id, generated_graph.graph) == (graph.compile_id, graph.graph)
    )
    joint = next(
        (generated_graph.joint_key for generated_graph in same if generated_graph.joint_key is not None), None
    )
    return {WRAPPER: graph.text_key, SCRIPT: graph.text_key, JOINT: joint, ATEN: graph.aten_key}


def _forms(report: Report, graph: GeneratedGraph, kernel: Kernel | None) -> tuple[tuple[str, str], ...]:
    forms = [] if kernel is None else [(SOURCE, file_name(kernel))]
    if kernel is not None and report.target_device is not None and compiles(kernel, report):
        forms += [(stage, f"{kernel.name}.{stage}") for stage in OF_BACKEND[report.target_device.backend]]
    keys = _keys(report, graph)
    return (*forms, *((form, _graph_file(graph, form)) for form, key in keys.items() if key in report.texts))


def _graph_file(graph: GeneratedGraph, form: str) -> str:
    return f"{graph.phase.value}_{graph.compile_id.replace('/', '_')}_{form}.py"


def _header(
    report: Report, graph: GeneratedGraph, kernel: Kernel, places: tuple[SourceLine, ...]
) -> Iterator[str]:
    yield f"{kernel.name}: launch {kernel.launch + 1} of {len(graph.kernels)} of the {_graph(graph)}."
    if places:
        reference = SourceLine(report.target.path, 0)
        own = any(place.path == reference.path for place in places)
        where = f"{os.path.basename(reference.path)}, " if own else ""  # noqa: PTH119 - paths stay text
        yield f"From {where}{format_line_ranges(places, reference)}."
    yield from _origin(report)
    yield from _cost(kernel)
    names = list(dict.fromkeys(operator.original or operator.name for operator in kernel.operators))
    if names:
        yield f"Operators: {format_first(names, _OPERATORS)}."
    if kernel.candidates:
        yield f"On a GPU the fastest is taken of: {', '.join(kernel.candidates)}."


def _cost(kernel: Kernel) -> Iterator[str]:
    parts = []
    if kernel.estimate_us is not None:
        bound = f" (bound by {kernel.bound})" if kernel.bound else ""
        parts.append(f"likely {format_estimate(kernel.estimate_us)}{bound}")
    if kernel.bytes_read is not None:
        parts.append(f"reads {format_size(kernel.bytes_read)}")
    if kernel.bytes_written is not None:
        parts.append(f"writes {format_size(kernel.bytes_written)}")
    if parts:
        yield f"Estimate: {', '.join(parts)}."


def _origin(report: Report) -> Iterator[str]:
    device = report.target_device
    name = f"{device.key} ({device.name})" if device and device.name != device.key else report.device
    yield f"Generated by Fuselight from {format_target(report.target.name)} for {name}, and not launched."
    triton = f", Triton {report.versions.triton}" if report.versions.triton else ""
    yield f"torch {report.versions.torch}{triton}."


def _graph(graph: GeneratedGraph) -> str:
    return f"{graph.phase.value} graph {graph.compile_id}"

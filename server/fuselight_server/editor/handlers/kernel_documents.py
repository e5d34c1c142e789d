"""Kernels for the client: those of a line, the source of one with its lines, and heat marks.

Invariant: a kernel that is no longer available is answered with a text that says what to do, never with an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuselight.shared.report import GeneratedGraph, Kernel, Rung, Tier
from fuselight_server.base.formatting import format_estimate, format_target
from fuselight_server.editor.handlers.own_kernel_documents import own_entries, own_text, removed_text
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.answers import (
    KernelEntries,
    KernelEntry,
    KernelLines,
    KernelLink,
    KernelText,
)
from fuselight_server.editor.messages.params import KernelDocumentParams, KernelLinesParams, KernelsAtParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.kernels import KernelResult
from fuselight_server.editor.results.lens_facts import shown_benchmarks, shows_estimates
from fuselight_server.editor.results.line_heat import line_levels
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.kernels.documents import (
    ATEN,
    SASS,
    SOURCE,
    STAGES,
    WRAPPER,
    KernelDocument,
    compiled,
    compiles,
    document,
    file_name,
    find,
    key_of,
)
from fuselight_server.explain.kernels.own_kernels import OWN

LISTED = 500
"""Kernels that are offered at once."""


def kernels_at(server: Server, params: KernelsAtParams) -> KernelEntries:
    """Answer `fuselight/kernelsAt`: the kernels of some lines of a file (without lines: all), to choose from."""
    path = convert.path(params.uri)
    entries: list[KernelEntry] = []
    entries += own_entries(server, path or "", params)
    if entries and params.line is not None:
        return {"kernels": entries[:LISTED]}  # the lines of a kernel of the user's are not those of a model
    for result in _results(server, path, params.target):
        if params.line is None:
            launches = [(graph, kernel) for graph in result.report.generated for kernel in graph.kernels]
        else:
            last = params.line if params.last is None else params.last
            launches = [
                launch
                for row in result.rows(path or "")
                if params.line <= row.place.line - 1 <= last
                for launch in result.launches_on(row)
            ]
        entries += _entries(server, result, launches)
    return {"kernels": entries[:LISTED]}


def _results(server: Server, path: str | None, target: str | None) -> list[KernelResult]:
    kernel_results = [result.shown for result in server.state.kernels.values() if path in result.paths()]
    named = [
        kernel_result
        for kernel_result in kernel_results
        if kernel_result.key.path == path and kernel_result.key.name == target
    ]
    of_jobs = [job.kernels for job in server.state.jobs.of_file(path) if job.kernels is not None]
    of_runs = sorted(kernel_results, key=lambda kernel_result: -kernel_result.generation)
    return named or [*of_runs, *(result for result in of_jobs if target in {None, result.key.name})]


def _entries(
    server: Server, result: KernelResult, launches: list[tuple[GeneratedGraph, Kernel]]
) -> Iterator[KernelEntry]:
    """Make one entry for each kernel, then for the wrappers of the graphs."""
    uri, target = server.uri_of(result.key.path), result.key.name
    for graph, kernel, count in counted_launches(launches):
        facts = [f"{graph.phase.value} {graph.compile_id}", kernel.kind.value.replace("_", " ")]
        facts += [] if kernel.estimate_us is None else [format_estimate(kernel.estimate_us)]
        facts += [f"{count} launches"] if count > 1 else []
        facts += (
            [format_target(result.key.name)]
            if result.report.inputs and result.report.inputs.rung is Rung.TRACE
            else []
        )
        yield {
            "uri": uri,
            "target": target,
            "kernel": key_of(graph, kernel),
            "form": SOURCE,
            "name": file_name(kernel),
            "label": kernel.name,
            "description": ", ".join(facts),
        }
    for graph in {id(graph): graph for graph, _ in launches}.values():
        for form, words in ((WRAPPER, "calls the kernels"), (ATEN, "ATen graph")):
            kernel_document = document(result.report, key_of(graph), form)
            if kernel_document is not None:
                yield {
                    "uri": uri,
                    "target": target,
                    "kernel": key_of(graph),
                    "form": form,
                    "name": kernel_document.name,
                    "label": kernel_document.name.removesuffix(".py"),
                    "description": f"{graph.phase.value} {graph.compile_id}, {words}",
                }


def counted_launches(
    launches: list[tuple[GeneratedGraph, Kernel]],
) -> list[tuple[GeneratedGraph, Kernel, int]]:
    """Fold launches of the same source and time, and count them."""
    folded: dict[tuple[object, ...], tuple[GeneratedGraph, Kernel, int]] = {}
    for graph, kernel in launches:
        # Library kernels of one name differ in their sizes: an entry has one time, which is that of all its launches.
        us = None if kernel.estimate_us is None else format_estimate(kernel.estimate_us)
        same = (graph.compile_id, graph.phase, kernel.text_key or kernel.name, us)
        first = folded.get(same, (graph, kernel, 0))
        folded[same] = (*first[:2], first[2] + 1)
    return list(folded.values())


def kernel_document(server: Server, params: KernelDocumentParams) -> KernelText:
    """Answer `fuselight/kernelDocument`: the text, and which lines of it come from which lines of the user's."""
    path = convert.path(params.uri) or ""
    if params.kernel.startswith(f"{OWN}:"):
        return own_text(server, path, params) or removed_text(params)
    kept = server.state.kernels.get(Key(path, params.target, Tier.KERNELS))
    result = kept.shown if kept is not None else server.state.jobs.kernels_of(params.target)
    document = _document(server, result, params) if result is not None else None
    if result is None or document is None:
        return removed_text(params)
    links: list[KernelLink] = []
    for link in document.links:
        now = [place for line in link.places if (place := result.now(line)) is not None]
        for file in dict.fromkeys(place.path for place in now):
            lines = [place.line - 1 for place in now if place.path == file]
            links.append(
                {
                    "uri": server.uri_of(file),
                    "lines": lines,
                    "first": link.first - 1,
                    "last": link.last - 1,
                }
            )
    return {
        "found": True,
        "text": document.text,
        "links": links,
        "sourceLinks": [
            {"lines": [source_link.line - 1], "first": source_link.first - 1, "last": source_link.last - 1}
            for source_link in document.source_links
        ],
        "forms": [{"form": form, "name": name} for form, name in document.forms],
        "stale": result.stale,
    }


def _document(server: Server, result: KernelResult, params: KernelDocumentParams) -> KernelDocument | None:
    """Make the text; until a kernel is compiled, the text of a compiled form says so."""
    if params.form not in STAGES:
        return document(result.report, params.kernel, params.form)
    graph_and_kernel = find(result.report, params.kernel)
    kernel = graph_and_kernel[1] if graph_and_kernel is not None else None
    if graph_and_kernel is None or kernel is None or not compiles(kernel, result.report):
        return None
    assembled = result.assembled.get(kernel.text_key or "")
    disassemble = params.form == SASS
    if assembled is None or (disassemble and not assembled.disassembled and assembled.failure is None):
        key = replace(result.key, kernel=kernel.text_key or "", disassemble=disassemble)
        server.analysis.requests.compile(key)
        assembled = None
    return compiled(result.report, graph_and_kernel[0], kernel, params.form, assembled)


def kernel_lines(server: Server, params: KernelLinesParams) -> KernelLines:
    """Answer `fuselight/kernelLines`: the lines whose part of the time, or of the memory, is worth a mark."""
    path = convert.path(params.uri) or ""
    snapshot = server.snapshot(params.uri)
    measured = shown_benchmarks(snapshot) if snapshot is not None else []
    estimated = [
        kernel_result
        for kernel_result in _results(server, path, None)
        if shows_estimates(kernel_result, measured)
    ]
    levels = line_levels(path, [*measured, *estimated], server.state.estimates.values())
    return {"lines": [{"line": number - 1, "level": level} for number, level in levels.items()]}

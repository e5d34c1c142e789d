"""The texts of the user's own Triton kernels: source, compiled forms, configurations.

Invariant: each line of a compiled form is linked to the lines of the user's file that Triton's locations name; inlined
code belongs to the line that called it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from fuselight.shared.report import Listing, OwnKernel, Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import format_first, format_size
from fuselight_server.explain.kernels.documents import (
    OF_BACKEND,
    SASS,
    SOURCE,
    STAGES,
    KernelDocument,
    Link,
    under_header,
)
from fuselight_server.explain.kernels.own_kernels import (
    configuration_table,
    fastest,
    figures,
    launches_words,
    only_compiled,
    specialization,
    varied_words,
)
from fuselight_server.explain.kernels.own_kernels import find as find_own

CONFIGURATIONS = "configurations"
_PROBLEMS = 3


def needs_compile(kernel: OwnKernel, form: str) -> bool:
    """Whether a form takes a further run: SASS, and configurations that were not launched."""
    if form == CONFIGURATIONS:
        return only_compiled(kernel)
    assembled = kernel.assembled
    if assembled is None:
        return form in STAGES
    return form == SASS and not assembled.disassembled and assembled.failure is None


def forms(report: Report, kernel: OwnKernel) -> tuple[tuple[str, str], ...]:
    """Return what there is to show of a kernel, each with its name as a file."""
    device = report.own_kernels_device
    stages = OF_BACKEND.get(device.backend, ()) if device is not None else ()
    shown = [(SOURCE, f"{kernel.name}.py"), *((stage, f"{kernel.name}.{stage}") for stage in stages)]
    if kernel.configurations:
        shown.append((CONFIGURATIONS, f"{kernel.name}_configurations.txt"))
    return tuple(shown)


def first_form(report: Report) -> str:
    """Return the form that a lens opens: what runs on the device, as far as it is text."""
    device = report.own_kernels_device
    return "amdgcn" if device is not None and device.backend == "hip" else "ptx"


def own_document(
    report: Report,
    key: str,
    form: str,
    read_line: Callable[[str, int], str | None],
    *,
    is_compiling: bool = False,
) -> KernelDocument | None:
    """Make the text of an own kernel in one of its forms; None where the report has it no more."""
    kernel = find_own(report, key)
    if kernel is None:
        return None
    offered = dict(forms(report, kernel))
    name = offered.get(form, f"{kernel.name}.{form if form in STAGES else 'py'}")
    if form == SOURCE:
        return _source(report, kernel, name, read_line)
    if form == CONFIGURATIONS:
        notes = [
            "The configurations are being compiled: their figures are shown when that is done."
        ] * is_compiling
        body = "\n".join([*configuration_table(kernel), "", *_fastest_words(kernel)]).rstrip("\n")
        text, _ = under_header(name, [*_header(report, kernel), *notes], body)
        return KernelDocument(name, text, _whole(kernel, text), forms(report, kernel))
    listing = kernel.assembled.listings.get(form) if kernel.assembled is not None else None
    notes = []
    if listing is None:
        notes = [_why_missing(kernel, form, is_compiling=is_compiling)]
    text, above = under_header(
        name, [*_header(report, kernel), *notes], listing.text if listing is not None else None
    )
    links = _links(kernel, listing, above) if listing is not None else ()
    return KernelDocument(name, text, tuple(links), forms(report, kernel))


def _why_missing(kernel: OwnKernel, form: str, *, is_compiling: bool) -> str:
    if is_compiling:
        return f"It is being compiled: its {form.upper()} is shown here when that is done."
    assembled = kernel.assembled
    why = "" if assembled is None else assembled.failure or "; ".join(assembled.problems[:_PROBLEMS])
    return f"There is no {form.upper()}: {why or 'it was not compiled'}"


def _source(
    report: Report, kernel: OwnKernel, name: str, read_line: Callable[[str, int], str | None]
) -> KernelDocument:
    first, last = kernel.location.line, kernel.last_line
    lines = [read_line(kernel.location.path, line) or "" for line in range(first, last + 1)]
    text, above = under_header(name, list(_header(report, kernel)), "\n".join(lines))
    links = tuple(
        Link((SourceLine(kernel.location.path, line),), above + at, above + at)
        for at, line in enumerate(range(first, last + 1), 1)
    )
    return KernelDocument(name, text, links, forms(report, kernel))


def _links(kernel: OwnKernel, listing: Listing, above: int) -> Iterator[Link]:
    """Make one link for each stretch of lines of a listing that come from the same line of the user's."""
    numbered = enumerate(listing.lines, above + 1)
    for origin, stretch in itertools.groupby(numbered, key=lambda item: item[1]):
        lines = [number for number, _ in stretch]
        if origin:
            yield Link((SourceLine(kernel.location.path, origin),), lines[0], lines[-1])


def _whole(kernel: OwnKernel, text: str) -> tuple[Link, ...]:
    return (Link((SourceLine(kernel.location.path, kernel.location.line),), 1, text.count("\n")),)


def _header(report: Report, kernel: OwnKernel) -> Iterator[str]:
    device = report.own_kernels_device
    name = f"{device.key} ({device.name})" if device and device.name != device.key else "a device"
    triton = kernel.assembled.triton if kernel.assembled is not None else None
    yield f"{kernel.name}, compiled by Triton{f' {triton}' if triton else ''} for {name}."
    yield f"Specialization: {specialization(kernel)}."
    options = [
        f"{label}={value}"
        for label, value in (("num_warps", kernel.num_warps), ("num_stages", kernel.num_stages))
        if value is not None
    ]
    yield f"Launched: {', '.join([launches_words(kernel), *options])}."
    yield f"Compiled: {', '.join(figures(kernel))}."
    if kernel.bytes_read is not None and kernel.bytes_written is not None:
        yield (
            f"A launch reads {format_size(kernel.bytes_read)} and writes {format_size(kernel.bytes_written)}, "
            "if it touches each element of its tensors once."
        )
    if kernel.launches:
        yield from varied_words(report)
    if kernel.configurations and kernel.key:
        yield f"Tuned by {format_first(list(kernel.key), 8)}; here: {', '.join(kernel.key_values)}."


def _fastest_words(kernel: OwnKernel) -> list[str]:
    best = fastest(kernel)
    if best is None:
        return ["No times: they are measured by Triton's autotuner, on a machine with a GPU."]
    return [f"The fastest for these sizes: {best.text or 'a configuration with a hook'}"]

"""The user's own Triton kernels for the client: those on some lines, and the text of each with its lines."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fuselight.shared.report import Tier
from fuselight_server.base.formatting import format_target
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.answers import KernelEntry, KernelLink, KernelText
from fuselight_server.editor.messages.params import KernelDocumentParams, KernelsAtParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.own_kernels import placed_kernels
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.kernels.documents import SOURCE, STAGES, KernelDocument
from fuselight_server.explain.kernels.own_documents import (
    CONFIGURATIONS,
    first_form,
    forms,
    needs_compile,
    own_document,
)
from fuselight_server.explain.kernels.own_kernels import OWN, launches_words, short_specialization
from fuselight_server.explain.kernels.own_kernels import find as find_own
from fuselight_server.explain.kernels.own_kernels import key_of as own_key_of


def own_entries(server: Server, path: str, params: KernelsAtParams) -> Iterator[KernelEntry]:
    """Make an entry for each specialization of the user's own kernels on some lines, without lines of the file's."""
    last = params.line if params.last is None else params.last
    seen = set()
    for placed in placed_kernels(server.state.captures.values(), path):
        key, report = own_key_of(placed.kernel), placed.result.report
        is_there = (
            params.line is None
            or last is None
            or (placed.line - 1 <= last and params.line <= placed.last - 1)
        )
        if not is_there or key in seen:
            continue
        seen.add(key)
        offered, first = dict(forms(report, placed.kernel)), first_form(report)
        shown = [first] if placed.kernel.assembled is not None else [SOURCE]
        shown += [CONFIGURATIONS] if CONFIGURATIONS in offered else []
        for form in shown:
            facts = [short_specialization(placed.kernel), launches_words(placed.kernel)]
            is_table = form == CONFIGURATIONS
            yield {
                "uri": server.uri_of(placed.result.key.path),
                "target": placed.result.key.name,
                "kernel": key,
                "form": form,
                "name": offered.get(form, f"{placed.kernel.name}.py"),
                "label": f"{placed.kernel.name}: configurations" if is_table else placed.kernel.name,
                "description": ", ".join(facts),
            }


def own_text(server: Server, path: str, params: KernelDocumentParams) -> KernelText | None:
    """Make the text of a kernel; None where it is no longer there.

    A form that was not compiled is requested, and the text says so.
    """
    kept = server.state.captures.get(Key(path, params.target))
    result = kept.shown if kept is not None else None
    kernel = find_own(result.report, params.kernel) if result is not None else None
    if result is None or kernel is None:
        return None
    wanted = params.form + (":library" if kernel.library else "")
    is_compiling = needs_compile(kernel, params.form) and wanted not in result.compiled_forms
    if is_compiling:
        server.analysis.requests.compile(Key(path, params.target, Tier.KERNELS, kernel=f"{OWN}:{wanted}"))
    document = own_document(
        result.report, params.kernel, params.form, server.state.documents.read_line, is_compiling=is_compiling
    )
    if document is None:
        raise ValueError("a kernel that was found has a document")
    return {
        "found": True,
        "text": document.text,
        "links": list(_own_links(server, result, document)),
        "sourceLinks": [],
        "forms": [{"form": form, "name": name} for form, name in document.forms],
        "stale": result.stale,
    }


def _own_links(server: Server, result: CaptureResult, document: KernelDocument) -> Iterator[KernelLink]:
    """Make the links of a text to the lines of the user's, where they are now."""
    for link in document.links:
        for place in link.places:
            now = result.places.line_now(place.path, place.line)
            if now is not None:
                yield {
                    "uri": server.uri_of(now.path),
                    "lines": [now.line - 1],
                    "first": link.first - 1,
                    "last": link.last - 1,
                }


def removed_text(params: KernelDocumentParams) -> KernelText:
    """Answer for a kernel that is no longer there."""
    return {
        "found": False,
        "text": _removed_kernel_text(params),
        "links": [],
        "sourceLinks": [],
        "forms": [],
        "stale": False,
    }


def _removed_kernel_text(params: KernelDocumentParams) -> str:
    is_cpp = params.form == SOURCE and params.kernel.rpartition(":")[2].startswith("cpp_")
    mark = "//" if is_cpp else STAGES.get(params.form, "#")
    target = format_target(params.target)
    file = os.path.basename(convert.path(params.uri) or params.uri)  # noqa: PTH119 - paths stay text
    parts = params.kernel.split(":", maxsplit=3)
    name = parts[-1] if len(parts) > 3 else f"The {parts[-1]} graph {parts[0]}"  # noqa: PLR2004 - see `key_of`
    if params.target.startswith("job "):
        return (
            f"{mark} {name} is not available.\n{mark} Open the trace of {target} to see its kernels again.\n"
        )
    lines = (
        f"{name} is not available.",
        f"Kernels are kept until the window is closed. Those of {target} have not been generated since,",
        "or its last run has no such kernel.",
        f"To generate them again, open {file} and press Kernels above {target}: this text is then replaced.",
    )
    return "\n".join([*(f"{mark} {line}" for line in lines), ""])

"""Edits that findings and captured calls offer without a run: directives, dynamic dimensions, comments that ignore.

Invariant: an edit applies to the text of the moment, all of it or nothing. The libraries that make edits are imported
at the first request, not at the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.base.files import split_text
from fuselight_server.base.finding import Finding, Span
from fuselight_server.base.formatting import format_count, format_target
from fuselight_server.base.store import recorded_calls
from fuselight_server.commands.fastest_configurations import edit_of, winners
from fuselight_server.editor.results.own_kernels import placed_kernels
from fuselight_server.explain.findings.results import REGION_OPTIONS
from fuselight_server.source.autotune_decorators import CannotKeepError
from fuselight_server.source.document import read_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fuselight_server.editor.results.snapshot import Document, ResultsView
    from fuselight_server.source.edits import TextEdit

_CALLS = 3
"""Captured calls that become directives."""


@dataclass(frozen=True)
class QuickEdit:
    """An edit in a menu, with its title."""

    title: str
    edits: list[TextEdit]
    is_preferred: bool = False


def quick_edits(view: ResultsView, document: Document, finding: Finding) -> Iterator[QuickEdit]:
    """Yield the edits that a finding offers; those without a place for them are left out."""
    from fuselight_server.source import edits  # noqa: PLC0415 - LibCST: 8 MB and 60 ms that a start need not pay

    data, text, line = dict(finding.data), document.source.text, finding.span.line
    offered: list[QuickEdit] = []
    if "mark_dynamic" in finding.fixes:
        values = [value for key, value in finding.data if key in {"parameter", "dimension"}]
        sizes = list(zip(values[::2], values[1::2], strict=False))  # the parameter and the dimension of each
        title = f"Mark {' and '.join(f'dimension {size} of {name}' for name, size in sizes)} as dynamic"
        offered.append(QuickEdit(title, _mark_dynamic(view, finding, sizes), is_preferred=True))
    if "move_directive" in finding.fixes:
        moved = edits.move_directive(document.path, text, line, int(data["above"]))
        offered.append(QuickEdit(f"Move this directive above line {data['above']}", moved, is_preferred=True))
    if REGION_OPTIONS in finding.fixes:
        title = f"Change line {data['line']} to `{data['new'].strip()}`: results as in eager mode"
        offered.append(QuickEdit(title, _region_options(view, data), is_preferred=True))
    if "remove_ignore" in finding.fixes:
        removed = edits.remove_ignore(document.path, text, line, data.get("code"))
        offered.append(QuickEdit("Remove this ignore comment", removed, is_preferred=True))
    elif finding.code not in {"FL501", "FL502"}:
        ignored = edits.insert_ignore(document.path, text, line, finding.code)
        more = f" and {format_count(len(finding.also_at), 'more place')}" if finding.also_at else ""
        offered.append(QuickEdit(f"Ignore {finding.code} on this line{more}", ignored))
    yield from (edit for edit in offered if edit.edits)


def captured_calls(view: ResultsView, document: Document, first: int, last: int) -> Iterator[QuickEdit]:
    """Make the calls of a target that a run of a program captured into directives above it."""
    from fuselight_server.source import edits  # noqa: PLC0415 - as above

    for target in document.reading().targets:
        if target.directives or not first <= target.name_span.line <= last:
            continue
        calls = dict.fromkeys(
            call
            for result in view.captures.values()
            for call in recorded_calls(result.report, document.path).get(target.name, ())
        )
        text_edits = edits.insert_directives(document.source.text, target, list(calls)[:_CALLS])
        shown = "the captured call" if len(calls) == 1 else f"{min(len(calls), _CALLS)} captured calls"
        if text_edits:
            yield QuickEdit(f"Write {shown} of {format_target(target.name)} as a directive", text_edits)


def fastest_configurations(
    view: ResultsView, document: Document, first: int, last: int
) -> Iterator[QuickEdit]:
    """Leave an autotuner on some lines with the configurations that were measured to be the fastest.

    Only while the file is the text that ran: another kernel was not measured.
    """
    current = [result for result in view.captures.values() if document.path not in result.shown.changed_files]
    kernels = [
        placed.kernel for placed in placed_kernels(current, document.path) if not placed.kernel.library
    ]
    for winner in winners(kernels):
        kernel = winner.kernel
        start = kernel.decorator.line if kernel.decorator is not None else kernel.location.line
        if last < start or first > kernel.last_line:
            continue
        try:
            edit = edit_of(document.source.text, winner)
        except CannotKeepError:
            continue
        from fuselight_server.source.edits import TextEdit  # noqa: PLC0415 - as above

        place = Span(document.path, edit.line, edit.column, edit.end_line, edit.end_column)
        yield QuickEdit(winner.title, [TextEdit(place, edit.text)])


def _region_options(view: ResultsView, data: Mapping[str, str]) -> list[TextEdit]:
    """The edit of the call of torch.compile, while its line is the one that a run has confirmed."""
    from fuselight_server.source.edits import TextEdit  # noqa: PLC0415 - as above

    document, number = view.document(data["path"]), int(data["line"])
    lines = split_text(document.source.text) if document is not None else []
    if len(lines) < number or lines[number - 1] != data["old"]:
        return []
    place = Span(data["path"], number, 0, number, len(data["old"].encode()))
    return [TextEdit(place, data["new"])]


def _mark_dynamic(view: ResultsView, finding: Finding, sizes: list[tuple[str, str]]) -> list[TextEdit]:
    """Make the edits at the call that brought the new sizes: all, or none where an argument is no plain name."""
    from fuselight_server.source import edits  # noqa: PLC0415 - as above

    if not finding.related or not all(size.isdigit() for _, size in sizes):
        return []
    call = finding.related[0].span
    document = view.document(call.path)
    if document is None:
        return []
    owner = view.document(finding.span.path)
    reading = owner.reading() if owner else read_source(finding.span.path, "")
    target = next(
        (static_target for static_target in reading.targets if static_target.name == finding.target), None
    )
    entries: dict[TextEdit, None] = {}  # an import that both need is made once
    for name, size in sizes:
        text_edits = edits.insert_mark_dynamic(
            call.path,
            document.source.text,
            call.line,
            parameter=name,
            dimension=int(size),
            parameters=target.parameters if target else tuple(name for name, _ in sizes),
            callee=target.name.rpartition(".")[2] if target and target.kind != "module" else None,
            column=call.column,
            end_column=call.end_column,
        )
        if not text_edits:
            return []
        entries |= dict.fromkeys(text_edits)
    return list(entries)

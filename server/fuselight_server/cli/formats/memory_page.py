"""Estimates of memory as one HTML file that needs no network: peaks, timelines, lines, modules, what compiling changes.

Invariant: the rows of a peak add up to it, what was not estimated is listed with the reason, and no text of a program
becomes markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Device, HeldMemory, Location, MemoryEstimate, MemoryPeak, Report
from fuselight_server.base.formatting import format_count, format_percent, format_size
from fuselight_server.cli.formats.memory_timeline import timeline_picture
from fuselight_server.explain.memory.fit import LargestBatch, fit_of
from fuselight_server.explain.memory.modules import module_rows
from fuselight_server.explain.memory.words import (
    NOTES,
    USES,
    cause_in_words,
    changed_lines,
    difference_in_words,
    edit_in_words,
    edit_lines,
    edit_results,
    forms_of,
    grouped_ranks,
    growth_in_words,
    peak_in_words,
    peak_size,
    row_key,
    saving_in_words,
    saving_name,
    step_in_words,
    use_in_words,
    useful_savings,
)
from fuselight_server.explain.pages.document import static_page
from fuselight_server.explain.pages.parts import (
    TableCell,
    TableLine,
    filled_columns,
    html_section,
    html_table,
    html_text,
    number_cell,
)

_MAX_ROWS = 40
_COLUMNS = (
    "target", "call", "batch", "form", "peak", "measured", "reserved", "in pieces", "verdict", "where",
    "largest batch that fits",
)  # fmt: skip


@dataclass(frozen=True)
class MemoryPage:
    """What a page shows, and how it names places."""

    targets: Sequence[tuple[str, Report, LargestBatch | None]]
    """Names in words, with what was estimated."""
    place: Callable[[Location], str]
    """A place in words, as `model.py:12`."""
    source: Callable[[Location], str]
    """The text of a line; empty if it is not known."""
    problems: Sequence[str] = ()

    def as_html(self) -> str:
        """The page."""
        sections = [self._peaks(), *self._calls(), self._notes()]
        return static_page("Estimated memory", self._headline(), (), filter(None, sections))

    def _headline(self) -> str:
        estimates = sum(len(report.memory) for _, report, _ in self.targets)
        names = ", ".join(dict.fromkeys(device.name for device in self._devices()))
        on = f" on {names}" if names else ""
        calls, targets = format_count(estimates, "call"), format_count(len(self.targets), "target")
        return f"{calls} of {targets}{on}, nothing was allocated"

    def _devices(self) -> Iterator[Device]:
        yield from (report.target_device for _, report, _ in self.targets if report.target_device is not None)

    def _peaks(self) -> str:
        lines = [
            line
            for name, report, largest in self.targets
            for estimate, ranks in grouped_ranks(report.memory)
            for line in self._forms(name + ranks, report.target_device, estimate, largest)
        ]
        columns, filled = filled_columns(_COLUMNS, lines)
        table = html_table("One row for each call and form", columns, filled)
        return html_section("Peaks", table) if lines else ""

    def _forms(
        self, name: str, device: Device | None, estimate: MemoryEstimate, largest: LargestBatch | None
    ) -> Iterator[TableLine]:
        batches = (largest.eager, largest.compiled) if largest else (None, None)
        for (form, peak, why_not, _, real), batch in zip(forms_of(estimate), batches, strict=True):
            fit = fit_of(peak.bytes, device) if peak is not None and device is not None else None
            where = peak_in_words(peak, device) if peak is not None and device is not None else ""
            yield TableLine(
                (
                    TableCell(name),
                    TableCell(estimate.call),
                    number_cell(estimate.batch),
                    TableCell(form),
                    number_cell(peak.bytes, peak_size(peak))
                    if peak is not None
                    else TableCell(f"not estimated: {why_not}"),
                    _size_cell(real.bytes if real is not None else 0),
                    _size_cell((real.reserved or 0) if real is not None else 0),
                    _size_cell((real.between_tensors or 0) if real is not None else 0),
                    TableCell(fit.value if fit is not None else ""),
                    TableCell(where),
                    number_cell(batch),
                )
            )

    def _calls(self) -> Iterator[str]:
        for name, report, _ in self.targets:
            for estimate, ranks in grouped_ranks(report.memory):
                batch = f", batch {estimate.batch:,}" if estimate.batch is not None else ""
                title = f"{name}: {estimate.call}{batch}{ranks}, {step_in_words(estimate)}"
                yield html_section(title, *filter(None, self._parts(estimate)))

    def _parts(self, estimate: MemoryEstimate) -> Iterator[str]:
        forms = (("eager", estimate.eager), ("compiled", estimate.compiled))
        known = [(form, peak) for form, peak in forms if peak is not None]
        for form, peak in known:
            if peak.timeline is not None:
                yield timeline_picture(peak.timeline, f"Allocated during the step, {form}")
        held = [(form, peak.held) for form, peak in known]
        yield self._side_by_side("Allocated at the peak, by use and line", held, estimate)
        yield self._side_by_side(
            "Kept for the backward, by line", [(form, peak.saved) for form, peak in known]
        )
        grown = [(growth_in_words(grown), *self._where(grown.location)) for grown in estimate.growth]
        yield _table("What grows from call to call", ("name", "line", "source"), grown)
        for form, peak in known:
            yield _modules(peak, form)
        caption = "What would need less, each tried without data (on fake tensors)"
        savings = [
            (saving_name(saving), saving_in_words(estimate, saving)) for saving in useful_savings(estimate)
        ]
        yield _table(caption, ("change", "peak"), savings)
        columns = ("line", "source", "change", "results", "lines of the change")
        edits = [
            (
                *self._where(edit.location),
                edit_in_words(estimate, edit),
                edit_results(edit),
                "; ".join(edit_lines(edit)),
            )
            for edit in estimate.edits
        ]
        yield _table("Changes of the source that need less, each tried alone", columns, edits)
        if estimate.untried:
            names = ", ".join(estimate.untried)
            yield f"<p>Not tried, as the time was over (--savings-time): {html_text(names)}</p>"

    def _where(self, at: Location | None) -> tuple[str, str]:
        """A place in words, and the text of its line."""
        return (self.place(at), self.source(at)) if at is not None else ("", "")

    def _side_by_side(
        self,
        caption: str,
        forms: Sequence[tuple[str, tuple[HeldMemory, ...]]],
        estimate: MemoryEstimate | None = None,
    ) -> str:
        """The rows of both forms in one table; with an estimate, also what differs and why."""
        rows = {row_key(row): row for _, held in forms for row in held}
        sizes = [{row_key(row): row.bytes for row in held} for _, held in forms]
        causes = dict(self._causes(estimate)) if estimate is not None else {}
        ranked = sorted(rows, key=lambda key: -max(of_form.get(key, 0) for of_form in sizes))
        lines = [
            TableLine(
                (
                    *map(TableCell, (use_in_words(row), *self._where(row.location))),
                    *(_size_cell(of_form.get(key, 0)) for of_form in sizes),
                    *((TableCell(causes.get(key, "")),) if causes else ()),
                )
            )
            for key in ranked[:_MAX_ROWS]
            for row in (rows[key],)
        ]
        if not lines:
            return ""
        columns = [
            "use",
            "line",
            "source",
            *(form for form, _ in forms),
            *(("compiled against eager",) if causes else ()),
        ]
        more = len(ranked) - _MAX_ROWS
        rest = f"<p>{html_text(format_count(more, 'more row'))}</p>" if more > 0 else ""
        head = difference_in_words(estimate) if estimate is not None else ""
        text = f"{caption}: {head}" if head else caption
        return html_table(text, columns, lines) + rest

    def _causes(self, estimate: MemoryEstimate) -> Iterator[tuple[tuple[object, ...], str]]:
        for more, row in changed_lines(estimate):
            cause = cause_in_words(estimate, more, row)
            size = f"{'+' if more > 0 else '-'}{format_size(abs(more))}"
            yield row_key(row), ": ".join(filter(None, [size, cause]))

    def _notes(self) -> str:
        texts = [
            f"{name}: {text}"
            for name, report, _ in self.targets
            for text in (
                *(note.text for note in report.notes if note.kind in NOTES),
                *(f"{failure.message}. {failure.next_step}".rstrip() for failure in report.failures),
                *(f"{problem.what}: {problem.why}" for problem in report.problems),
            )
        ]
        texts += self.problems
        return html_section("Notes", *(f"<p>{html_text(text)}</p>" for text in texts)) if texts else ""


def _table(caption: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [TableLine(tuple(map(TableCell, row))) for row in rows]
    return html_table(caption, columns, lines) if lines else ""


def _size_cell(size: int) -> TableCell:
    return number_cell(size, format_size(size) if size else "")


def _modules(peak: MemoryPeak, form: str) -> str:
    rows = module_rows(peak)
    if all(not row.name for row in rows):
        return ""
    lines = [
        TableLine(
            (
                TableCell(row.name or "the target itself, and what is in no module"),
                _size_cell(row.bytes),
                number_cell(row.bytes / peak.bytes, format_percent(row.bytes, peak.bytes)),
                TableCell(", ".join(f"{USES[use]} {format_size(size)}" for use, size in row.uses[:3])),
            )
        )
        for row in rows[:_MAX_ROWS]
    ]
    caption = f"By module at the peak of {form}; a module with those in it"
    return html_table(caption, ("module", "bytes", "share", "most of it"), lines)

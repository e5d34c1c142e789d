"""Parts of pages that are one HTML file: tables with search and sort, sections.

Invariant: no text becomes markup. `page.js` searches and sorts the table `rows`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fuselight.shared.report.visible import visible

ROWS = "rows"
"""ID of the table that a reader can search and sort."""


@dataclass(frozen=True)
class TableCell:
    """A cell of a table."""

    text: str
    sort: float | None = None
    """A number to sort by."""
    css: str = ""


@dataclass(frozen=True)
class TableLine:
    """A line of a table."""

    cells: tuple[TableCell, ...]
    attributes: dict[str, str] = field(default_factory=dict)


def html_text(value: object) -> str:
    """The text of a value, without markup and without characters that act."""
    return html.escape(visible(str(value)))


def html_section(title: str, *parts: str) -> str:
    """A section with a heading."""
    return f"<section><h2>{html_text(title)}</h2>{''.join(parts)}</section>"


def html_table(
    caption: str, columns: Sequence[str], lines: Iterable[TableLine], *, table_id: str = ""
) -> str:
    """A table; with an ID, its headings are buttons that sort it."""
    heads = "".join(
        f'<th scope="col"><button type="button">{html_text(name)}</button></th>'
        if table_id
        else f'<th scope="col">{html_text(name)}</th>'
        for name in columns
    )
    body = "".join(_line(line) for line in lines)
    named = f' id="{table_id}"' if table_id else ""
    return (
        f'<div class="scroll" tabindex="0"><table{named}><caption>{html_text(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _line(line: TableLine) -> str:
    attributes = "".join(f' data-{name}="{html_text(value)}"' for name, value in line.attributes.items())
    return f"<tr{attributes}>{''.join(map(_cell, line.cells))}</tr>"


def _cell(cell: TableCell) -> str:
    css = " ".join(filter(None, ["number" if cell.sort is not None else "", cell.css]))
    kind = f' class="{css}"' if css else ""
    value = f' data-sort="{cell.sort:.10g}"' if cell.sort is not None else ""
    return f"<td{kind}{value}>{html_text(cell.text)}</td>"


def number_cell(value: float | None, text: str | None = None) -> TableCell:
    """The cell of a number; empty for None."""
    if value is None:
        return TableCell("")
    return TableCell(f"{value:,}" if text is None else text, float(value))


def filled_columns(columns: Sequence[str], lines: Iterable[TableLine]) -> tuple[list[str], list[TableLine]]:
    """The columns in which at least one line has a text, and the lines with these alone."""
    lines = list(lines)
    filled = [index for index in range(len(columns)) if any(line.cells[index].text for line in lines)]
    kept = [TableLine(tuple(line.cells[index] for index in filled), line.attributes) for line in lines]
    return [columns[index] for index in filled], kept


def search_bar(job_label: str, jobs: Iterable[str], status_label: str, statuses: Iterable[str]) -> str:
    """What searches the table `rows`: words, and the attributes `job` and `status` of its lines."""
    choices: Mapping[str, tuple[str, Iterable[str]]] = {
        "job": (job_label, jobs),
        "status": (status_label, statuses),
    }
    selects = "".join(
        f'<label>{html_text(label)} <select id="{name}">{_options(values)}</select></label>'
        for name, (label, values) in choices.items()
    )
    return (
        f'<div class="bar"><label>Search <input id="search" type="search"></label>{selects}'
        '<span id="shown" role="status" class="muted"></span></div>'
    )


def _options(values: Iterable[str]) -> str:
    shown = "".join(f'<option value="{html_text(text)}">{html_text(text)}</option>' for text in values)
    return f'<option value="">all</option>{shown}'

"""A benchmark's page as CSV: all of its tables in one, with the name of the table in the column `table`.

Invariant: every fact of the page is in some row; a text that a spreadsheet would take for a formula is marked as text,
and what is not known is empty. Lines are 1-based, times microseconds.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS: tuple[str, ...] = (
    "target", "table", "configuration", "name", "kind", "path", "line", "us", "spread", "low_us", "high_us", "share",
    "speedup", "clock", "wall_us", "first_us", "second_us", "peak_bytes", "own_bytes", "accurate", "count",
    "estimate_us", "isolated_us", "bandwidth_gbs", "tflops", "of_limit", "note", "unsteady", "calls", "graph_breaks",
    "compiles", "recompiles", "joined", "phase", "cosine", "absolute", "relative", "start_us", "depth", "compile_id",
    "sampled", "before_us", "change", "file",
)  # fmt: skip
"""Which are filled depends on `table`: `configuration`, `tensor`, `line`, `kernel`, `where`, `step`, `comparison`,
`verdict`, `about`, `note`."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")

Row = dict[str, Any]


def as_csv(*pages: dict[str, Any]) -> str:
    """Return all tables of all pages in one."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for page in pages:
        named = {"target": page["title"], "file": page["path"]}
        writer.writerows(_cells({**named, **row}) for row in _rows(page))
    return out.getvalue()


def _rows(page: dict[str, Any]) -> Iterator[Row]:
    for row in page["configurations"]:
        yield from _configuration(row)
    for name, found in page["profiles"].items():
        yield from ({**row, "configuration": name} for row in _profile(found))
    if page["comparison"] is not None:
        yield from _comparison(page["comparison"])
    for statement in page["verdict"]:
        yield {"table": "verdict", "note": statement["text"], **_at(statement["place"])}
    about = {"when": page["when"], "one call": page["work"], "inputs": "; ".join(page["inputs"])}
    facts = [*about.items(), *((fact["name"], fact["value"]) for fact in page["machine"])]
    yield from ({"table": "about", "name": name, "note": value} for name, value in facts)
    notes = [*(["the code has changed since"] if page["stale"] else []), *page["notes"]]
    yield from ({"table": "note", "note": note} for note in notes)


def _configuration(row: dict[str, Any]) -> Iterator[Row]:
    accuracy = row["accuracy"] or {"passed": None, "text": "", "tensors": [], "place": None}
    said = [row["failure"] or "", accuracy["text"], *row["notes"]]
    yield {
        **_known(row),
        "table": "configuration",
        "configuration": row["name"],
        "name": None,
        "accurate": accuracy["passed"],
        **_at(accuracy["place"]),
        "note": "; ".join(one for one in said if one),
    }
    for tensor in accuracy["tensors"]:
        passed = {"accurate": tensor["passed"], "name": tensor["what"]}
        yield {"table": "tensor", "configuration": row["name"], **_known(tensor), **passed}


def _profile(found: dict[str, Any]) -> Iterator[Row]:
    for line in found["lines"]:
        names = "; ".join(line["kernels"])
        yield {"table": "line", **_known(line), **_at(line["place"]), "note": names}
    for kernel in found["kernels"]:
        note = "" if kernel["joined"] else "not joined to a line"
        yield {"table": "kernel", **_known(kernel), **_at(kernel["place"]), "note": note}
    for part in found["where"]:
        yield {
            "table": "where",
            **_known(part),
            "name": part["label"],
            **_at(part["place"]),
            "note": part["what"],
        }
    for step in found["steps"]:
        yield {"table": "step", **_known(step), **_at(step["place"])}


def _comparison(found: dict[str, Any]) -> Iterator[Row]:
    for one in found["configurations"]:
        yield {"table": "comparison", "configuration": one["name"], **_pair(one)}
    for line in found["lines"]:
        yield {"table": "comparison", **_at(line["place"]), **_pair(line), "note": line["place"]["text"]}
    for text in (f"against {found['label']}", *(f"not the same for both: {one}" for one in found["differs"])):
        yield {"table": "comparison", "note": text}


def _pair(one: dict[str, Any]) -> Row:
    return {"before_us": one["before_us"], "us": one["after_us"], "change": one["change"]}


def _known(row: dict[str, Any]) -> Row:
    return {key: row[key] for key in COLUMNS if key in row}


def _at(place: dict[str, Any] | None) -> Row:
    return {} if place is None else {"path": place["path"], "line": place["line"] + 1}


def _cells(row: Row) -> Row:
    return {key: "" if value is None else _text(value) for key, value in row.items()}


def _text(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value

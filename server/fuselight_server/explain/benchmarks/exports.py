"""A benchmark as a file: JSON with all of it, CSV (`COLUMNS`), its page.

Invariant: JSON can be given to `fuselight bench --against`; no cell of CSV is a formula.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import read_regular
from fuselight_server.base.formatting import format_target
from fuselight_server.explain.benchmarks.history import BenchmarkRun
from fuselight_server.explain.benchmarks.page_types import (
    AccuracyCell,
    ConfigurationChange,
    ConfigurationRow,
    LineChange,
    MeasuredPage,
    PagePlace,
    ProfileDetails,
    RunComparison,
)
from fuselight_server.explain.pages.document import standalone_page

SCHEMA = 1
FORMATS = ("json", "csv", "html")
_MAX_BYTES = 2**28
"""Of an export: a benchmark of thousands of kernels is a tenth of it."""


def as_json(page: MeasuredPage, run: BenchmarkRun | None) -> str:
    """Return the page, and the run that it was made of."""
    return json.dumps(
        {"schema": SCHEMA, "page": encode(page), "run": encode(run) if run is not None else None}, indent=1
    )


class NotReadError(ValueError):
    """A file is no export of a benchmark; says why."""


def text_of(path: str) -> str:
    """Return the text of an export. Raises NotReadError."""
    try:
        text = read_regular(path, _MAX_BYTES).decode()
        from_json(text)
    except (OSError, ValueError, DecodeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotReadError(f"{path} cannot be compared with: {reason}") from None
    return text


class OtherTargetError(ValueError):
    """An export has no run of the target that is wanted."""


def from_json(text: str, target: str | None = None, path: str = "") -> BenchmarkRun:
    """Return the run of an export, of `target`, whose file is the most like `path` where several have one of that name.

    Raises ValueError or DecodeError with what is wrong.
    """
    data = parse_json(text)
    entries = data.get("targets", [data]) if isinstance(data, dict) else []
    runs = [
        entry["run"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("run"), dict)
    ]
    if not runs:
        raise DecodeError("no benchmark is in it: make one with `fuselight bench --format json`")
    benchmark_runs: list[BenchmarkRun] = [decode(BenchmarkRun, value) for value in runs]
    if target is None:
        return benchmark_runs[0]
    named = [run for run in benchmark_runs if run.report.target.name == target]
    if not named:
        there = ", ".join(format_target(run.report.target.name) for run in benchmark_runs)
        raise OtherTargetError(f"it has no benchmark of {format_target(target)}, but of {there}")
    return max(named, key=lambda run: _alike(run.report.target.path, path))


def _alike(text: str, other: str) -> int:
    """Count the names that two paths end with alike: the checkout may lie elsewhere."""
    ends = zip(reversed(Path(text).parts), reversed(Path(other).parts), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], ends))


def as_html(page: MeasuredPage) -> str:
    """Return the page of a benchmark as one file. Raises NotBuiltError where its script was not built."""
    return standalone_page(page, f"Benchmark: {page.title}", "bench")


def file_name(page: MeasuredPage, ending: str) -> str:
    """Return how an export is called: `Net-2026-01-31.json`."""
    name = re.sub(r"[^\w.-]+", "_", page.title).strip("_") or "benchmark"
    day = page.when[:10]
    return f"{name}{f'-{day}' if day else ''}.{ending}"


COLUMNS: tuple[str, ...] = (
    "target", "table", "configuration", "name", "kind", "path", "line", "us", "spread", "low_us", "high_us", "share",
    "speedup", "clock", "wall_us", "first_us", "second_us", "peak_bytes", "own_bytes", "accurate", "count",
    "estimate_us", "isolated_us", "bandwidth_gbs", "tflops", "of_limit", "note", "unsteady", "calls", "graph_breaks",
    "compiles", "recompiles", "joined", "phase", "cosine", "absolute", "relative", "start_us", "depth", "compile_id",
    "sampled", "before_us", "change", "file", "tensor_bytes", "estimated_bytes", "reserved_bytes", "between_bytes",
)  # fmt: skip
"""Which are filled depends on `table`: `configuration`, `tensor`, `line`, `kernel`, `where`, `step`, `comparison`,
`verdict`, `about`, `note`."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")

_NAMES = frozenset(COLUMNS)
_NOT_COMPARED = AccuracyCell(None, "", (), None)

Row = dict[str, Any]


def as_csv(*pages: MeasuredPage) -> str:
    """Return all tables of all pages in one."""
    return csv_text(
        COLUMNS,
        ({"target": page.title, "file": page.path, **row} for page in pages for row in _rows(page)),
    )


def csv_text(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """Return rows as CSV, in which no cell is a formula; a missing value is an empty cell."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({key: _spreadsheet_cell(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


def _rows(page: MeasuredPage) -> Iterator[Row]:
    for row in page.configurations:
        yield from _configuration(row)
    for name, profile in page.profiles.items():
        yield from ({**row, "configuration": name} for row in _profile(profile))
    if page.comparison is not None:
        yield from _comparison(page.comparison)
    for statement in page.verdict:
        yield {"table": "verdict", "note": statement.text, **_at(statement.place)}
    about = {"when": page.when, "one call": page.work, "inputs": "; ".join(page.inputs)}
    facts = [*about.items(), *((fact.name, fact.value) for fact in page.machine)]
    yield from ({"table": "about", "name": name, "note": value} for name, value in facts)
    notes = [*(["the code has changed since"] if page.stale else []), *page.notes]
    yield from ({"table": "note", "note": note} for note in notes)


def _configuration(row: ConfigurationRow) -> Iterator[Row]:
    accuracy = row.accuracy or _NOT_COMPARED
    messages = [row.failure or "", accuracy.text, *row.notes]
    yield {
        **_known(row),
        **(_known(row.memory) if row.memory is not None else {}),
        "table": "configuration",
        "configuration": row.name,
        "name": None,
        "accurate": accuracy.passed,
        **_at(accuracy.place),
        "note": "; ".join(message for message in messages if message),
    }
    for tensor in accuracy.tensors:
        passed = {"accurate": tensor.passed, "name": tensor.what}
        yield {"table": "tensor", "configuration": row.name, **_known(tensor), **passed}


def _profile(details: ProfileDetails) -> Iterator[Row]:
    for line in details.lines:
        names = "; ".join(line.kernels)
        yield {"table": "line", **_known(line), **_at(line.place), "note": names}
    for kernel in details.kernels:
        note = "" if kernel.joined else "not joined to a line"
        yield {"table": "kernel", **_known(kernel), **_at(kernel.place), "note": note}
    for part in details.where:
        yield {
            "table": "where",
            **_known(part),
            "name": part.label,
            **_at(part.place),
            "note": part.what,
        }
    for step in details.steps:
        yield {"table": "step", **_known(step), **_at(step.place)}


def _comparison(comparison: RunComparison) -> Iterator[Row]:
    for configuration in comparison.configurations:
        yield {"table": "comparison", "configuration": configuration.name, **_pair(configuration)}
    for line in comparison.lines:
        yield {"table": "comparison", **_at(line.place), **_pair(line), "note": line.place.text}
    for text in (
        f"against {comparison.label}",
        *(f"not the same for both: {name}" for name in comparison.differs),
    ):
        yield {"table": "comparison", "note": text}


def _pair(change: ConfigurationChange | LineChange) -> Row:
    return {"before_us": change.before_us, "us": change.after_us, "change": change.change}


def _known(row: object) -> Row:
    """Return the fields that are columns."""
    return {key: value for key, value in vars(row).items() if key in _NAMES}


def _at(place: PagePlace | None) -> Row:
    return {} if place is None else {"path": place.path, "line": place.line + 1}


def _spreadsheet_cell(value: Any) -> Any:
    """Return a value as a cell, which no spreadsheet takes for a formula."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value

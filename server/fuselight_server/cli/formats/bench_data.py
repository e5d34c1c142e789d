"""`fuselight bench --format json|csv|html`: the page of each target as data or as a file (docs/bench.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.codec import encode
from fuselight_server.cli.formats.json import finding_as_json
from fuselight_server.cli.sources import shown_path
from fuselight_server.measured import exports, tables
from fuselight_server.measured.comparison import as_json as comparison_as_json
from fuselight_server.measured.comparison import compare
from fuselight_server.measured.page import Around, page
from fuselight_server.measured.view import View

if TYPE_CHECKING:
    from fuselight_server.cli.bench import Benched
    from fuselight_server.cli.outcome import Outcome


def page_of(one: Benched, outcome: Outcome) -> dict[str, Any]:
    """The page of a benchmark, and what changed since the one that it is compared with."""
    view = View(uri_of=lambda path: Path(path).as_uri(), read_line=outcome.sources.line, shown=shown_path)
    comparison = None
    if one.before is not None and one.run is not None:
        comparison = comparison_as_json(compare(one.before, one.run), view)
    return page(one.report, view, Around(comparison=comparison))


def as_json(outcome: Outcome, benched: list[Benched]) -> str:
    """All targets, each with its page, what --against takes, and its findings."""
    targets = [
        {
            "path": one.report.target.path,
            "name": one.report.target.name or "__main__",
            "page": page_of(one, outcome),
            "findings": [finding_as_json(each, outcome.sources) for each in outcome.of_measured(one.report)],
            "failures": [encode(failure) for failure in one.report.failures],
            "run": encode(one.run) if one.run is not None else None,
        }
        for one in benched
    ]
    problems = [{"stage": one.stage, "what": one.what, "why": one.why} for one in outcome.problems]
    return json.dumps({"schema": exports.SCHEMA, "targets": targets, "problems": problems}, indent=1) + "\n"


def as_csv(outcome: Outcome, benched: list[Benched]) -> str:
    """All targets in one table."""
    return tables.as_csv(*(page_of(one, outcome) for one in benched))


def as_html(outcome: Outcome, benched: list[Benched]) -> str:
    """The page of the first target that was measured. Raises NotBuiltError."""
    for one in benched:
        made = page_of(one, outcome)
        if made["found"]:
            return exports.as_html(made)
    return ""

"""A benchmark as a file: JSON with all of it, CSV with its tables, HTML that draws itself without a network.

Invariant: the HTML is the page's own script and style between a policy that allows nothing else, and the page as data;
no text of the report becomes markup. JSON can be given to `fuselight bench --against`.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.codec import DecodeError, decode, encode
from fuselight_server.measured.history import Run

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = 1
FORMATS = ("json", "csv", "html")
BUILD = "npm ci && npm run build"
COLUMNS: tuple[str, ...] = (
    "target", "table", "configuration", "name", "kind", "path", "line", "us", "spread", "low_us", "high_us", "share",
    "speedup", "clock", "wall_us", "first_us", "second_us", "peak_bytes", "own_bytes", "accurate", "count",
    "estimate_us", "isolated_us", "bandwidth_gbs", "tflops", "of_limit", "note",
)  # fmt: skip
"""Of the CSV: which are filled depends on `table`: `configuration`, `line`, `kernel`, `where`, `step`."""
_SCRIPT, _STYLE = Path("dist", "bench.js"), Path("media", "bench.css")


class NotBuiltError(Exception):
    """The page's script or style is not there."""


def as_json(page: dict[str, Any], run: Run | None) -> str:
    """Return the page, and the run that it was made of."""
    return json.dumps(
        {"schema": SCHEMA, "page": page, "run": encode(run) if run is not None else None}, indent=1
    )


def from_json(text: str, target: str | None = None) -> Run:
    """Return the run of an export, of `target` where a file of the command has several.

    Raises ValueError or DecodeError with what is wrong.
    """
    data = json.loads(text)
    entries = data.get("targets", [data]) if isinstance(data, dict) else []
    runs = [one["run"] for one in entries if isinstance(one, dict) and isinstance(one.get("run"), dict)]
    if not runs:
        raise DecodeError("no benchmark is in it: make one with `fuselight bench --format json`")
    found: list[Run] = [decode(Run, one) for one in runs]
    named = [run for run in found if run.report.target.name == target]
    return named[0] if named else found[0]


def as_csv(*pages: dict[str, Any]) -> str:
    """Return all tables of all pages in one, told apart by their first two columns; lines are 1-based."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for page in pages:
        writer.writerows(_cells({"target": page["title"], **row}) for row in _rows(page))
    return out.getvalue()


def _rows(page: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for row in page["configurations"]:
        accuracy = row["accuracy"]
        known = {key: row[key] for key in COLUMNS if key in row and key != "name"}
        passed = accuracy["passed"] if accuracy is not None else None
        notes = "; ".join([*([row["failure"]] if row["failure"] else []), *row["notes"]])
        yield {
            **known,
            "table": "configuration",
            "configuration": row["name"],
            "accurate": passed,
            "note": notes,
        }
    for name, found in page["profiles"].items():
        yield from ({**row, "configuration": name} for row in _profile_rows(found))


def _profile_rows(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for line in found["lines"]:
        names = "; ".join(line["kernels"])
        yield {"table": "line", **_at(line["place"]), "us": line["us"], "share": line["share"], "note": names}
    for kernel in found["kernels"]:
        known = {key: kernel[key] for key in COLUMNS if key in kernel}
        note = "" if kernel["joined"] else "not joined to a line"
        yield {"table": "kernel", **known, **_at(kernel["place"]), "note": note}
    for part in found["where"]:
        known = {key: part[key] for key in ("kind", "us", "share")}
        yield {"table": "where", "name": part["label"], **known, **_at(part["place"]), "note": part["what"]}
    for step in found["steps"]:
        yield {"table": "step", "name": step["name"], "us": step["us"], **_at(step["place"])}


def _at(place: dict[str, Any] | None) -> dict[str, Any]:
    return {} if place is None else {"path": place["path"], "line": place["line"] + 1}


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    """Empty for what is not known; a text that a spreadsheet would take for a formula is marked as text."""
    return {key: "" if value is None else _text(value) for key, value in row.items()}


def _text(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")) else value


def extension_folder() -> Path:
    """Return where the page's parts lie: in a checkout as in the packed extension, two folders above the package."""
    return Path(__file__).resolve().parents[3] / "extension"


def as_html(page: dict[str, Any], folder: Path | None = None) -> str:
    """Return the page as one file. Raises NotBuiltError where its script was not built."""
    parts = folder or extension_folder()
    try:
        script = (parts / _SCRIPT).read_text(encoding="utf-8")
        style = (parts / _STYLE).read_text(encoding="utf-8")
    except OSError as error:
        raise NotBuiltError(
            f"the page's script is not built ({error.filename} cannot be read): "
            f"build it with `{BUILD}` in a checkout, or export from the editor"
        ) from None
    script = re.sub(r"(?i)</(script)", r"<\\/\1", script).replace("<!--", "<\\!--")  # the same in its strings
    style = re.sub(r"(?i)</(style)", r"<\\/\1", style)
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:"
    return _HTML.format(
        policy=policy,
        title=_escaped(f"Benchmark: {page['title']}"),
        style=style,
        page=_as_data(page),
        script=script,
    )


_HTML = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<script type="application/json" id="page">{page}</script>
<script>{script}</script>
</body>
</html>
"""


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _as_data(page: dict[str, Any]) -> str:
    """JSON that no parser of HTML takes for a tag, and no engine for the end of a line."""
    text = json.dumps(page)  # ASCII: U+2028 is escaped already
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def file_name(page: dict[str, Any], ending: str) -> str:
    """Return how an export is called: `Net-2026-01-31.json`."""
    name = re.sub(r"[^\w.-]+", "_", page["title"]).strip("_") or "benchmark"
    day = page["when"][:10]
    return f"{name}{f'-{day}' if day else ''}.{ending}"

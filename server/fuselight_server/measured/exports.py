"""A benchmark as a file: JSON with all of it, CSV (`tables`), HTML that draws itself without a network.

Invariant: the HTML is the page's own script and style between a policy that allows nothing else, and the page as data;
no text of the report becomes markup. JSON can be given to `fuselight bench --against`.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from pathlib import Path
from typing import Any

from fuselight.codec import DecodeError, decode, encode
from fuselight_server.measured.history import BenchmarkRun

SCHEMA = 1
FORMATS = ("json", "csv", "html")
_MOST_BYTES = 2**28
"""Of an export: a benchmark of thousands of kernels is a tenth of it."""
BUILD = "npm ci && npm run build"
_SCRIPT, _STYLE = Path("dist", "bench.js"), Path("media", "bench.css")


class NotBuiltError(Exception):
    """The page's script or style is not there."""


def as_json(page: dict[str, Any], run: BenchmarkRun | None) -> str:
    """Return the page, and the run that it was made of."""
    return json.dumps(
        {"schema": SCHEMA, "page": page, "run": encode(run) if run is not None else None}, indent=1
    )


class NotReadError(ValueError):
    """A file is no export of a benchmark; says why."""


def text_of(path: str) -> str:
    """Return the text of an export. Raises NotReadError."""
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise NotReadError(f"{path} cannot be compared with: it is larger than any benchmark")
        text = Path(path).read_text(encoding="utf-8")
        from_json(text)
    except (OSError, ValueError, DecodeError) as error:
        if isinstance(error, NotReadError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise NotReadError(f"{path} cannot be compared with: {reason}") from None
    return text


class OtherTargetError(ValueError):
    """An export has no run of the target that is wanted."""


def from_json(text: str, target: str | None = None, path: str = "") -> BenchmarkRun:
    """Return the run of an export, of `target`, whose file is the most like `path` where several have one of that name.

    Raises ValueError or DecodeError with what is wrong.
    """
    data = json.loads(text)
    entries = data.get("targets", [data]) if isinstance(data, dict) else []
    runs = [one["run"] for one in entries if isinstance(one, dict) and isinstance(one.get("run"), dict)]
    if not runs:
        raise DecodeError("no benchmark is in it: make one with `fuselight bench --format json`")
    found: list[BenchmarkRun] = [decode(BenchmarkRun, one) for one in runs]
    if target is None:
        return found[0]
    named = [run for run in found if run.report.target.name == target]
    if not named:
        there = ", ".join(run.report.target.name or "__main__" for run in found)
        raise OtherTargetError(f"it has no benchmark of {target or '__main__'}, but of {there}")
    return max(named, key=lambda run: _alike(run.report.target.path, path))


def _alike(one: str, other: str) -> int:
    """Count the names that two paths end with alike: the checkout may lie elsewhere."""
    ends = zip(reversed(Path(one).parts), reversed(Path(other).parts), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], ends))


def extension_folder() -> Path:
    """Return where the page's parts lie: in a checkout as in the packed extension, two folders above the package."""
    return Path(__file__).resolve().parents[3] / "extension"


def page_parts(folder: Path | None = None) -> tuple[str, str]:
    """Return the page's script and style. Raises NotBuiltError where they were not built."""
    parts = folder or extension_folder()
    try:
        return (parts / _SCRIPT).read_text(encoding="utf-8"), (parts / _STYLE).read_text(encoding="utf-8")
    except OSError as error:
        raise NotBuiltError(
            f"the page's script is not built ({error.filename} cannot be read): "
            f"build it with `{BUILD}` in a checkout, or export from the editor"
        ) from None


def as_html(page: dict[str, Any], folder: Path | None = None) -> str:
    """Return the page as one file. Raises NotBuiltError where its script was not built."""
    script, style = page_parts(folder)
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

"""Scripts and styles of pages as a build makes them, for rings that run before it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fuselight_server.explain.pages import document

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGES = ("bench", "tune", "graphs", "job")


def use_built_pages(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Write a script and a style for each page below `folder`, and have pages read them."""
    built = folder / "dist"
    built.mkdir(parents=True)
    for name in (f"{page}.{ending}" for page in PAGES for ending in ("js", "css")):
        (built / name).write_text(f"/* {name} */")
    monkeypatch.setattr(document, "extension_folder", lambda: folder)


def carried(page: str) -> Any:
    """The data that a page carries for its script."""
    match = re.search(r'<script type="application/json" id="page">(.*?)</script>', page)
    assert match is not None
    return json.loads(match[1])

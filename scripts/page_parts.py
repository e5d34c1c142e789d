"""A hook of the wheel's build: the pages' scripts and styles go with the server, so that it makes pages anywhere.

Invariant: a checkout without a build of the extension makes a wheel, too; pages then say what to build.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = ("bench", "tune", "graphs", "job")
STYLES = ("bench.css", "graphs.css", "standalone.css")
PARTS = (*(f"dist/{page}.js" for page in PAGES), *(f"media/{style}" for style in STYLES))


def included(root: Path) -> dict[str, str]:
    """Where each part that was built goes, by its path."""
    parts = {root / "extension" / part: f"fuselight_server/extension/{part}" for part in PARTS}
    if not all(path.is_file() for path in parts):
        return {}
    return {str(path): target for path, target in parts.items()}


class PageParts(BuildHookInterface[Any]):
    """Adds the parts to a wheel; an editable install reads them from the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a build."""
        if version == "standard":
            build_data["force_include"].update(included(Path(self.root)))

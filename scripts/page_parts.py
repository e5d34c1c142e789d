"""A hook of the wheel's build: the pages of findings, and the scripts and styles of pages that the server makes.

Invariant: a checkout without a build of the extension makes a wheel, too; pages then say what to build.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))  # the build loads this file by its path

from packaged_pages import WHEEL, write_pages
from rendered_pages import render_pages

PAGES = ("bench", "tune", "graphs", "job")
PARTS = tuple(f"dist/{page}.{ending}" for page in PAGES for ending in ("js", "css"))


def included(root: Path) -> dict[str, str]:
    """Where each part that was built goes, by its path."""
    parts = {root / "extension" / part: f"fuselight_server/extension/{part}" for part in PARTS}
    if not all(path.is_file() for path in parts):
        return {}
    return {str(path): target for path, target in parts.items()}


class PageParts(BuildHookInterface[Any]):
    """Adds the parts to a wheel; an editable install reads them from the checkout."""

    pages: Path | None = None
    """The pages as the wheel has them, until its end."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a build."""
        if version == "standard":
            self.pages = Path(tempfile.mkdtemp())
            names = write_pages(Path(self.root), self.pages, WHEEL)
            names += render_pages(self.pages, names)
            pages = {str(self.pages / name): f"fuselight_server/{name}" for name in names}
            build_data["force_include"].update({**pages, **included(Path(self.root))})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Called after a build."""
        if self.pages is not None:
            shutil.rmtree(self.pages)

"""Fuselight's own version: one number, kept in package.json.

Invariant: no second place states it. A checkout and the extension read the file; an installed wheel its metadata.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
from pathlib import Path


@functools.cache
def version() -> str:
    """The version, as `0.1.0`; `unknown` where neither the file nor the metadata came along."""
    manifest = Path(__file__).resolve().parents[2] / "package.json"
    try:
        data = json.loads(manifest.read_text(encoding="utf-8"))
        if data.get("name") == "fuselight":
            return str(data["version"])
    except (OSError, ValueError, KeyError, AttributeError):
        pass
    try:
        return importlib.metadata.version("fuselight")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"

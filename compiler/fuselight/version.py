"""Fuselight's version, which package.json states, and a hash of the source that is running.

Invariant: no second file states the version. A checkout and the extension read package.json; an installed wheel reads
its metadata.
"""

from __future__ import annotations

import functools
import hashlib
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


@functools.cache
def code_key() -> str:
    """A hash of all source code that makes reports, as it was at the first call.

    Different source may compute different numbers, even if its version is the same.
    """
    folder = Path(__file__).resolve().parent
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        data = path.read_bytes()
        whole.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode() + data)
    return whole.hexdigest()[:32]

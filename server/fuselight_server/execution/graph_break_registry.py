"""PyTorch's own texts of graph breaks, from the registry that an installed torch has as a file.

Invariant: no interpreter is started, and the file is read within bounds: what does not fit is ignored.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import read_regular
from fuselight_server.execution.interpreters import package_folders

_FILE = "torch/_dynamo/graph_break_registry.json"
_LARGEST = 8_000_000
_LONGEST = 2_000
"""Characters of a text: the longest of torch 2.14 has 900."""


@dataclass(frozen=True)
class RegisteredBreak:
    """What PyTorch says of a kind of graph break."""

    type: str
    explanation: str


def registered_break(gb_id: str, executable: str) -> RegisteredBreak | None:
    """What the torch of an interpreter says of an id; None if it has no such id, or its registry is not found."""
    entries = _registry(executable).get(gb_id)
    entry = entries[0] if isinstance(entries, list) and entries else None  # the newest
    if not isinstance(entry, dict):
        return None
    return RegisteredBreak(_text(entry.get("Gb_type")), _text(entry.get("Explanation")))


def _text(value: object) -> str:
    return value[:_LONGEST].strip() if isinstance(value, str) else ""


@functools.lru_cache(maxsize=4)
def _registry(executable: str) -> dict[str, Any]:
    for folder in package_folders(Path(executable)):
        try:
            data = parse_json(read_regular(folder / _FILE, _LARGEST))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            return data
    return {}

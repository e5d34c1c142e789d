"""The calls that the kernel of a notebook has made of what it compiles, as a file in the folder `.fuselight/`.

Invariant: descriptions only, never the data of a tensor. The file is private, bounded, replaced as a whole, and no link
is followed; one that is damaged reads as absent. A call belongs to the text of the cell that defines its target.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import STORE, linked, project_root, read_regular, write_whole

FOLDER = "notebooks"
MAX_CALLS = 500
MAX_OF_TARGET = 8
"""Calls that are kept of one target, the newest."""
_MAX_BYTES = 4 * 1024 * 1024
_NAMED = 80
"""Characters of a notebook's name in the name of a file."""


@dataclass(frozen=True)
class KernelCall:
    """One call, recorded when it was compiled."""

    target: str
    """Name of the target in the notebook: a class, a function, or a variable that holds what is compiled."""
    text: str
    """The call in directive notation."""
    cell: str
    """`text_key` of the source of the cell that defines the target; empty where no cell does."""


@dataclass(frozen=True)
class KernelCalls:
    """The calls of one notebook."""

    notebook: str
    """Its absolute path; empty where the frontend does not give it."""
    calls: tuple[KernelCall, ...] = ()
    schema: int = 1


def calls_path(notebook: str, folder: str) -> Path:
    """The file for the calls of a notebook; of one without a known path, that of the kernel's folder."""
    place = notebook or os.path.join(folder, "notebook")
    key = hashlib.sha256(os.path.realpath(place).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    name = Path(notebook).stem[:_NAMED] if notebook else "unnamed"
    return project_root(place) / STORE / FOLDER / f"{name}-{key}.json"


def read_calls(path: Path) -> KernelCalls | None:
    """The calls in a file; None where there is none that can be read."""
    if any(os.path.islink(folder) for folder in (path.parent, path.parent.parent)):
        return None
    try:
        return decode(KernelCalls, parse_json(read_regular(path, _MAX_BYTES, follow_link=False)))
    except (OSError, ValueError, DecodeError, RecursionError):
        return None


def write_calls(path: Path, calls: KernelCalls) -> None:
    """Replace the file, in folders that are closed to others and invisible to git. Raises OSError."""
    store = path.parent.parent
    for folder in (store, path.parent):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        if os.path.islink(folder):
            raise linked(folder)
    ignore = store / ".gitignore"
    if not os.path.lexists(ignore):
        write_whole(ignore, b"*\n")
    data = json.dumps(encode(calls), ensure_ascii=False).encode("utf-8", "surrogateescape")
    if len(data) <= _MAX_BYTES:
        write_whole(path, data)


def merged(older: Iterable[KernelCall], newer: Iterable[KernelCall]) -> tuple[KernelCall, ...]:
    """Both, each call once, within the bounds; a target with new calls loses those of an earlier text of its cell."""
    latest = tuple(dict.fromkeys(newer))
    texts = {call.target: {other.cell for other in latest if other.target == call.target} for call in latest}
    kept = [call for call in older if call.cell in texts.get(call.target, {call.cell})]
    ordered = list(dict.fromkeys([*(call for call in kept if call not in latest), *latest]))
    counts: dict[str, int] = {}
    out = []
    for call in reversed(ordered[-MAX_CALLS:]):
        counts[call.target] = counts.get(call.target, 0) + 1
        if counts[call.target] <= MAX_OF_TARGET:
            out.append(call)
    return tuple(reversed(out))


def calls_of_notebook(notebook: str, cells: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The calls that a kernel recorded for a notebook, by target; `cells`: the `text_key` of each of its cells.

    Where the kernel did not know which notebook it serves, only the calls of cells with the same text count.
    """
    folder = os.path.dirname(os.path.abspath(notebook))
    own = read_calls(calls_path(os.path.abspath(notebook), folder))
    unnamed = read_calls(calls_path("", folder))
    calls = list(own.calls) if own is not None else []
    calls += [call for call in unnamed.calls if call.cell in cells] if unnamed is not None else []
    texts: dict[str, dict[str, None]] = {}
    for call in calls:
        texts.setdefault(call.target, {})[call.text] = None
    return {target: tuple(known) for target, known in texts.items()}

"""Which local file a file of a job is, as the user has answered: kept in `.fuselight/` of the source folder.

Invariant: a store that cannot be read or written costs a question, never the command.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import read_regular, write_whole
from fuselight_server.base.store import Store, is_own

FILE = "job-files.json"
_MAX_BYTES = 1 << 20
_MAX_ANSWERS = 2_000


def kept_choices(folder: Path) -> Mapping[str, str]:
    """Path in a job → local path; an empty local path is the answer that none of them is meant."""
    store = Store.of(folder)
    if not is_own(store.folder):
        return {}
    try:
        kept = parse_json(read_regular(store.folder / FILE, _MAX_BYTES, follow_link=False))
    except (OSError, ValueError, RecursionError):
        return {}
    pairs = kept.items() if isinstance(kept, dict) else ()
    return {path: answer for path, answer in pairs if isinstance(answer, str)}


def keep_choices(folder: Path, choices: Mapping[str, str]) -> None:
    """Keep the answers, the last ones if there are too many."""
    store = Store.of(folder)
    last = dict(list(choices.items())[-_MAX_ANSWERS:])
    with contextlib.suppress(OSError):
        store.prepare()
        write_whole(store.folder / FILE, json.dumps(last, indent=1).encode())

"""Benchmarks that go along with a file or folder that was renamed, into another project as well.

Invariant: a run is in its old place or in its new one, whole; what is there already stays, and the run with it where it
was. Its report then speaks of the file under the new name, so that its lines lead there.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight_server.measured.history import (
    ENDING,
    UNREADABLE,
    History,
    dump,
    load,
    owners,
    read_text,
    relative,
    remove,
)
from fuselight_server.store import Store, files_of, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator


def take_along(old: str, new: str) -> Iterator[History]:
    """Move the benchmarks of the file or folder `old`, which is `new` by now; yield each target's new history.

    Raises OSError where the new place cannot be written: the rest is where it was.
    """
    store = Store.of(Path(old))
    was = relative(store, old)
    for folder, owner in owners(store):
        if owner.path != was and not owner.path.startswith(f"{was}/"):
            continue
        path = str(Path(new, owner.path[len(was) + 1 :])) if owner.path != was else new
        there = History(Store.of(Path(path)), path, owner.target)
        if there.folder == folder:
            continue
        there.store.prepare()
        there.claim()
        for run in sorted(files_of(folder, f"*{ENDING}")):
            _move(run, there, old, new, same=there.store == store)
        remove(folder, only_empty=True)
        yield there


def _move(run: Path, there: History, old: str, new: str, *, same: bool) -> None:
    """Move one run; one that cannot be read stays. Raises OSError."""
    place = there.folder / run.name
    if place.exists():
        return
    try:
        text = _speaking_of(read_text(run), old, new)
        if not same:
            text = dump(replace(load(text), root=str(there.store.folder.parent)))
    except UNREADABLE:
        return
    stat = run.stat()
    write_whole(place, gzip.compress(text.encode(), 1))
    os.utime(place, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # the oldest go first
    run.unlink()


def _speaking_of(text: str, old: str, new: str) -> str:
    """Return JSON in which each text that begins with the path `old`, as a whole, begins with `new`."""
    before, after = (json.dumps(path)[1:-1] for path in (old, new))
    separators = "|".join(re.escape(json.dumps(one)[1:-1]) for one in {os.sep, "/"})
    return re.sub(rf'(?<!\\)"{re.escape(before)}(?="|{separators})', lambda _: f'"{after}', text)

"""Benchmarks of targets that a file has no more, under that name at least: offered with those of the others, as such.

Invariant: what is named here can be read here; ids of a target's own runs stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fuselight_server.measured.history import History, owners

if TYPE_CHECKING:
    from collections.abc import Collection

    from fuselight_server.measured.history import Past, Run


def runs_of_gone(history: History, names: Collection[str]) -> tuple[Past, ...]:
    """Return the runs of the file's targets that are none of `names`, the newest first."""
    found = [
        replace(past, id=f"{folder.name}/{past.id}", label=_label(owner.target, past))
        for folder, owner in owners(history.store)
        if owner.path == history.owner.path and owner.target not in names and owner != history.owner
        for past in replace(history, target=owner.target).runs()
    ]
    return tuple(sorted(found, key=lambda past: past.when, reverse=True))


def read(history: History, identity: str) -> Run | None:
    """Return a run of the target's own, or of one that is gone; None where there is none of this id."""
    folder, separator, own = identity.rpartition("/")
    if not separator:
        return history.read(identity)
    for path, owner in owners(history.store):
        if path.name == folder and owner.path == history.owner.path:
            run = replace(history, target=owner.target).read(own)
            past = replace(run.past, id=identity, label=_label(owner.target, run.past)) if run else None
            return replace(run, past=past) if run is not None and past is not None else None
    return None


def _label(target: str, past: Past) -> str:
    return f"{target or '__main__'}, which is not in this file any more: {past.label}"

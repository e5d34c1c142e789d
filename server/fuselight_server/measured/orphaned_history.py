"""Benchmarks of targets that a file has no more, under that name at least: offered with those of the others, as such.

Invariant: what is named here can be read here; ids of a target's own runs stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fuselight_server.measured.history import History, owners

if TYPE_CHECKING:
    from collections.abc import Collection

    from fuselight_server.measured.history import BenchmarkRun, Past


def runs_of_gone(history: History, names: Collection[str]) -> tuple[Past, ...]:
    """Return the runs of the file's targets that are none of `names`, the newest first."""
    found = [
        replace(past, id=f"{folder.name}/{past.id}", label=_label(owner.target, past))
        for folder, owner in owners(history.store)
        if owner.path == history.owner.path and owner.target not in names and owner != history.owner
        for past in replace(history, target=owner.target).runs()
    ]
    return tuple(sorted(found, key=lambda past: past.when, reverse=True))


def read(history: History, identity: str) -> BenchmarkRun | None:
    """Return a run of the target's own, or of one that is gone; None where there is none of this id."""
    found = _resolved(history, identity)
    if found is None:
        return None
    there, own = found
    run = there.read(own)
    if run is None or own == identity:
        return run
    return replace(run, past=replace(run.past, id=identity, label=_label(there.target, run.past)))


def remove(history: History, identity: str) -> bool:
    """Remove a run of the target's own, or of one that is gone; whether there was one. Raises OSError."""
    found = _resolved(history, identity)
    return found is not None and found[0].remove(found[1])


def _resolved(history: History, identity: str) -> tuple[History, str] | None:
    """Return in whose history a run is, and its id there."""
    folder, separator, own = identity.rpartition("/")
    if not separator:
        return history, identity
    for path, owner in owners(history.store):
        if path.name == folder and owner.path == history.owner.path:
            return replace(history, target=owner.target), own
    return None


def _label(target: str, past: Past) -> str:
    return f"{target or '__main__'}, which is not in this file any more: {past.label}"

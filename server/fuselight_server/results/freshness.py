"""Whether a file has the text that a run saw: by hash, whatever happened to the file in between.

Invariant: a result is current where every file that ran has the text that ran, in the editor if it is open there, else
on the disk. An edit that is undone, or a checkout of an older commit, leaves nothing marked as stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.report import data_key
from fuselight_server.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fuselight_server.results.target_result import TargetResult

_MARK = b"\xef\xbb\xbf"
"""UTF-8 byte order mark: a file may begin with it, and editors leave it out of the text."""


def keys_of(text: str) -> frozenset[str]:
    """Return the hashes that a file may have which an editor opens as `text`."""
    data = text.encode("utf-8", "surrogatepass")
    return frozenset({data_key(data), data_key(_MARK + data)})


def keys_on_disk(path: str) -> frozenset[str]:
    """Return the hash of a file as it lies on the disk; none where it cannot be read."""
    try:
        return frozenset({data_key(read_regular(path))})
    except OSError:
        return frozenset()


def mark_current(
    results: Iterable[TargetResult], path: str, keys: Callable[[], frozenset[str]]
) -> list[TargetResult]:
    """Mark the results current that ran the text which the file at `path` has now; return them.

    `keys` returns the hashes of that text. It is called only where a result counts the file as changed.
    """
    changed = [one for one in _all(results) if path in one.changed_files and path in one.report.files]
    now = keys() if changed else frozenset()
    current = [one for one in changed if one.report.files[path] in now]
    for one in current:
        one.mark_current(path)
    return current


def compare_with_disk(results: Iterable[TargetResult], path: str) -> list[TargetResult]:
    """Compare results with a file that is not open and was written; return those whose state changes."""
    dependent = [one for one in _all(results) if path in one.depends]
    now = keys_on_disk(path) if dependent else frozenset()
    changed = []
    for one in dependent:
        if one.report.files.get(path) not in now:
            one.mark_changed(path)
        elif path in one.changed_files:
            one.mark_current(path)
        else:
            continue  # written as it was
        changed.append(one)
    return changed


def _all(results: Iterable[TargetResult]) -> Iterator[TargetResult]:
    """Yield results and their previous ones."""
    for one in results:
        yield one
        if one.previous is not None:
            yield one.previous

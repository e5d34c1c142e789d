"""Whether a file has the text that a run saw: by its hash, whatever was done to the file in between.

Invariant: what was found of a text is current where every file that ran has that text, in the editor if it is open
there, else on the disk. An edit that is undone, or a checkout that takes a file back, leaves nothing marked as old.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.report import data_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fuselight_server.places import Moving, Result

    AnyResult = Result | Moving

_MARK = b"\xef\xbb\xbf"
"""Of UTF-8, with which a file may begin; editors leave it out of the text."""


def keys_of(text: str) -> frozenset[str]:
    """Return the hashes that a file may have which an editor opens as `text`."""
    data = text.encode("utf-8", "surrogatepass")
    return frozenset({data_key(data), data_key(_MARK + data)})


def keys_on_disk(path: str) -> frozenset[str]:
    """Return the hash of a file as it lies on the disk; none where it cannot be read."""
    try:
        return frozenset({data_key(Path(path).read_bytes())})
    except OSError:
        return frozenset()


def current_again(
    results: Iterable[AnyResult], path: str, keys: Callable[[], frozenset[str]]
) -> list[AnyResult]:
    """Let results be current again that saw the text which the file at `path` has now; return these.

    `keys` gives those of its text, and is asked only where a result takes the file for another one.
    """
    there = [one for one in _all(results) if path in one.differs and path in one.report.files]
    now = keys() if there else frozenset()
    back = [one for one in there if one.report.files[path] in now]
    for one in back:
        one.is_again(path)
    return back


def found_on_disk(results: Iterable[AnyResult], path: str) -> list[AnyResult]:
    """Compare results with a file that is not open and was written; return those to which this says something new."""
    there = [one for one in _all(results) if path in one.depends]
    now = keys_on_disk(path) if there else frozenset()
    told = []
    for one in there:
        if one.report.files.get(path) not in now:
            one.differ(path)
        elif path in one.differs:
            one.is_again(path)
        else:
            continue  # written as it was
        told.append(one)
    return told


def _all(results: Iterable[AnyResult]) -> Iterator[AnyResult]:
    """Yield results, and those that stand beside one that is not whole."""
    for one in results:
        yield one
        if one.earlier is not None:
            yield one.earlier

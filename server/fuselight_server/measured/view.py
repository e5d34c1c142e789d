"""How the page shows lines and files: as they are now, or as they were at one moment.

Invariant: `View` asks the editor's state and belongs to the event loop; `Still` asks nobody, and can go to a thread.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fuselight_server.kernels.shares import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Json = dict[str, Any]


def _same(place: SourceLine) -> SourceLine | None:
    return place


class Shows(Protocol):
    """Says how lines and files are shown."""

    def place(self, at: SourceLine | None, /) -> Json | None:
        """Return a line for the page; None for one that is gone."""
        ...

    def uri_of(self, path: str, /) -> str:
        """Return a file's URI."""
        ...

    def shown(self, path: str, /) -> str:
        """Return a path as people read it."""
        ...


@dataclass(frozen=True)
class Still:
    """Lines and files as they were at one moment: it asks nobody, so that a page can be made of it in a thread."""

    places: dict[SourceLine, Json | None]
    files: dict[str, tuple[str, str]]
    """By path: its URI, and as people read it."""

    def place(self, at: SourceLine | None) -> Json | None:
        """Return a line for the page."""
        return None if at is None else self.places[at]

    def uri_of(self, path: str) -> str:
        """Return a file's URI."""
        return self.files[path][0]

    def shown(self, path: str) -> str:
        """Return a path as people read it."""
        return self.files[path][1]


@dataclass(frozen=True)
class View:
    """How lines are shown."""

    uri_of: Callable[[str], str]
    read_line: Callable[[str, int], str | None]
    shown: Callable[[str], str] = os.path.basename
    """A path as people read it."""
    now: Callable[[SourceLine], SourceLine | None] = _same
    """Where a line of the report is now; None if it was deleted."""

    def place(self, at: SourceLine | None) -> Json | None:
        """Return a line for the page."""
        there = self.now(at) if at is not None else None
        if there is None:
            return None
        text = self.read_line(there.path, there.line) or ""
        return {
            "uri": self.uri_of(there.path),
            "path": self.shown(there.path),
            "line": there.line - 1,
            "text": text.strip(),
        }

    def still(self, places: Iterable[SourceLine], paths: Iterable[str]) -> Still:
        """Return these lines, and these files, as they are now."""
        lines = {place: self.place(place) for place in places}
        files = {path: (self.uri_of(path), self.shown(path)) for path in paths}
        return Still(lines, files)

"""Where the lines of an earlier benchmark are by now: by their text, as files are now.

Invariant: a line whose text is nowhere keeps its number; of several, the nearest is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.files import disk_lines, split_text
from fuselight_server.kernels import SourceLine

if TYPE_CHECKING:
    from fuselight_server.measured.history import BenchmarkRun
    from fuselight_server.session.state import State


class Texts:
    """Files as they are now, by the text of their lines: each is read once."""

    def __init__(self, state: State) -> None:
        """Read what is open from the editor, and the rest from the disk."""
        self._state = state
        self._files: dict[str, dict[str, list[int]]] = {}

    def nearest(self, place: SourceLine, run: BenchmarkRun | None) -> SourceLine:
        """Find the line that has the text of then, the nearest of several; the same number where none has."""
        text = run.line(place.path, place.line) if run is not None else None
        if text is None:
            return place
        if place.path not in self._files:
            self._files[place.path] = self._index(place.path)
        lines = self._files[place.path].get(text.strip(), [])
        nearest = min(lines, key=lambda number: abs(number - place.line), default=place.line)
        return SourceLine(place.path, nearest)

    def _index(self, path: str) -> dict[str, list[int]]:
        document = self._state.at(path)
        lines = split_text(document.source.text) if document is not None else disk_lines(path)
        found: dict[str, list[int]] = {}
        for number, line in enumerate(lines, 1):
            found.setdefault(line.strip(), []).append(number)
        return found

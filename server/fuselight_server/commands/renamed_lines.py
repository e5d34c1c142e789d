"""Reports and findings with other names for some of their lines: those of the cells of a notebook.

Invariant: every place that has a path and a line is renamed as a whole; all else stays.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

LinePlace: TypeAlias = Callable[[str, int], "tuple[str, int] | None"]
"""The other name of a line, by its path and its number; None where it has none."""
_T = TypeVar("_T")
_LINES_OF_FRAME = ("frame_line", "rest_from", "resumed", "resumes_at")
"""Lines of the function whose place is next to them."""


def _as_it_is(text: str) -> str:
    return text


def renamed(value: _T, place: LinePlace, text: Callable[[str], str] = _as_it_is) -> _T:
    """Rename the lines in a dataclass, and in what it holds. `text` changes each other string."""
    return _Renaming(place, text).value(value)  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True)
class _Renaming:
    place: LinePlace
    text: Callable[[str], str]

    def value(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.value, value)) if value else value
        if isinstance(value, str):
            return self.text(value) if type(value) is str else value
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        changes = {name: self.value(getattr(value, name)) for name in _names(type(value))}
        return dataclasses.replace(
            value, **{**changes, **self._place_of(value), **self._lines_of_frame(value)}
        )

    def _place_of(self, value: Any) -> dict[str, Any]:
        path, line = getattr(value, "path", None), getattr(value, "line", None)
        if not isinstance(path, str) or not isinstance(line, int):
            return {}
        other = self.place(path, line)
        if other is None:
            return {}
        changes = {"path": other[0], "line": other[1]}
        end_line = getattr(value, "end_line", None)
        if end_line is not None:
            end = self.place(path, end_line)
            changes["end_line"] = end[1] if end is not None and end[0] == other[0] else other[1]
        return changes

    def _lines_of_frame(self, value: Any) -> dict[str, int]:
        places = (getattr(value, "location", None), *(getattr(value, "stack", None) or ())[:1])
        path: Any = next((at.path for at in places if at is not None and hasattr(at, "path")), None)
        if path is None:
            return {}
        lines = {name: getattr(value, name, None) for name in _LINES_OF_FRAME}
        others = {name: self.place(path, line) for name, line in lines.items() if isinstance(line, int)}
        return {name: other[1] for name, other in others.items() if other is not None}


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))

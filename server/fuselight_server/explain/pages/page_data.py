"""What the pages of the editor have in common as data.

Invariant: a page is a frozen dataclass whose fields have no defaults, so that the codec writes each of them;
`scripts/message_types.py` writes the TypeScript types of the same fields.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TypeVar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class PageHead:
    """What the head of a page of measurements shows."""

    found: bool
    """Whether there is something to show."""
    running: bool
    stale: bool
    """Whether the code has changed since."""
    title: str
    message: str
    """Without results: what to do. While results are being made: the progress."""


def finite(value: T) -> T:
    """Return a page in which no number is infinite or not a number, as JSON has none: None is unknown."""
    finite_value: Any = _finite(value)
    return finite_value  # type: ignore[no-any-return]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple):
        return tuple(map(_finite, value))
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _finite(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return type(value)(**fields)
    return value

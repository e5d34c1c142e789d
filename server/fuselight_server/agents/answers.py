"""What tools answer, and why they refuse a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class RefusedCallError(Exception):
    """A call that is not answered: what it needs is not allowed or does not exist. The message says what to do."""


@dataclass(frozen=True)
class ToolAnswer:
    """What a tool answers."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)

"""A tuple that also equals a list: tests compare what a check has found with `[]`, or with a list of codes."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class ListTuple(tuple[T, ...]):  # noqa: SLOT001 - a subclass has an attribute
    """A tuple that equals a list of the same values."""

    def __eq__(self, other: object) -> bool:
        """Whether the other is a tuple or a list of the same values."""
        return super().__eq__(tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        """Whether they differ."""
        return super().__ne__(tuple(other) if isinstance(other, list) else other)

    __hash__ = tuple.__hash__

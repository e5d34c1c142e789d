"""The attributes that an object itself holds."""

from __future__ import annotations

from typing import Any


def own_attributes(value: object) -> dict[str, Any]:
    """The `__dict__` of an object, without `__getattribute__` or `__getattr__` of its class; empty if it has none."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return attributes if type(attributes) is dict else {}

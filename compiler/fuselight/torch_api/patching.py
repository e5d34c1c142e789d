"""Replaces an attribute of torch's for one block.

Invariant: when the block ends, the owner has its original attribute, or none if it had none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

_MISSING = object()


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Have `owner.name` be `value` until the block ends."""
    before = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def wrapped(owner: Any, name: str, wrap: Callable[[Any], Any]) -> contextlib.AbstractContextManager[None]:
    """Have `owner.name` be `wrap(owner.name)` until the block ends."""
    return patched(owner, name, wrap(getattr(owner, name)))

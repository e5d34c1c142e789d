"""Replaces an attribute for one block: the one way in which Fuselight changes torch, Triton or Python.

Invariant: when the block ends, the owner has its original attribute, or none if it had none. An attribute that other
code has replaced meanwhile stays.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
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
        if vars(owner).get(name) is value:
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def forget(functions: Iterable[Any]) -> None:
    """Drop what those of `functions` that cache their results have cached."""
    for function in functions:
        clear = getattr(function, "cache_clear", None)
        if callable(clear):
            clear()


def wrapped(owner: Any, name: str, function: Callable[..., Any]) -> contextlib.AbstractContextManager[None]:
    """Have a call of `owner.name` be `function(real, ...)`, with the original first, until the block ends."""
    real = getattr(owner, name)

    @functools.wraps(real)
    def call(*args: Any, **named: Any) -> Any:
        return function(real, *args, **named)

    return patched(owner, name, call)

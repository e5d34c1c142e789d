"""Caches of `functools.lru_cache` and `functools.cache` that a call reaches: what they hold, and how to put it back.

Invariant: no function of the user's runs. To put an entry back, the cache is called while its function has code that
returns the result that is known.
"""

from __future__ import annotations

import functools
import gc
import types
from typing import Any

CACHE_TYPE = type(functools.lru_cache(lambda: None))
_RESULT = "the result of an entry"
"""The constant that stands for it in the code of `_returning_known`."""
Entry = tuple[Any, Any]
"""The key, as functools has it, and the result."""


class SavedCache:
    """What a cache holds now."""

    def __init__(self, cache: Any) -> None:
        self.name = str(getattr(cache, "__qualname__", "a function"))
        self._cache = cache
        self._entries = entries_of(cache)

    @property
    def results(self) -> list[Any]:
        """The results that the cache holds."""
        return [result for _, result in self._entries]

    @property
    def has_changed(self) -> bool:
        """Whether the cache holds other entries than it did."""
        now = entries_of(self._cache)
        return len(now) != len(self._entries) or any(
            (key is not old and key != old) or result is not was
            for (key, result), (old, was) in zip(now, self._entries, strict=True)
        )

    def restore(self) -> None:
        """Give the cache its entries back."""
        if not self.has_changed:
            return
        self._cache.cache_clear()
        for key, result in self._entries:
            _put(self._cache, key, result)


def can_be_restored(cache: Any) -> bool:
    """Whether the entries of a cache can be put back: its function has code of Python, and a key says its arguments."""
    return isinstance(cache.__wrapped__, types.FunctionType) and not cache.cache_parameters()["typed"]


def entries_of(cache: Any) -> list[Entry]:
    """The entries, from the one that was used the longest time ago."""
    held = gc.get_referents(cache)
    keyed = next((part for part in held if type(part) is dict and part is not vars(cache)), {})
    if cache.cache_parameters()["maxsize"] is None:
        return list(keyed.items())
    # A link between two entries has no attributes, but the cache names its key and, after that, its result.
    keys = {id(key) for key in keyed}
    return [(part, held[at + 1]) for at, part in enumerate(held[:-1]) if id(part) in keys]


def _put(cache: Any, key: Any, result: Any) -> None:
    function = cache.__wrapped__
    kept, code = function.__code__, _returning_known.__code__
    constants = tuple(result if constant == _RESULT else constant for constant in code.co_consts)
    function.__code__ = code.replace(co_consts=constants, co_freevars=kept.co_freevars)
    try:
        args, kwargs = _arguments_of(key)
        cache(*args, **kwargs)
    finally:
        function.__code__ = kept


def _returning_known(*_args: Any, **_kwargs: Any) -> Any:
    return "the result of an entry"


def _arguments_of(key: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a key: a single number or text by itself, others in a tuple, named ones after a mark."""
    if type(key) is not tuple:
        return (key,), {}
    mark = next((at for at, part in enumerate(key) if type(part) is object), len(key))
    named = key[mark + 1 :]
    return key[:mark], dict(zip(named[::2], named[1::2], strict=True))

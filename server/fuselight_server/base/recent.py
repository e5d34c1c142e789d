"""A mapping that keeps its newest entries."""

from __future__ import annotations

import collections
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(collections.OrderedDict[Key, Value]):
    """Forgets the entries that were kept longest ago."""

    def __init__(self, most: int) -> None:
        """Start empty; `most` entries are kept."""
        super().__init__()
        self._most = most

    def keep(self, key: Key, value: Value) -> None:
        """Keep an entry as the newest."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)

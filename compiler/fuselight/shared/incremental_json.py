"""Incremental JSON of a report that grows while a program runs: unchanged entries are not encoded again.

Invariant: `GrowingJson().dump(report)` is equivalent to `encode(report)`. Entries are recognized by identity, so
everything in a report must be immutable, as its dataclasses are.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.report import Report


class GrowingJson:
    """Keeps the JSON of every entry of the last report, and the entry itself, so that its identity is not reused."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, bytes]] = {}
        self._used: dict[int, tuple[Any, bytes]] = {}

    def dump(self, report: Report) -> bytes:
        """Write the whole report. The cost is that of the new entries plus a copy of the rest."""
        data = self._members(report)
        self._known, self._used = self._used, {}
        return data

    def _members(self, value: Any) -> bytes:
        parts = []
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if item != field.default:
                parts.append(wire.dump(field.name) + b":" + self._member(item))
        return b"{" + b",".join(parts) + b"}"

    def _member(self, value: Any) -> bytes:
        if isinstance(value, tuple):
            return b"[" + b",".join(map(self._entry, value)) + b"]"
        if isinstance(value, dict):
            pairs = (wire.dump(key) + b":" + self._entry(item) for key, item in value.items())
            return b"{" + b",".join(pairs) + b"}"
        if dataclasses.is_dataclass(value):
            return self._members(value)
        return wire.dump(encode(value))

    def _entry(self, value: Any) -> bytes:
        identity = id(value)
        known = self._used.get(identity) or self._known.get(identity)
        if known is None:
            known = (value, wire.dump(encode(value)))
        self._used[identity] = known
        return known[1]

"""Data that decodes and still lies: values of the right type that no run would have written."""

from __future__ import annotations

import random
from typing import Any

NUMBERS = (0, -1, 1, 2**31, 2**63, -(10**18), 10**40)
FLOATS = (0.0, -1.0, 5e-324, 1e308, -1e308, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", "\0", "x" * 5_000, "../../../../etc/passwd", "/dev/zero", "\ud800", "<script>alert(1)</script>\"'&", "=cmd()",
    "::error::x\n::error::y", "\x1b[31m", "9" * 400, "2026-99-99T99:99:99Z", "\U0001d518" * 9, "C:\\x", "file:///x",
    "%s{0}{x}",
)  # fmt: skip


def poisoned(value: Any, numbers: random.Random, share: float = 0.1) -> Any:
    """Return JSON data with about `share` of its values replaced by hostile ones of the same type.

    Lists are emptied, doubled or turned around. No field is left out, so that the data still decodes.
    """
    if isinstance(value, dict):
        return {key: poisoned(part, numbers, share) for key, part in value.items()}
    if isinstance(value, list):
        parts = [poisoned(part, numbers, share) for part in value]
        return numbers.choice(([], parts * 2, parts[::-1])) if numbers.random() < share else parts
    if numbers.random() > share:
        return value
    if isinstance(value, bool):
        return not value
    choices: dict[type, tuple[Any, ...]] = {int: NUMBERS, float: FLOATS, str: TEXTS}
    return numbers.choice(choices.get(type(value), (value,)))

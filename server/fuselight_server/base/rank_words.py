"""Ranks of a job in words."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST_LIST = 12


def ranks_in_words(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 3 and 5`, `ranks 0-2, 4, 6-7`; long lists are cut."""
    numbers = sorted(set(ranks))
    if len(numbers) == 2:  # noqa: PLR2004 - a pair
        return f"ranks {numbers[0]} and {numbers[1]}"
    parts: list[str] = []
    start = 0
    for position, number in enumerate(numbers):
        if position + 1 < len(numbers) and numbers[position + 1] == number + 1:
            continue
        first = numbers[start]
        parts.append(str(number) if first == number else f"{first}-{number}")
        start = position + 1
    if len(parts) > _LONGEST_LIST:
        parts = [*parts[:_LONGEST_LIST], "..."]
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(parts)}"

"""Versions as numbers."""

from __future__ import annotations

import re


def release(version: str) -> tuple[int, ...]:
    """`2.13.0+cpu` as (2, 13); empty where it is no version."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else ()


def span_of(versions: tuple[tuple[int, ...], tuple[int, ...]]) -> str:
    """`2.11 to 2.13`."""
    return " to ".join(".".join(map(str, version)) for version in versions)

"""The link between two ranks, and how long a collective takes on it at best.

Invariant: every time is an estimate: a ring over links of equal bandwidth that nothing else uses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fuselight.shared.report import Collective

_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_RATE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtT]?)([Bb])/s\s*")
_LATENCY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(us|µs|ms|ns)\s*")
_MICROSECONDS = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3}
_LATENCY_US = 10.0


class LinkError(ValueError):
    """A text that is no link."""


@dataclass(frozen=True)
class RankLink:
    """Bandwidth and latency between two ranks."""

    text: str
    bytes_per_second: float
    latency_us: float = _LATENCY_US


def parse_link(text: str) -> RankLink:
    """Read `400GB/s` or `200Gb/s,5us`. Raises LinkError."""
    rate, comma, latency = text.partition(",")
    match = _RATE.fullmatch(rate)
    delay = _LATENCY.fullmatch(latency) if comma else None
    if match is None or float(match[1]) == 0 or (comma and delay is None):
        raise LinkError(f"`{text}` is not a link: write 400GB/s, or 400GB/s,10us with a latency")
    per_second = float(match[1]) * _UNITS[match[2].lower()] / (8 if match[3] == "b" else 1)
    microseconds = float(delay[1]) * _MICROSECONDS[delay[2]] if delay else _LATENCY_US
    return RankLink(rate.strip(), per_second, microseconds)


def estimated_us(collective: Collective, link: RankLink) -> float:
    """Microseconds of a collective as a ring: the latency, and the bytes that each rank sends at full bandwidth.

    Of n ranks, each sends 2(n-1)/n of the buffer for an all-reduce, (n-1)/n for an all-gather, a reduce-scatter, an
    all-to-all, a gather and a scatter, and all of it for what has one source.
    """
    ranks = len(collective.group)
    if ranks < 2 and collective.kind not in {"send", "recv"}:  # noqa: PLR2004 - a rank alone
        return 0.0
    part = _SENT.get(collective.kind, _once)(ranks)
    return link.latency_us + part * collective.bytes / link.bytes_per_second * 1e6


def _once(_ranks: int) -> float:
    return 1.0


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


_SENT = {
    "all_reduce": lambda ranks: 2 * _others(ranks),
    **dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"), _others),
}

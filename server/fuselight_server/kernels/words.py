"""How costs are written: the same words in the editor and in the terminal. An estimate always carries its `~`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuselight.report import Assembled, Report
    from fuselight_server.kernels.shares import Place

_KILO = 1000
_UNITS = ("B", "KB", "MB", "GB", "TB")


def microseconds(us: float) -> str:
    """`~41 us`, `~0.7 us`, `~1.2 ms`: an estimate."""
    if us >= _KILO:
        return f"~{_short(us / _KILO)} ms"
    return f"~{_short(us)} us"


def size(count: float) -> str:
    """`12.6 MB`: bytes, in powers of 1000."""
    value, unit = float(count), 0
    while value >= _KILO and unit + 1 < len(_UNITS):
        value, unit = value / _KILO, unit + 1
    return f"{_short(value) if unit else int(value)} {_UNITS[unit]}"


def operations(count: float) -> str:
    """`4.9 GFLOP`."""
    value, prefix = float(count), ""
    for following in ("k", "M", "G", "T", "P"):
        if value < _KILO:
            break
        value, prefix = value / _KILO, following
    return f"{_short(value)} {prefix}FLOP"


def resources(assembled: Assembled) -> str:
    """`32 registers, no spills, 4 KB shared memory, 75% of the warps (registers end first)`."""
    if assembled.failure is not None:
        return f"not compiled: {assembled.failure}"
    facts = []
    if assembled.registers is not None:
        facts.append(f"{assembled.registers} registers")
    if assembled.spills is not None:
        facts.append(f"spills {size(assembled.spills)} a thread" if assembled.spills else "no spills")
    if assembled.shared:
        facts.append(f"{size(assembled.shared)} shared memory")
    filled = assembled.occupancy
    if filled is not None and filled.most:
        limit = "" if filled.warps == filled.most else f" ({filled.limited_by} end first)"
        facts.append(f"{share(filled.warps, filled.most)} of the warps{limit}")
    return ", ".join(facts)


def candidates(found: Sequence[str], most: int = 6) -> str:
    """`one, another and 19 more`: what a GPU would time against each other."""
    shown = ", ".join(found[:most])
    return f"{shown} and {len(found) - most} more" if len(found) > most else shown


def share(part: float, whole: float) -> str:
    """`18%`, `<1%`."""
    if whole <= 0:
        return "0%"
    percent = 100 * part / whole
    return "<1%" if 0 < percent < 1 else f"{percent:.0f}%"


def line_ranges(places: Iterable[Place], beside: Place) -> str:
    """`lines 12-14, 19` of the same file, `other.py:7` elsewhere; empty for none."""
    text = line_numbers({place.line for place in places if place.path == beside.path})
    others = sorted(
        {f"{place.path.rpartition('/')[2]}:{place.line}" for place in places if place.path != beside.path}
    )
    return ", ".join([*([text] if text else []), *others])


def line_numbers(lines: Iterable[int]) -> str:
    """`line 3`, `lines 12-14, 19`; empty for none."""
    own = sorted(set(lines))
    parts: list[str] = []
    start = previous = None
    for number in [*own, None]:
        if start is not None and previous is not None and number != previous + 1:
            parts.append(str(start) if start == previous else f"{start}-{previous}")
            start = None
        if number is not None and start is None:
            start = number
        previous = number
    return f"line{'s' if len(own) > 1 else ''} {', '.join(parts)}" if own else ""


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}".removesuffix(".0")  # noqa: PLR2004 - three digits


def compiled_again(report: Report) -> int:
    """Count the graphs that are versions of one compiled before: no single call runs all of them."""
    # A compile id is `frame/version`, and `_attempt` behind that.
    ids = {graph.compile_id for graph in report.generated}
    return sum(one.partition("/")[2].partition("_")[0] not in {"", "0"} for one in ids)

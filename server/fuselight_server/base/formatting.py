"""Numbers, counts and lists as text: the same in the editor, on the page and in the terminal.

Invariant: an estimate carries `~`; a measured time never does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `--help` needs no finding
    from fuselight_server.base.finding import SourceLine

_ASCII = {
    "µ": "u",
    "±": "+-",
    "×": "x",
    "–": "-",
    "—": "-",
    "…": "...",
    "→": "->",
    "≥": ">=",
    "█": "#",
    "▓": "%",
    "·": ".",
}
_BYTES = ("B", "KB", "MB", "GB", "TB")
_FLOPS = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP")
_TIMES = ("µs", "ms", "s")
_KILO = 1000


def format_time(us: float) -> str:
    """`38.4 µs`, `4.1 ms`, `12 s`, `<0.01 µs`: a measured time in microseconds, three digits."""
    return "<0.01 µs" if 0 < us < 0.01 else _scaled(us, _TIMES, digits=3)  # noqa: PLR2004 - would be 0


def format_time_range(low: float, high: float) -> str:
    """`4.3–7.7 ms`, `900 µs–1.2 ms`: the least and the largest measured time, in microseconds, two digits."""
    least, most = (_scaled(us, _TIMES, digits=2) for us in (low, high))
    number, unit = least.split()
    return f"{number}–{most}" if most.endswith(f" {unit}") else f"{least}–{most}"


def format_estimate(us: float) -> str:
    """`~41 µs`, `~0.7 µs`, `~1.2 ms`, `<0.1 µs`: an estimated time in microseconds."""
    return "<0.1 µs" if 0 < us < 0.05 else f"~{_scaled(us, _TIMES, digits=2)}"  # noqa: PLR2004 - would be 0


def format_size(count: float) -> str:
    """`12.6 MB`: bytes in powers of 1000."""
    return _scaled(count, _BYTES, digits=2)


def format_flops(count: float) -> str:
    """`4.9 GFLOP`."""
    return _scaled(count, _FLOPS, digits=2)


def format_spread(part: float) -> str:
    """`± 1%`, `± <1%`, `± >100%`: half the interquartile range, as a part of the median."""
    if part > 1:  # wider than the time itself: a number would say no more
        return "± >100%"
    return "± <1%" if part < 0.005 else f"± {100 * part:.0f}%"  # noqa: PLR2004 - rounds to 0


def format_ratio(factor: float) -> str:
    """`2.5×`, `0.87×`, `0.0039×`, `1,259×`."""
    if factor < 0.1:  # noqa: PLR2004 - one decimal would be 0.0
        return f"{factor:.2g}×"
    if factor >= 100:  # noqa: PLR2004 - three digits
        return f"{factor:,.0f}×"
    return f"{factor:.1f}×" if factor >= 1.95 else f"{factor:.2f}×"  # noqa: PLR2004 - rounds to 2.0


def format_change(part: float) -> str:
    """`+12%`, `-3.4%`: a change as a part of the earlier value."""
    percent = 100 * part
    return f"{percent:+,.0f}%" if abs(percent) >= 10 else f"{percent:+.1f}%"  # noqa: PLR2004 - two digits


def format_percent(part: float, whole: float = 1.0) -> str:
    """`17%`, `<1%`, `0%`."""
    percent = 100 * part / whole if whole > 0 else 0.0
    return "<1%" if 0 < percent < 1 else f"{percent:.0f}%"


def format_number(value: float) -> str:
    """`3`, `2.5`, `1,234`: one decimal where it is not 0."""
    return f"{value:,.1f}".removesuffix(".0")


def format_count(number: float, noun: str, plural: str = "") -> str:
    """`1 kernel`, `2,048 kernels`, `2.5 kernels`."""
    shown = format_number(number)
    return f"{shown} {noun if shown == '1' else plural or f'{noun}s'}"


def format_list(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    words = list(items)
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def cut_list(items: Iterable[str], most: int) -> list[str]:
    """The first items, and `3 more` for the rest."""
    every = list(items)
    return [*every[:most], f"{len(every) - most:,} more"] if len(every) > most else every


def format_first(items: Sequence[str], most: int) -> str:
    """`a, b`, `a, b and 3 more`: the first items, and how many there are besides them."""
    rest = len(items) - most
    return ", ".join(items[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def format_lines(lines: Iterable[int]) -> str:
    """`line 3`, `lines 12-14, 19`; empty for none."""
    numbers = sorted(set(lines))
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    shown = ", ".join("-".join(map(str, ends)) for ends in ranges)
    return f"line{'s' if len(numbers) > 1 else ''} {shown}" if numbers else ""


def format_line_ranges(lines: Iterable[SourceLine], reference: SourceLine) -> str:
    """`lines 12-14, 19` for the file of `reference`, `other.py:7` for other files; empty for none."""
    lines = list(lines)
    same_file = format_lines(line.line for line in lines if line.path == reference.path)
    elsewhere = {
        f"{line.path.rpartition('/')[2]}:{line.line}" for line in lines if line.path != reference.path
    }
    return ", ".join([*([same_file] if same_file else []), *sorted(elsewhere)])


def format_target(name: str) -> str:
    """The name of a target as a reader says it: `step in main` for `main.<locals>.step`, `__main__` for none."""
    return " in ".join(reversed(name.split(".<locals>."))) or "__main__"


def format_place(path: str, line: int) -> str:
    """`model.py:12`."""
    return f"{os.path.basename(path)}:{line}"  # noqa: PTH119 - paths stay text


def format_moment(iso: str) -> str:
    """`2026-01-31 13:00`: a moment in ISO 8601 as local time; other text as it is."""
    try:
        return datetime.fromisoformat(iso.replace("Z", "+00:00")).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return iso


def fit_encoding(text: str, encoding: str) -> str:
    """`text` as a terminal of `encoding` can show it: `us`, `+-` and `x` where it has no `µ`, `±` and `×`."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_fit(character, encoding) for character in text)
    except LookupError:
        return fit_encoding(text, "ascii")
    return text


def _fit(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return _ASCII.get(character) or character.encode(encoding, "backslashreplace").decode(encoding)
    return character


def _scaled(value: float, units: tuple[str, ...], *, digits: int) -> str:
    unit = 0
    while unit + 1 < len(units) and abs(value) >= _KILO - 0.5:  # 999.6 µs are 1 ms
        value, unit = value / _KILO, unit + 1
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else digits - 1  # noqa: PLR2004 - digits
    shown = f"{value:,.{decimals}f}"
    return f"{shown.rstrip('0').rstrip('.') if decimals else shown} {units[unit]}"

"""How measured times are written: the same words in the editor, on the page and in the terminal.

Invariant: a measured time carries no `~`, which marks estimates; where its spread is known, that stands beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.report import Clock, Work

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.report import Failure, Machine

_KILO = 1000.0
_THREE_DIGITS = 100

WORK = {
    Work.INFERENCE: "inference",
    Work.FORWARD_BACKWARD: "forward and backward",
    Work.TRAINING_STEP: "training step",
}


CLOCK = {Clock.WALL: "the host's clock", Clock.DEVICE: "the device's clock"}


def time(us: float) -> str:
    """`38.4 us`, `4.1 ms`, `12 s`, `<0.01 us`: what was measured, given in microseconds."""
    if 0 < us < 0.01:  # noqa: PLR2004 - what would be 0
        return "<0.01 us"
    value, unit = us, "us"
    for following in ("ms", "s"):
        if round(abs(value)) < _KILO:  # 999.6 us are 1 ms
            break
        value, unit = value / _KILO, following
    return f"{digits(value)} {unit}"


def spread(part: float) -> str:
    """`+- 1%`, `+- <1%`, `+- >100%`: half of what lies between the quartiles, as a part of the median."""
    percent = 100 * part
    if percent > 100:  # noqa: PLR2004 - as wide as the time itself: a number would say no more
        return "+- >100%"
    return "+- <1%" if percent < 0.5 else f"+- {percent:.0f}%"  # noqa: PLR2004 - what rounds to 0


def failed(failure: Failure) -> str:
    """`it has no inputs. Write a directive above it`: what happened, and what to do."""
    message, step = failure.message.rstrip("."), failure.next_step
    return ". ".join(part for part in (message, step[:1].upper() + step[1:]) if part)


def times(factor: float) -> str:
    """`3.0x`, `0.87x`, `0.0039x`, `259x`: how often as fast."""
    if factor < 0.1:  # noqa: PLR2004 - what would be 0.0
        return f"{factor:.2g}x"
    if factor >= _THREE_DIGITS:
        return f"{factor:,.0f}x"
    return f"{factor:.1f}x" if factor >= 1.95 else f"{factor:.2f}x"  # noqa: PLR2004 - what rounds to 2.0


def changed(part: float) -> str:
    """`+12%`, `-3.4%`: the change of a time."""
    percent = 100 * part
    return f"{percent:+.0f}%" if abs(percent) >= 10 else f"{percent:+.1f}%"  # noqa: PLR2004 - two digits


def percent(part: float) -> str:
    """`17%`, `<1%`: a part of a whole."""
    return "<1%" if 0 < part < 0.01 else f"{100 * part:.0f}%"  # noqa: PLR2004 - what rounds to less than one


def counted(number: float, noun: str, plural: str = "") -> str:
    """`1 kernel`, `2 kernels`; a mean over calls keeps a digit."""
    shown = f"{number:.0f}" if abs(number - round(number)) < 0.05 else f"{number:.1f}"  # noqa: PLR2004 - one digit
    return f"{shown} {noun if shown == '1' else plural or f'{noun}s'}"


def listed(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    words = list(items)
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def device(machine: Machine) -> str:
    """`NVIDIA H200`, `NVIDIA H200 (1)` where it is not the first one; a question mark is a name that is not known."""
    plain = machine.device.replace("(R)", "").replace("(TM)", "")
    name = plain if plain not in ("", "?") else "a device without a name"
    return f"{name} ({machine.index})" if machine.index else name


def digits(value: float) -> str:
    """Three digits at most, none of them a 0 behind the point."""
    if abs(value) >= _THREE_DIGITS:
        return f"{value:.0f}"
    return f"{value:.{1 if abs(value) >= 10 else 2}f}".rstrip("0").rstrip(".")  # noqa: PLR2004 - three digits

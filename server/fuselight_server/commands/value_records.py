"""Two recordings of compiled calls (`fuselight run --record`), compared: which value and which line differ first.

Invariant: runs are compared by the name of a function, the number of its call, and the place in the source; what only
one of them has is counted and never called different.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.report import CallValues, LineSums, RecordedValue, Shadow
from fuselight.shared.shadow_files import read_recording
from fuselight_server.base.command_error import CommandError

_NEAR = {"torch.float16": 2e-2, "torch.bfloat16": 1e-1, "torch.float64": 1e-6}
"""By dtype, the part of a value's size by which statistics may differ."""
_NEAR_DEFAULT = 1e-3


class Likeness(enum.Enum):
    """How a value of one run is like that of the other."""

    SAME = "same"
    """Bit for bit."""
    NEAR = "near"
    """Its statistics are equal but for rounding."""
    DIFFERENT = "different"


@dataclass(frozen=True)
class ValuePair:
    """One result of a call in both runs."""

    ours: RecordedValue
    base: RecordedValue
    likeness: Likeness


@dataclass(frozen=True)
class DifferingLine:
    """The first line whose value in eager mode differs between the runs."""

    ours: LineSums
    base: LineSums


@dataclass(frozen=True)
class CallPair:
    """One call that both runs have recorded."""

    rank: int | None
    name: str
    step: int
    values: tuple[ValuePair, ...]
    first_line: DifferingLine | None
    lines: int
    """Operators at the same place in both."""
    only_in_one: int
    """Results and operators that one of the runs lacks."""

    @property
    def differs(self) -> bool:
        """Whether a result differs by more than rounding."""
        return any(pair.likeness is Likeness.DIFFERENT for pair in self.values)


@dataclass(frozen=True)
class RecordingComparison:
    """Two recordings next to each other."""

    ours: str
    """`torch 2.13.0 on cpu`."""
    base: str
    calls: tuple[CallPair, ...]
    only_in_one: int
    """Calls that one of the two has recorded."""

    @property
    def exit_code(self) -> int:
        """0: no result differs by more than rounding; 1: one does; 2: the two have no call in common."""
        return int(any(call.differs for call in self.calls)) if self.calls else 2


def compare_recordings(ours: Path, base: Path) -> RecordingComparison:
    """Compare two files. Raises CommandError if one cannot be read."""
    runs = _calls_of(_read(ours)), _calls_of(_read(base))
    known = [key for key in runs[0] if key in runs[1]]
    calls = tuple(_pair(key[0], runs[0][key], runs[1][key]) for key in known)
    only = sum(len(run) - len(known) for run in runs)
    return RecordingComparison(_about(_read(ours)), _about(_read(base)), calls, only)


def _read(path: Path) -> tuple[Shadow, ...]:
    try:
        return read_recording(str(path))
    except (OSError, ValueError) as error:
        raise CommandError(
            f"`{path}` is not a recording: {error}. Make it with `fuselight run --accuracy --record FILE`."
        ) from None


def _about(shadows: Sequence[Shadow]) -> str:
    return ", ".join(dict.fromkeys(f"torch {shadow.torch} on {shadow.device}" for shadow in shadows))


def _calls_of(shadows: Sequence[Shadow]) -> dict[tuple[int | None, str, int], CallValues]:
    """Recorded calls by rank, name and step; of processes without a rank, those of the first one."""
    calls: dict[tuple[int | None, str, int], CallValues] = {}
    for shadow in shadows:
        for call in shadow.recorded:
            calls.setdefault((shadow.rank, call.name, call.step), call)
    return calls


def _pair(rank: int | None, ours: CallValues, base: CallValues) -> CallPair:
    there = {value.what: value for value in base.values}
    values = tuple(
        ValuePair(value, there[value.what], _likeness(value, there[value.what]))
        for value in ours.values
        if value.what in there
    )
    places = {(line.path, line.line, line.time): line for line in base.lines}
    pairs = [
        DifferingLine(line, places[line.path, line.line, line.time])
        for line in ours.lines
        if (line.path, line.line, line.time) in places
    ]
    near = max(map(_tolerance, ours.values), default=_NEAR_DEFAULT)
    first = next((pair for pair in pairs if not _are_near(pair.ours.sums, pair.base.sums, near)), None)
    lacking = len(ours.values) + len(base.values) - 2 * len(values)
    lacking += len(ours.lines) + len(base.lines) - 2 * len(pairs)
    return CallPair(rank, ours.name, ours.step, values, first, len(pairs), lacking)


def _tolerance(value: RecordedValue) -> float:
    return _NEAR.get(value.dtype, _NEAR_DEFAULT)


def _likeness(ours: RecordedValue, base: RecordedValue) -> Likeness:
    if (ours.dtype, ours.shape, ours.checksum) == (base.dtype, base.shape, base.checksum):
        return Likeness.SAME
    if ours.shape != base.shape or ours.non_finite != base.non_finite:
        return Likeness.DIFFERENT
    near = max(_tolerance(ours), _tolerance(base))  # the two may run in different dtypes
    if not all(math.isfinite(size) for size in (ours.size, base.size)):
        return Likeness.NEAR if math.isnan(ours.size) and math.isnan(base.size) else Likeness.DIFFERENT
    allowed = near * max(ours.size, base.size)
    is_near = all(
        abs(mine - theirs) <= allowed
        for mine, theirs in (
            (ours.mean, base.mean),
            (ours.size, base.size),
            (ours.smallest, base.smallest),
            (ours.largest, base.largest),
        )
    )
    return Likeness.NEAR if is_near else Likeness.DIFFERENT


def _are_near(sums: tuple[float, ...], others: tuple[float, ...], near: float) -> bool:
    return len(sums) == len(others) and all(_numbers_are_near(sums, others, near))


def _numbers_are_near(sums: tuple[float, ...], others: tuple[float, ...], near: float) -> Iterator[bool]:
    for number, other in zip(sums, others, strict=True):
        if math.isnan(number) or math.isnan(other):
            yield math.isnan(number) and math.isnan(other)
        else:
            yield number == other or abs(number - other) <= near * max(abs(number), abs(other))

"""The table of searches over models: what each found, against `default` and against torch's own modes.

Invariant: pure: of lines of `benchmarks.tune_models` to text. What was not measured is a dash, and counts for no mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuselight.codec import decode
from fuselight.configurations import EAGER, MODES
from fuselight.report import MeasuredConfiguration, Tuned
from fuselight.tune.modes import AUTOTUNING_MODES

GAIN, OVER_MODES = 1.20, 1.05
"""What the geometric means are to reach: over `default`, and over the fastest of torch's modes."""
_DEFAULT, *_OTHERS = MODES
_MAX_AUTOTUNE = "max-autotune"


@dataclass(frozen=True)
class TunedRow:
    """One model."""

    model: str
    half: str
    work: str
    rows: int
    us: Mapping[str, float] = field(default_factory=dict)
    """Microseconds of a call by configuration: eager, the modes that were measured with accurate results, `tuned`."""
    winner: str = ""
    gain: float | None = None
    """Over `default`, by the confirming race; 1 where `default` is the fastest."""
    interval: tuple[float, float] | None = None
    seconds: float | None = None
    """Of the search, compiles included."""
    first_seconds: Mapping[str, float] = field(default_factory=dict)
    """Duration of the first call by mode: its compile, with empty caches."""
    accuracy: str = ""
    replay: float | None = None
    """Time of a call in a fresh process that replays the result, divided by the tuned time (benchmarks.replay)."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why a mode was not measured, or is not counted."""
    failure: str = ""
    made: Mapping[str, str] = field(default_factory=dict)

    @property
    def best_mode(self) -> float | None:
        """The fastest of torch's four modes, if others than `default` were measured."""
        measured = [self.us[mode] for mode in MODES if mode in self.us]
        return min(measured) if len(measured) > 1 else None

    @property
    def has_autotuning(self) -> bool:
        """Whether one of the modes that autotune was measured."""
        return any(mode in self.us for mode in AUTOTUNING_MODES)

    @property
    def over_modes(self) -> float | None:
        """The speed-up over the fastest of torch's modes, as measured in the same race."""
        tuned, best = self.us.get("tuned"), self.best_mode
        return best / tuned if tuned and best else None


def read_row(line: Mapping[str, Any]) -> TunedRow:
    """A row of one line of JSON."""
    row = TunedRow(
        line["model"], line["half"], line["work"], line["rows"], failure=line.get("failure", ""),
        made=line.get("made", {}), replay=line.get("replay"),
    )  # fmt: skip
    if "tuned" not in line:
        return row
    tuned = decode(Tuned, line["tuned"])
    known = {one.configuration.name: one.configuration for one in tuned.candidates}
    raced = _of_last_race(tuned)
    us = {name: us for name in (EAGER, *MODES) if (us := _us(known.get(name), raced)) is not None}
    failures = {name: why for name in MODES if (why := _why_not(known.get(name)))}
    winner = known.get(tuned.winner)
    decided = tuned.confirmation if tuned.winner != _DEFAULT else None
    if (tuned_us := _us(winner, raced)) is not None:
        us["tuned"] = tuned_us
    first = {name: known[name].first_us for name in MODES if name in known}
    return TunedRow(
        row.model, row.half, row.work, row.rows, us,
        winner="" if row.failure else tuned.winner,
        gain=decided.gain if decided is not None else 1.0 if _DEFAULT in us else None,
        interval=(decided.low, decided.high) if decided is not None else None,
        seconds=tuned.seconds,
        first_seconds={name: us / 1e6 for name, us in first.items() if us is not None},
        accuracy=_accuracy(winner),
        failures=failures,
        failure=row.failure,
        made=row.made,
        replay=row.replay,
    )  # fmt: skip


def _of_last_race(tuned: Tuned) -> dict[str, float]:
    """The lower quartile of each configuration's rounds in the last race, if torch's modes took part in it.

    As in the races of a search: what disturbs a round of a machine that others use only makes it longer.
    """
    last = max((one.stage for one in tuned.race), default=0)
    rounds: dict[str, list[float]] = {}
    for one in tuned.race:
        if one.stage == last:
            rounds.setdefault(one.name, []).append(one.us)
    others = set(rounds) & set(_OTHERS)
    return {name: sorted(times)[(len(times) - 1) // 4] for name, times in rounds.items()} if others else {}


def _us(row: MeasuredConfiguration | None, raced: Mapping[str, float]) -> float | None:
    """Time of a call, unless its results are wrong."""
    timing = (row.device or row.wall) if row is not None else None
    if row is None or timing is None or (row.accuracy is not None and row.accuracy.passed is False):
        return None
    return raced.get(row.name, timing.low_us)


def _why_not(row: MeasuredConfiguration | None) -> str:
    if row is None:
        return ""
    if row.failure is not None:
        return row.failure.message.splitlines()[0]
    if row.accuracy is not None and row.accuracy.passed is False:
        return f"inaccurate: {row.accuracy.why}"
    return ""


def _accuracy(row: MeasuredConfiguration | None) -> str:
    if row is None or row.accuracy is None:
        return "-"
    if row.accuracy.passed is None:
        return "not compared"
    return f"{'passed' if row.accuracy.passed else 'failed'} against {row.accuracy.against or 'eager'}"


def summary(row: TunedRow) -> str:
    """One line about a model."""
    return f"{row.winner}, {_ratio(row.gain)} over default in {_number(row.seconds)} s"


def page(rows: Sequence[TunedRow], models: Iterable[str] = ()) -> str:
    """The table, the means, and each miss. `models`: those that are to be searched; without a row they are listed."""
    ordered = sorted(rows, key=lambda row: row.half != "building")
    head = (
        "| model | half | work | rows | device | eager | default | "
        + " | ".join(_OTHERS)
        + " | tuned | over default (95%) | "
        "over the best mode | search, s | max-autotune compile, s | accuracy | replay | configuration |"
    )
    lines = [head, "|" + "---|" * head.count(" |"), *map(_line, ordered)]
    text = "\n".join(lines)
    notes = [f"- {row.model}: {name}: {why}" for row in ordered for name, why in row.failures.items()]
    notes += [f"- {row.model}: {row.failure}" for row in ordered if row.failure]
    known = {row.model for row in rows}
    if missing := [name for name in models if name not in known]:
        notes.append(f"- no search was run yet: {', '.join(missing)}")
    means = "\n".join(f"- {line}" for line in _means(ordered))
    made = "\n".join(f"- {key}: {value}" for key, value in _made(ordered).items())
    missed = ("\n\n## Not measured\n\n" + "\n".join(notes)) if notes else ""
    return (
        "# Searches for the fastest configuration\n\n"
        "Times are microseconds of one call: the lower quartile of interleaved rounds, because what disturbs a round\n"
        "only makes it longer. A dash is what was not measured. [tuning.md](../tuning.md) describes the search.\n\n"
        f"{means}\n\n{text}{missed}\n\n## Machine\n\n{made}\n"
    )


def _line(row: TunedRow) -> str:
    low, high = row.interval or (None, None)
    gain = _ratio(row.gain) + (f" ({_number(low, 2)} to {_number(high, 2)})" if low and high else "")
    cells = [
        row.model, row.half, row.work.replace("_", " "), str(row.rows),
        row.made.get("device", "-").removeprefix("NVIDIA "),
        *(_number(row.us.get(name)) for name in (EAGER, *MODES, "tuned")),
        gain, _ratio(row.over_modes), _number(row.seconds), _number(row.first_seconds.get(_MAX_AUTOTUNE)),
        row.accuracy or "-", _ratio(row.replay), f"`{row.winner}`" if row.winner else "-",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _means(rows: Sequence[TunedRow]) -> Iterable[str]:
    for half in ("building", "held out", ""):
        chosen = [row for row in rows if half in ("", row.half)]
        gains = [row.gain for row in chosen if row.gain is not None]
        over = {
            "the best of torch's modes": [row for row in chosen if row.has_autotuning],
            "`default` and `reduce-overhead`, where no mode that autotunes was measured": [
                row for row in chosen if not row.has_autotuning
            ],
        }
        if not gains:
            continue
        name = half or "all"
        yield f"{name}: {_ratio(_mean(gains))} over `default` (goal {GAIN:.2f}×), models: {len(gains)}"
        for what, among in over.items():
            ratios = [row.over_modes for row in among if row.over_modes is not None]
            if ratios:
                goal = f" (goal {OVER_MODES:.2f}×)" if among[0].has_autotuning else ""
                yield f"{name}: {_ratio(_mean(ratios))} over {what}{goal}, models: {len(ratios)}"
    slower = [row.model for row in rows if row.gain is not None and row.gain < 1]
    yield f"slower than `default`: {', '.join(slower) or 'none'}"
    timed = [
        row for row in rows if row.seconds is not None and row.first_seconds.get(_MAX_AUTOTUNE) is not None
    ]
    longer = [row.model for row in timed if (row.seconds or 0) > row.first_seconds[_MAX_AUTOTUNE]]
    if timed:
        yield f"searches that took longer than one `max-autotune` compile: {', '.join(longer) or 'none'}"


def _mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _made(rows: Sequence[TunedRow]) -> dict[str, str]:
    """What the rows were measured with, each difference once."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for key, value in row.made.items():
            found.setdefault(key, {})[f"`{value}`" if key == "command" else value] = None
    return {key: ", ".join(values) for key, values in found.items()}


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}×"

"""The table of searches over models: what each found, against `default` and against torch's own modes.

Invariant: pure: of lines of `benchmarks.studies.tune_models` to text. What was not measured is a dash, and counts for no mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.studies.replay import LATER_FAILURES, REPLAY, SAME
from fuselight.shared.codec import decode
from fuselight.shared.configurations import EAGER, MODES
from fuselight.shared.report import MeasuredConfiguration, Tuned

GAIN, OVER_MODES = 1.20, 1.05
"""What the geometric means are to reach: over `default`, and over the fastest of torch's modes."""
_DEFAULT, *_OTHERS = MODES
_MAX_AUTOTUNE = "max-autotune"
WITHIN, COLD = 1.02, 1.1
"""What replays are to reach: of the time that was tuned, and of the cold start with the same options."""


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
    replayed: Mapping[str, Any] = field(default_factory=dict)
    """The row of benchmarks.studies.replay, empty if there is none: plain programs, of which one replays the result. `us` then
    has the times of these programs, in which nothing of the search is left."""
    alone: Mapping[str, Any] = field(default_factory=dict)
    """One compile with max-autotune and nothing beside it: microseconds of a call, seconds of its first call (`first`)
    and of its process until then (`seconds`); empty if there is none."""
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
    def over_modes(self) -> float | None:
        """The speed-up over the fastest of torch's modes, as measured in the same race."""
        tuned, best = self.us.get("tuned"), self.best_mode
        return best / tuned if tuned and best else None


def read_row(line: Mapping[str, Any]) -> TunedRow:
    """A row of one line of JSON."""
    row = TunedRow(
        line["model"], line["half"], line["work"], line["rows"], failure=line.get("failure", ""),
        made=line.get("made", {}), replayed=line.get("replayed", {}),
        alone=line.get("alone", {}),
    )  # fmt: skip
    if "tuned" not in line:
        return row
    tuned = decode(Tuned, line["tuned"])
    known = {candidate.configuration.name: candidate.configuration for candidate in tuned.candidates}
    raced = _of_last_race(tuned)
    us = {name: us for name in (EAGER, *MODES) if (us := _us(known.get(name), raced)) is not None}
    failures = {name: why for name in MODES if (why := _why_not(known.get(name)))}
    winner = known.get(tuned.winner)
    decided = tuned.confirmation if tuned.winner != _DEFAULT else None
    if (tuned_us := _us(winner, raced)) is not None:
        us["tuned"] = tuned_us
    first = {name: known[name].first_us for name in MODES if name in known}
    first_seconds = {name: us / 1e6 for name, us in first.items() if us is not None}
    if row.replayed:
        of_programs = _of_programs(row.replayed)
        us = {**({EAGER: us[EAGER]} if EAGER in us else {}), **of_programs}
        first_seconds = {
            name: row.replayed[name]["first"] for name in MODES if "first" in row.replayed.get(name, {})
        }
        failures |= {
            name: row.replayed[name]["failure"] for name in MODES if "failure" in row.replayed.get(name, {})
        }
    if "first" in row.alone:  # else it was not ready in time
        first_seconds[_MAX_AUTOTUNE] = row.alone["first"]
    return TunedRow(
        row.model, row.half, row.work, row.rows, us,
        winner="" if row.failure else tuned.winner,
        gain=decided.gain if decided is not None else 1.0 if _DEFAULT in us else None,
        interval=(decided.low, decided.high) if decided is not None else None,
        seconds=tuned.seconds,
        first_seconds=first_seconds,
        accuracy=_accuracy(winner),
        failures=failures,
        failure=row.failure,
        made=row.made,
        replayed=row.replayed,
        alone=row.alone,
    )  # fmt: skip


def _of_programs(replayed: Mapping[str, Any]) -> dict[str, float]:
    """The times of the programs of a replay: torch's modes with right results, and the replay as `tuned`."""
    timed = {
        name: replayed[name] for name in (*MODES, REPLAY) if replayed.get(name, {}).get("us") is not None
    }
    is_comparable = _is_comparable(replayed)
    right = {name: value["us"] for name, value in timed.items() if value.get("close") or not is_comparable}
    return {"tuned" if name == REPLAY else name: us for name, us in right.items()}


def _is_comparable(replayed: Mapping[str, Any]) -> bool:
    """Whether `default` gives what eager mode gives: a model with random numbers does not."""
    return replayed.get(_DEFAULT, {}).get("close") is not False


def _of_last_race(tuned: Tuned) -> dict[str, float]:
    """The lower quartile of each configuration's rounds in the last race, if torch's modes took part in it.

    As in the races of a search: what disturbs a round of a machine that others use only makes it longer.
    """
    last = max((race_sample.stage for race_sample in tuned.race), default=0)
    rounds: dict[str, list[float]] = {}
    for sample in tuned.race:
        if sample.stage == last:
            rounds.setdefault(sample.name, []).append(sample.us)
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
        "over the best mode | search, s | max-autotune compile, s | accuracy | configuration |"
    )
    lines = [head, "|" + "---|" * head.count(" |"), *map(_line, ordered)]
    text = "\n".join(lines)
    notes = [f"- {row.model}: {name}: {why}" for row in ordered for name, why in row.failures.items()]
    notes += [f"- {row.model}: {row.failure}" for row in ordered if row.failure]
    known = {row.model for row in rows}
    if missing := [name for name in models if name not in known]:
        notes.append(f"- no search was run yet: {', '.join(missing)}")
    means = "\n".join(f"- {line}" for line in _means(ordered))
    content = "\n".join(f"- {key}: {value}" for key, value in _provenance(ordered).items())
    replays = _replays([row for row in ordered if row.replayed])
    missed = ("\n\n## Not measured\n\n" + "\n".join(notes)) if notes else ""
    return (
        "# Searches for the fastest configuration\n\n"
        "Times are microseconds of one call: the lower quartile of interleaved rounds, because what disturbs a round\n"
        "only makes it longer. Where a model was replayed (the section Replays), torch's modes and the tuned\n"
        'configuration are programs in fresh processes, and the last replays the result with `backend="fuselight"`;\n'
        "elsewhere they are processes of the search. A dash is what was not measured.\n"
        "[tuning.md](../tuning.md) describes the search.\n\n"
        f"{means}\n\n{text}{missed}{replays}\n\n## Machine\n\n{content}\n"
    )


def _replays(rows: Sequence[TunedRow]) -> str:
    """The section about programs that replay results; empty if none was run."""
    if not rows:
        return ""
    head = (
        "| model | replay, µs | over the tuned time | over the same options | cold start over the same options "
        "| kernels timed at start: same options, replay | results |"
    )
    lines = [head, "|" + "---|" * head.count(" |"), *map(_replay_line, rows)]
    over = [row.replayed["replayed_over_tuned"] for row in rows if row.replayed.get("replayed_over_tuned")]
    same = [
        row.replayed["replayed_over_same_options"]
        for row in rows
        if row.replayed.get("replayed_over_same_options")
    ]
    starts = [
        row.replayed["cold_start_over_same_options"]
        for row in rows
        if row.replayed.get("cold_start_over_same_options")
    ]
    timed = [row.model for row in rows if row.replayed.get(REPLAY, {}).get("timed") != 0]
    near, near_same = (sum(ratio <= WITHIN for ratio in ratios) for ratios in (over, same))
    notes = [
        f"within 2% of the tuned time, or faster: {near} of {len(rows)}",
        f"within 2% of the same options in the same rounds, or faster: {near_same} of {len(same)}",
        f"longest cold start: {_ratio(max(starts, default=None))} of that with the same options (goal {COLD:.1f}×)",
        f"replays that timed a kernel at start: {', '.join(timed) or 'none'}",
    ]
    return "\n\n## Replays\n\n" + "\n".join(f"- {note}" for note in notes) + "\n\n" + "\n".join(lines)


def _replay_line(row: TunedRow) -> str:
    replayed = row.replayed
    replay, same = replayed.get(REPLAY, {}), replayed.get(SAME, {})
    results = "right" if replay.get("close") else "wrong"
    results = results if _is_comparable(replayed) else "not comparable"
    failures, warnings = len(replay.get(LATER_FAILURES, ())), len(replay.get("warnings", ()))
    results += f", {failures} failed with warm caches" * bool(failures) + f", {warnings} warnings" * bool(
        warnings
    )
    cells = [
        row.model, _number(replay.get("us")), _ratio(replayed.get("replayed_over_tuned"), 3),
        _ratio(replayed.get("replayed_over_same_options"), 3), _ratio(replayed.get("cold_start_over_same_options")),
        f"{same.get('timed', '-')}, {replay.get('timed', '-')}",
        replay.get("failure") or results,
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _line(row: TunedRow) -> str:
    low, high = row.interval or (None, None)
    gain = _ratio(row.gain) + (f" ({_number(low, 2)} to {_number(high, 2)})" if low and high else "")
    cells = [
        row.model, row.half, row.work.replace("_", " "), str(row.rows),
        row.made.get("device", "-").removeprefix("NVIDIA "),
        *(_number(row.us.get(name)) for name in (EAGER, *MODES, "tuned")),
        gain, _ratio(row.over_modes), _number(row.seconds), _number(row.first_seconds.get(_MAX_AUTOTUNE)),
        row.accuracy or "-", f"`{row.winner}`" if row.winner else "-",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _means(rows: Sequence[TunedRow]) -> Iterable[str]:
    for half in ("building", "held out", ""):
        chosen = [row for row in rows if half in ("", row.half)]
        gains = [row.gain for row in chosen if row.gain is not None]
        over = {
            "the fastest of torch's modes that was measured": chosen,
            f"the fastest of torch's modes (goal {OVER_MODES:.2f}×), where `{_MAX_AUTOTUNE}` was measured": [
                row for row in chosen if _MAX_AUTOTUNE in row.us
            ],
        }
        if not gains:
            continue
        name = half or "all"
        yield f"{name}: {_ratio(_mean(gains))} over `default` (goal {GAIN:.2f}×), models: {len(gains)}"
        for what, among in over.items():
            ratios = [row.over_modes for row in among if row.over_modes is not None]
            if ratios:
                yield f"{name}: {_ratio(_mean(ratios), 3)} over {what}, models: {len(ratios)}"
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


def _provenance(rows: Sequence[TunedRow]) -> dict[str, str]:
    """What the rows were measured with, each difference once."""
    entries: dict[str, dict[str, None]] = {}
    for row in rows:
        for key, value in row.made.items():
            entries.setdefault(key, {})[f"`{value}`" if key == "command" else value] = None
    return {key: ", ".join(values) for key, values in entries.items()}


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _ratio(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}×"

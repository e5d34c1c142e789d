"""Whether a benchmark's numbers hold: against readings that were taken apart, and within themselves.

Invariant: pure: of Reports and plain readings to rows and text. What was not measured is a dash, and keeps no promise.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuselight.shared.report import (
    Clock,
    Kernel,
    LaunchKind,
    Measured,
    MeasuredConfiguration,
    Timing,
)

TIME, KERNEL, JOINED, WHOLE, ESTIMATE, OVERHEAD, COSINE = 0.02, 0.05, 0.99, 0.03, 0.30, 0.20, 0.9999
"""The promises, in the order of the issue's table."""
_LONG_US, _ESTIMATED_US = 10.0, 5.0
"""Kernels shorter than these are not compared with a reading, and with an estimate."""
_APART = 0.25
"""Relative to the smallest: readings that differ by more than this are not compared."""
_WORST = 10


@dataclass(frozen=True)
class Against:
    """One kernel, by the benchmark and by something else: microseconds."""

    model: str
    name: str
    us: float
    others_us: tuple[float, ...]
    """An estimate, or what several processes have read, least first."""
    note: str = ""

    @property
    def other_us(self) -> float:
        """What of their range is nearest."""
        return _nearest(self.us, self.others_us)

    @property
    def error(self) -> float:
        """How far `other_us` is from what the benchmark measured, as a part of that."""
        return abs(self.other_us - self.us) / self.us if self.us else 0.0


@dataclass(frozen=True)
class ModelRow:
    """What became of one model."""

    model: str
    failure: str = ""
    us: float | None = None
    spread: float | None = None
    clock: str = ""
    apart_us: tuple[float, ...] = ()
    """By independent processes, least first."""
    joined: float | None = None
    """Part of the device time."""
    whole: float | None = None
    """Kernels and gaps as a part of the wall time."""
    overhead: float | None = None
    cosine: float | None = None
    kernels: tuple[Against, ...] = ()
    """Against the independent reading, those of more than 10 us a launch."""
    unread: int | None = None
    """Kernels of more than 10 us that no reading has so often, or on which they do not agree; None: no readings."""
    estimates: tuple[Against, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def off(self) -> float | None:
        """How far the time is from what independent processes read: 0 within their range, None if they do not agree."""
        if self.us is None or not _agree(self.apart_us):
            return None
        other = _nearest(self.us, self.apart_us)
        return abs(self.us - other) / other


def _agree(others: Sequence[float]) -> bool:
    return bool(others) and max(others) <= (1 + _APART) * min(others)


def _nearest(us: float, others: Sequence[float]) -> float:
    return min(max(us, others[0]), others[-1])


def row_of(model: str, measured: Measured, name: str, aparts: Sequence[Mapping[str, Any]]) -> ModelRow:
    """The row of one model: its configuration `name`, and what processes of `measured_apart` read."""
    configuration = next(
        (
            measured_configuration
            for measured_configuration in measured.configurations
            if measured_configuration.name == name
        ),
        None,
    )
    if configuration is None or configuration.failure is not None:
        why = (
            configuration.failure.message
            if configuration is not None and configuration.failure is not None
            else "it was not measured"
        )
        return ModelRow(model, failure=why)
    timing = configuration.device or configuration.wall
    profile = configuration.profile
    read, unread = _read(model, configuration, [apart.get("kernels") or {} for apart in aparts])
    gaps = sum(gap.us for gap in profile.gaps) if profile is not None else 0.0
    return ModelRow(
        model,
        us=timing.median_us if timing is not None else None,
        spread=timing.spread if timing is not None else None,
        clock=_clock(timing),
        apart_us=tuple(sorted(apart["us"] for apart in aparts if "us" in apart)),
        joined=profile.joined_us / profile.device_us if profile is not None and profile.device_us else None,
        whole=(profile.kernel_us + gaps) / profile.wall_us
        if profile is not None and profile.wall_us
        else None,
        overhead=_overhead(measured),
        cosine=cosine_of(configuration),
        kernels=read,
        unread=unread,
        estimates=tuple(_estimates(model, configuration)),
        notes=(*measured.machine.notes, *configuration.notes),
    )


def cosine_of(configuration: MeasuredConfiguration) -> float | None:
    """The least similarity of any of its results."""
    tensors = configuration.accuracy.tensors if configuration.accuracy is not None else ()
    known = [tensor.cosine for tensor in tensors if tensor.cosine is not None]
    return min(known, default=None)


def _clock(timing: Timing | None) -> str:
    return "" if timing is None else "device" if timing.clock is Clock.DEVICE else "host"


def _read(
    model: str, configuration: MeasuredConfiguration, readings: Sequence[Mapping[str, Mapping[str, float]]]
) -> tuple[tuple[Against, ...], int | None]:
    """Kernels by name, as the profiler has it: the sum of a call, here and there.

    A library's call that launches several kernels goes by the longest of them: where the counts differ, the two are not
    of the same and are not compared.
    """
    if not any(readings):
        return (), None
    by_name: dict[str, list[float]] = {}
    for launch in configuration.profile.launches if configuration.profile is not None else ():
        if launch.kind is not LaunchKind.COPY:
            total = by_name.setdefault(launch.name, [0.0, 0.0])
            total[0] += launch.us
            total[1] += launch.count
    long = {name: total for name, total in by_name.items() if total[1] and total[0] / total[1] > _LONG_US}
    timed_kernels = []
    for name, (us, count) in long.items():
        same = [
            kernels[name]["us"]
            for kernels in readings
            if name in kernels and round(kernels[name].get("count", count)) == round(count)
        ]
        if _agree(same):
            timed_kernels.append(Against(model, name, us, tuple(sorted(same))))
    return tuple(timed_kernels), len(long) - len(timed_kernels)


def _estimates(model: str, configuration: MeasuredConfiguration) -> Iterable[Against]:
    for launch in configuration.profile.launches if configuration.profile is not None else ():
        kernel = _kernel(configuration, launch.graph, launch.launch)
        if kernel is not None and kernel.estimate_us is not None and launch.us > _ESTIMATED_US:
            note = f"{kernel.kind.value}, bound by {kernel.bound}, {_operators(kernel)}"
            yield Against(model, kernel.name, launch.us, (kernel.estimate_us,), note)


def _kernel(configuration: MeasuredConfiguration, graph: int | None, launch: int | None) -> Kernel | None:
    if graph is None or launch is None or graph >= len(configuration.generated):
        return None
    return next(
        (kernel for kernel in configuration.generated[graph].kernels if kernel.launch == launch), None
    )


def _operators(kernel: Kernel) -> str:
    names = list(
        dict.fromkeys(operator.name.split(".")[1] for operator in kernel.operators if "." in operator.name)
    )
    return " ".join(names[:4]) + (" ..." if len(names) > 4 else "")  # noqa: PLR2004 - a short hint


@dataclass(frozen=True)
class Seed:
    """The experiment with one large model."""

    model: str
    measured: Measured
    command: str = ""

    @property
    def overhead(self) -> float | None:
        """The benchmark's own time, as a part of its compiles and calls."""
        return _overhead(self.measured)

    @property
    def text(self) -> str:
        """Its part of the page."""
        parts = [f"## {_MODELS.get(self.model, self.model)}, in several configurations"]
        if self.command:
            parts.append(f"`{self.command}`")
        parts.append(_table(SEED_HEAD, seed_rows(self.measured)))
        own = _number(self.overhead, "{:.1%}")
        parts.append(f"The benchmark's own time: {own} of its compiles and calls.")
        return "\n\n".join(parts)


def page(entries: Mapping[str, str], rows: Sequence[ModelRow], seed: Seed | None) -> str:
    """The page of results."""
    estimates = [estimate for row in rows for estimate in row.estimates]
    worst = sorted(estimates, key=lambda timed_kernel: -timed_kernel.error)[:_WORST]
    parts = [
        "# The benchmark against independent readings",
        "\n".join(["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in entries.items())]),
        "## Promises\n\n" + _table(("what", "to reach", "reached", "kept"), _promises(rows, estimates, seed)),
        "## Models\n\n" + _table(_HEAD, [_cells(row) for row in rows]),
        "## Kernels of more than 10 us, against the profiler's events read apart\n\n"
        + _table(
            ("model", "kernel", "us", "apart, us", "off by"),
            [
                _against(kernel)
                for row in rows
                for kernel in sorted(row.kernels, key=lambda timed_kernel: -timed_kernel.error)
            ],
        ),
        f"## Estimates: the worst of {len(estimates)} kernels of more than 5 us\n\n"
        + _table(
            ("model", "kernel", "measured, us", "estimate, us", "off by", "what it is"),
            [(*_against(timed_kernel), timed_kernel.note) for timed_kernel in worst],
        ),
        *([seed.text] if seed is not None else []),
        "## Notes\n\n" + _notes(rows),
    ]
    return "\n\n".join(parts) + "\n"


_HEAD = (
    "model", "us", "spread", "clock", "apart, us", "off by", "joined", "kernels + gaps of wall", "kernels compared",
    "worst", "not read apart", "overhead",
)  # fmt: skip
_MODELS = {"resnet50_large": "ResNet-50 on one image, 1x3x1024x1024, float32 with TF32"}
SEED_HEAD = ("configuration", "ms", "spread", "cosine similarity", "as torch's suite judges", "first call, s")


def seed_rows(measured: Measured) -> list[tuple[str, ...]]:
    """The rows of the experiment with one large model: what each configuration takes, and how near it comes."""
    rows: list[tuple[str, ...]] = []
    for configuration in measured.configurations:
        timing = configuration.device or configuration.wall
        rows.append(
            (
                configuration.name,
                "-" if timing is None else f"{timing.median_us / 1e3:.3f}",
                "-" if timing is None else f"{timing.spread:.1%}",
                _number(cosine_of(configuration), "{:.6f}"),
                _judged(configuration),
                "-" if configuration.first_us is None else f"{configuration.first_us / 1e6:.1f}",
            )
        )
    return rows


def _judged(configuration: MeasuredConfiguration) -> str:
    if configuration.failure is not None:
        return configuration.failure.message
    if configuration.accuracy is None or configuration.accuracy.passed is None:
        return "-" if configuration.accuracy is None else configuration.accuracy.why
    return "passed" if configuration.accuracy.passed else configuration.accuracy.why


def _overhead(measured: Measured) -> float | None:
    counted = measured.counted_seconds
    return (measured.seconds - counted) / counted if counted else None


def _promises(
    rows: Sequence[ModelRow], estimates: Sequence[Against], seed: Seed | None
) -> list[tuple[str, ...]]:
    off = [row.off for row in rows]
    kernels = [kernel.error for row in rows for kernel in row.kernels]
    joined, whole = [row.joined for row in rows], [row.whole for row in rows]
    overhead = [row.overhead for row in rows]
    aside = [None if value is None else abs(value - 1) for value in whole]
    compiled = (
        [configuration for configuration in seed.measured.configurations if configuration.name != "eager"]
        if seed
        else []
    )
    cosines = [cosine_of(configuration) for configuration in compiled]
    median = statistics.median(estimate.error for estimate in estimates) if estimates else None
    return [
        _promise("time of a call against an independent one", f"within {TIME:.0%}", _worst(off), TIME),
        _promise(
            "kernels of more than 10 us against another reading", f"within {KERNEL:.0%}", _worst(kernels), KERNEL
        ),
        _promise("device time that is not joined", f"at most {1 - JOINED:.0%}", _worst(_rest(joined)), 1 - JOINED),
        _promise("kernels and gaps against wall", f"within {WHOLE:.0%}", _worst(aside), WHOLE),
        _promise("estimates of kernels of more than 5 us, median error", f"at most {ESTIMATE:.0%}", median, ESTIMATE),
        _promise(
            "results of the large model: 1 - similarity", f"below {1 - COSINE:.4f}", _worst(_rest(cosines)), 1 - COSINE,
        ),
        _promise("overhead of a benchmark: two configurations", f"at most {OVERHEAD:.0%}", _worst(overhead), OVERHEAD),
        _promise(
            "overhead of a benchmark: the large model", f"at most {OVERHEAD:.0%}",
            seed.overhead if seed is not None else None, OVERHEAD,
        ),
    ]  # fmt: skip


def _rest(parts: Iterable[float | None]) -> list[float | None]:
    return [None if part is None else 1 - part for part in parts]


def _worst(values: Sequence[float | None]) -> float | None:
    """The largest; None where there is none, or one is missing."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _promise(what: str, reach: str, value: float | None, most: float) -> tuple[str, ...]:
    kept = "not measured" if value is None else "yes" if value <= most + 1e-12 else "**no**"
    return what, reach, _number(value, "{:.3%}"), kept


def _cells(row: ModelRow) -> tuple[str, ...]:
    if row.failure:
        return row.model, f"failed: {row.failure}", *["-"] * (len(_HEAD) - 2)
    worst = max((kernel.error for kernel in row.kernels), default=None)
    return (
        row.model, _number(row.us, "{:.1f}"), _number(row.spread, "{:.1%}"), row.clock, _range(row.apart_us, ".1f"),
        _number(row.off, "{:.1%}"), _number(row.joined, "{:.2%}"), _number(row.whole, "{:.2%}"), str(len(row.kernels)),
        _number(worst, "{:.1%}"), _number(row.unread, "{}"), _number(row.overhead, "{:.1%}"),
    )  # fmt: skip


def _against(timed_kernel: Against) -> tuple[str, ...]:
    return (
        timed_kernel.model,
        f"`{timed_kernel.name}`",
        f"{timed_kernel.us:.2f}",
        _range(timed_kernel.others_us, ".2f"),
        f"{timed_kernel.error:.1%}",
    )


def _range(us: Sequence[float], form: str) -> str:
    """`21.09`, or `21.09 to 23.45` of several processes."""
    if not us:
        return "-"
    low, high = f"{us[0]:{form}}", f"{us[-1]:{form}}"
    return low if low == high else f"{low} to {high}"


def _notes(rows: Sequence[ModelRow]) -> str:
    models_by_note: dict[str, list[str]] = {}
    for row in rows:
        for note in row.notes:
            models_by_note.setdefault(note, []).append(row.model)
    return (
        "\n".join(f"- {note} ({', '.join(models)})" for note, models in models_by_note.items()) or "Nothing."
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join(lines)

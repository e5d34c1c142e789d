"""Names of clocks, kinds of work, devices and failures, as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fuselight.shared.configurations import WRITTEN, configuration_title
from fuselight.shared.report import Clock, Failure, Machine, Measured, MeasuredConfiguration, Work
from fuselight_server.base.formatting import (
    format_count,
    format_first,
    format_percent,
    format_ratio,
    format_size,
    format_spread,
    format_time,
)
from fuselight_server.explain.benchmarks.profile import LineTime, together
from fuselight_server.explain.benchmarks.timing_stats import (
    change,
    clock_of,
    compiled_of,
    eager_of,
    range_of,
    speedup,
    time_text,
    timing_of,
    varies,
    wrong_results,
)

WORK = {
    Work.INFERENCE: "inference",
    Work.FORWARD_BACKWARD: "forward and backward",
    Work.TRAINING_STEP: "training step",
}


CLOCK = {Clock.WALL: "the host clock", Clock.DEVICE: "the device clock"}


def failed(failure: Failure) -> str:
    """`it has no inputs. Write a directive above it`: what happened, and what to do."""
    message, step = failure.message.rstrip("."), failure.next_step
    between = " " if message.endswith("?") else ". "
    return between.join(part for part in (message, step[:1].upper() + step[1:]) if part)


def subject(name: str) -> str:
    """`compiled` for the configuration `written`; others as they are named: the subject of a sentence."""
    return "compiled" if name == WRITTEN else name


def has_device(machine: Machine) -> bool:
    """Whether the name of the device is known. It is unknown if no process could start."""
    return machine.device not in ("", "?")


def device(machine: Machine) -> str:
    """`NVIDIA H200`, `NVIDIA H200 (1)` where it is not the first one; a question mark is a name that is not known."""
    plain = machine.device.replace("(R)", "").replace("(TM)", "")
    name = plain if has_device(machine) else "a device without a name"
    return f"{name} ({machine.index})" if machine.index else name


def benchmark_times(measured: Measured, most: int, longest: int | None = None) -> str:
    """`eager 12.3 ms, default 4.1 ms (3.0×) and 2 more`: at most so many configurations besides eager.

    Where a length is given, configurations are left out until the text fits; wrong results are left out last.
    """
    eager, compiled = eager_of(measured), compiled_of(measured)
    chosen = sorted(compiled, key=lambda configuration: wrong_results(configuration) is None)[:most]
    for count in range(len(chosen), 0, -1):
        shown = [configuration for configuration in compiled if configuration in chosen[:count]]
        more = len(compiled) - count
        rows = [
            _row(measured, configuration) for configuration in ([eager] if eager is not None else []) + shown
        ]
        text = ", ".join(rows) + (f" and {more} more" if more > 0 else "")
        if longest is None or len(text) <= longest or count == 1:
            return text
    return _row(measured, eager) if eager is not None else ""


def peaks_of_tensors(measured: Measured, most: int) -> str:
    """`peak of tensors eager 38.8 MB, default 30.4 MB`; empty if no allocator was read."""
    eager = eager_of(measured)
    rows = [*([eager] if eager is not None else []), *compiled_of(measured)]
    known = [
        f"{configuration_title(row.name)} {format_size(row.memory.bytes)}"
        for row in rows
        if row.memory is not None
    ]
    return f"peak of tensors {', '.join(known[: most + 1])}" if known else ""


def _row(measured: Measured, configuration: MeasuredConfiguration) -> str:
    clock, name = clock_of(measured), configuration_title(configuration.name)
    timing, base = timing_of(configuration, clock), timing_of(eager_of(measured), clock)
    if timing is None:
        return f"{name} failed" if configuration.failure is not None else f"{name} not measured"
    is_noisy = base is not None and (varies(timing) or varies(base))
    is_known = not is_noisy or (base is not None and change(range_of(base), range_of(timing)) is not None)
    faster = speedup(measured, configuration) if configuration in compiled_of(measured) and is_known else None
    notes = [format_ratio(faster)] if faster is not None else []
    notes += ["WRONG results"] if wrong_results(configuration) else []
    return f"{name} {time_text(timing, with_spread=False)}" + (f" ({', '.join(notes)})" if notes else "")


def first_calls(rows: Sequence[MeasuredConfiguration], most: int) -> str:
    """`first call: eager 109 ms, default 12 s`: what is known before there are times."""
    known = [
        configuration_title(row.name)
        + (" failed" if row.first_us is None else f" {format_time(row.first_us)}")
        for row in rows
        if row.first_us is not None or row.failure is not None
    ]
    return f"first call: {format_first(known, most)}"


def line_summary(times: Iterable[LineTime], total_us: float) -> str:
    """`2 kernels, 38.4 µs ± 1% (17%)`: the part of some lines in a call."""
    times = list(times)
    launches = {id(launch): kernel for time in times for launch, kernel in time.launches}
    kernels = sum(kernel is not None for kernel in launches.values())
    others = len(launches) - kernels
    counts = [format_count(kernels, "kernel")] if kernels else []
    counts += [format_count(others, "eager operator")] if others else []
    whole = together(times)
    text = f"{' and '.join(counts)}, {format_time(whole.us)} {format_spread(whole.spread)}"
    return text + (f" ({format_percent(whole.us, total_us)})" if total_us else "")

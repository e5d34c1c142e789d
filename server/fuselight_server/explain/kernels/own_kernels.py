"""The user's own Triton kernels in words: the lens of a kernel, its specializations, its configurations.

Invariant: only what is known is said; an estimate has its `~`, and a time without one was measured on a GPU by Triton's
autotuner.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from fuselight.shared.codec import encode
from fuselight.shared.report import (
    Assembled,
    Device,
    Graph,
    KernelConfiguration,
    LaunchConfig,
    Occupancy,
    OwnKernel,
    Report,
)
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_first,
    format_percent,
    format_size,
    format_time,
)

OWN = "own"
"""Begins the keys of own kernels."""
_NAMED = 6
"""Arguments that the name of a specialization has."""
_LONGEST_FAILURE = 120
_VARIED = 8
"""Calls of varied sizes that are listed."""


def key_of(kernel: OwnKernel) -> str:
    """Name a specialization in its report and in later ones: `own:triton:1f0c9a7e:add_k`."""
    parts = [
        kernel.location.path, kernel.types, kernel.divisible, kernel.num_warps, kernel.num_stages,
        {name: value for name, value in kernel.values.items() if kernel.types.get(name) == "constexpr"},
    ]  # fmt: skip
    digest = hashlib.sha256(json.dumps(encode(parts), sort_keys=True).encode()).hexdigest()[:8]
    return f"{OWN}:triton:{digest}:{kernel.name}"


def find(report: Report, key: str) -> OwnKernel | None:
    """Return the kernel that `key` names; of a later report without it, the first of that name."""
    kernels = report.own_kernels
    name = key.rpartition(":")[2]
    return next((kernel for kernel in kernels if key_of(kernel) == key), None) or next(
        (kernel for kernel in kernels if kernel.name == name), None
    )


def by_function(kernels: Iterable[OwnKernel]) -> dict[tuple[str, int], list[OwnKernel]]:
    """Group specializations by the file and line of their function, those with the most launches first."""
    functions: dict[tuple[str, int], list[OwnKernel]] = {}
    for kernel in kernels:
        functions.setdefault((kernel.location.path, kernel.location.line), []).append(kernel)
    for own in functions.values():
        own.sort(key=lambda kernel: (kernel.assembled is None, -kernel.launches))
    return functions


_LAUNCH = "triton_kernel_wrapper_"
"""In the name of the operator that launches a Triton kernel."""


def launches(graph: Graph, kernel: OwnKernel) -> bool:
    """Whether a graph launches a kernel, by the lines of the launches."""
    lines = {
        (at.path, at.line)
        for name, stack in zip(graph.targets, graph.lines, strict=False)
        if _LAUNCH in name
        for at in stack
    }
    return any((at.path, at.line) in lines for at in kernel.launched_at)


def summary(kernels: Sequence[OwnKernel], device: Device | None) -> str:
    """`h100-sxm: 64 registers, no spills, 48 KB shared, occupancy 50%, ~12 µs, 3 configurations`.

    The figures are those of the specialization with the most launches.
    """
    kernel = kernels[0]
    facts = figures(kernel)
    if kernel.configurations:
        facts.append(format_count(len(kernel.configurations), "configuration"))
    if len(kernels) > 1:
        facts.append(format_count(len(kernels), "specialization"))
    where = f"{device.key}: " if device is not None else ""
    return where + ", ".join(facts)


def figures(kernel: OwnKernel) -> list[str]:
    """What is known of one specialization, each fact by itself."""
    assembled = kernel.assembled
    if assembled is None:
        facts = ["not compiled yet"]
    elif assembled.registers is None and assembled.failure is not None:
        words = assembled.failure
        words = words if len(words) <= _LONGEST_FAILURE else f"{words[: _LONGEST_FAILURE - 1]}…"
        facts = [f"does not compile: {words}" if is_refused(assembled) else words]
    else:
        facts = resource_words(assembled.registers, assembled.spills, assembled.shared, assembled.occupancy)
        if assembled.failure is not None:
            facts.append("does not fit the device")
    time = time_words(kernel)
    return [*facts, time] if time else facts


def is_refused(assembled: Assembled) -> bool:
    """Whether the compiler refused a kernel: it said why, and did not run out of time."""
    return assembled.failure is not None and not is_unfinished(assembled.failure)


def is_unfinished(failure: str) -> bool:
    """Whether a compile ended without an answer, such as at its time limit."""
    return failure.startswith(("the compiler did not finish", "the compiler could not"))


def resource_words(
    registers: int | None, spills: int | None, shared: int | None, occupancy: Occupancy | None
) -> list[str]:
    """`64 registers`, `no spills`, `48 KB shared`, `occupancy 50%`: those that are known."""
    facts = [] if registers is None else [f"{registers} registers"]
    if spills is not None:
        facts.append(f"{spills} bytes spilled" if spills else "no spills")
    if shared:
        facts.append(f"{format_size(shared)} shared")
    if occupancy is not None and occupancy.most:
        facts.append(f"occupancy {format_percent(occupancy.warps, occupancy.most)}")
    return facts


def time_words(kernel: OwnKernel) -> str:
    """Return the measured time of a launch, else its estimate or why it has none; empty where nothing is known."""
    chosen = (
        kernel.configurations[kernel.chosen] if kernel.chosen is not None and kernel.configurations else None
    )
    if chosen is not None and chosen.measured_us is not None:
        return format_time(chosen.measured_us)
    if kernel.not_estimated:
        return f"time not estimated: {kernel.not_estimated}"
    return format_estimate(kernel.estimate_us) if kernel.estimate_us is not None else ""


def specialization(kernel: OwnKernel) -> str:
    """`x: *fp32 %16, n: i32, BLOCK=1024`: what Triton compiles the function for."""
    parts = []
    for name, kind in kernel.types.items():
        value = kernel.values.get(name)
        if kind == "constexpr":
            parts.append(f"{name}={value}" if value is not None else name)
        else:
            parts.append(f"{name}: {kind}{' %16' if name in kernel.divisible else ''}")
    return ", ".join(parts)


def short_specialization(kernel: OwnKernel) -> str:
    """Name a specialization in a list: the compile-time constants, then the types."""
    constants = [
        f"{name}={kernel.values[name]}"
        for name, kind in kernel.types.items()
        if kind == "constexpr" and name in kernel.values
    ]
    types = [kind for kind in kernel.types.values() if kind != "constexpr"]
    options = [f"{kernel.num_warps} warps"] if kernel.num_warps else []
    return format_first([*constants, *options, *types], _NAMED)


def launches_words(kernel: OwnKernel) -> str:
    """`3 launches, grid (8, 1, 1)`; `not launched` for a kernel that was only compiled."""
    if not kernel.launches:
        return "compiled, and not launched"
    grid = f", grid ({', '.join(map(str, kernel.grid))})" if kernel.grid else ""
    return format_count(kernel.launches, "launch", "launches") + grid


def varied_words(report: Report) -> list[str]:
    """Which calls with other sizes and strides were checked as well, for each directive that was varied."""
    words = []
    for varied in report.varied_calls:
        if varied.calls:
            count = format_count(len(varied.refused), "other call")
            refused = f"; the program refuses {count}" if varied.refused else ""
            words.append(
                f"Also checked: {format_first([f'`{call}`' for call in varied.calls], _VARIED)}{refused}."
            )
    return words


CONFIGURATION_COLUMNS = (
    "configuration", "registers", "spills", "shared", "occupancy", "limited by", "programs", "measured",
)  # fmt: skip


def configuration_rows(kernel: OwnKernel) -> list[tuple[str, ...]]:
    """Return a row of `CONFIGURATION_COLUMNS` for each configuration; what is not known is empty."""
    return [
        _configuration_row(configuration, is_chosen=at == kernel.chosen)
        for at, configuration in enumerate(kernel.configurations)
    ]


def _configuration_row(configuration: KernelConfiguration, *, is_chosen: bool) -> tuple[str, ...]:
    occupancy, programs = configuration.occupancy, configuration.grid
    count = 1
    for size in programs or ():
        count *= size
    measured = format_time(configuration.measured_us) if configuration.measured_us is not None else ""
    name = config_words(configuration.config) + (" (launched)" if is_chosen else "")
    known: tuple[str, ...] = (
        "" if configuration.registers is None else str(configuration.registers),
        "" if configuration.spills is None else str(configuration.spills),
        format_size(configuration.shared) if configuration.shared else "",
        "" if occupancy is None or not occupancy.most else format_percent(occupancy.warps, occupancy.most),
        "" if occupancy is None else occupancy.limited_by,
        f"{count:,}" if programs else "",
        measured,
    )
    if configuration.failure is not None:
        known = (f"{configuration.failure}"[:_LONGEST_FAILURE], *("" for _ in known[1:-1]), measured)
    return (name, *known)


def config_words(config: LaunchConfig) -> str:
    """`BLOCK=128, 4 warps, 3 stages`."""
    values = [f"{name}={value}" for name, value in config.values.items()]
    return ", ".join(
        [*values, format_count(config.num_warps, "warp"), format_count(config.num_stages, "stage")]
    )


def configuration_table(kernel: OwnKernel) -> list[str]:
    """Lines of a table of plain text, with a header."""
    rows = [CONFIGURATION_COLUMNS, *configuration_rows(kernel)]
    failed = {
        at for at, configuration in enumerate(kernel.configurations, 1) if configuration.failure is not None
    }
    shown = [index for index in range(len(CONFIGURATION_COLUMNS)) if any(row[index] for row in rows[1:])]
    widths = {
        index: max(len(row[index]) for at, row in enumerate(rows) if at not in failed or index == 0)
        for index in shown
    }
    lines = []
    for at, row in enumerate(rows):
        cells = (
            [row[index].ljust(widths[index]) for index in shown]
            if at not in failed
            else [row[0].ljust(widths[0]), *(row[index] for index in (1, len(row) - 1) if row[index])]
        )
        lines.append("  ".join(cells).rstrip())
    return lines


def fastest(kernel: OwnKernel) -> KernelConfiguration | None:
    """Return the configuration with the least measured time; None where fewer than two were measured."""
    measured = [
        configuration for configuration in kernel.configurations if configuration.measured_us is not None
    ]
    if len(measured) < 2:  # noqa: PLR2004 - nothing to choose between
        return None
    return min(measured, key=lambda configuration: configuration.measured_us or 0.0)


def only_compiled(kernel: OwnKernel) -> bool:
    """Whether no configuration but the launched one has been compiled."""
    return not any(configuration.is_compiled for configuration in kernel.configurations)

"""What is asked of a benchmark: configurations, bounds, and where its earlier runs lie. The same for both faces.

Invariant: eager is measured in any case, first; what cannot be read raises before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from fuselight.shared.configurations import EAGER, MODES, WRITTEN, parse_configuration
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import Limits, MeasureRequest, RunRequest
from fuselight_server.base.store import Store
from fuselight_server.explain.benchmarks.history import History


def configurations(names: Iterable[str], *, compiled: bool) -> tuple[str, ...]:
    """Return them, eager first, each once; of none: eager and what the source says. Raises ConfigurationError."""
    wanted = [name for name in names if name.strip()] or [WRITTEN if compiled else MODES[0]]
    configurations = [parse_configuration(name) for name in (EAGER, *wanted)]
    return tuple(dict.fromkeys(configuration.name for configuration in configurations))


_OWN_SECONDS = 60.0
"""Of a benchmark, in addition to those of its configurations."""


def scaled(limits: Limits, plan: MeasurePlan) -> Limits:
    """Return the bounds of a benchmark: those of a run for each of its processes, which are there together.

    It has some more time than these: what takes too long is a configuration, and ends as a row that says so.
    """
    processes = len(plan.configurations) + (1 if plan.accuracy else 0)  # that of the reference in float64
    seconds = plan.limit_seconds * (processes + 1) + _OWN_SECONDS if plan.limit_seconds else 0.0
    return replace(limits, seconds=seconds, memory_mb=limits.memory_mb * processes)


def measure_request(request: RunRequest, plan: MeasurePlan) -> MeasureRequest:
    """Make of a target's request that of a benchmark of it."""
    return request.of_kind(MeasureRequest, plan=plan, limits=scaled(request.limits, plan))


def history_of(path: str, target: str) -> History:
    """Return the benchmarks of a target that were made before; its name is empty for the `__main__` block."""
    return History(Store.of(Path(path)), path, target)

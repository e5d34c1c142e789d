"""What is asked of a search: its budget, its candidates, and the limits of its processes. The same for both faces.

Invariant: what cannot be read raises before anything runs, and names the wrong part.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace

from fuselight.shared.configurations import EAGER, MODES, WRITTEN, ConfigurationError, parse_configuration
from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.protocol import Limits, RunRequest, TuneRequest
from fuselight.shared.report import Report

_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_DURATION = re.compile(rf"(?:{_NUMBER}\s*m(?:in)?)?\s*(?:{_NUMBER}\s*s?)?")
LEAST_SECONDS = 1.0
"""Of a budget: a process takes longer to start."""
_OWN_SECONDS = 60.0
"""Of a search, in addition to its compiles and its budget."""
FIX_SHARE = 0.25
"""Part of the budget in which fixes are verified before the search, at most."""
_ALWAYS = 5
"""Processes of each search besides its compiles: eager, `default`, the reference in float64, and those that race."""
_MAX_COMPILES = 8
"""Compiles that a search runs side by side, at most."""


def budget_seconds(text: str) -> float:
    """Read a budget: `120`, `120s`, `2m`, `1m30s`. Raises ValueError with what is wrong."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"`{text}` is no duration: write seconds, as `120s`, or minutes, as `2m`")
    minutes, seconds = (float(group or 0) for group in match.groups())
    total = 60 * minutes + seconds
    if total < LEAST_SECONDS:
        raise ValueError(f"a budget of `{text}` is too short: write at least {LEAST_SECONDS:g} second")
    return total


def candidates(names: Iterable[str]) -> tuple[str, ...]:
    """Return configurations to try, each once, without those that every search measures. Raises ConfigurationError."""
    candidates: dict[str, None] = {}
    for name in names:
        configuration = parse_configuration(name)
        if configuration.written or configuration.backend is not None:
            raise ConfigurationError(
                f"{name!r} cannot be tried: a search compares configurations of torch.compile with Inductor, such as "
                f"{MODES[1]!r} or 'default+freezing=True'"
            )
        if configuration.name not in {EAGER, WRITTEN, MODES[0]}:
            candidates[configuration.name] = None
    return tuple(candidates)


def scaled(limits: Limits, plan: TunePlan) -> Limits:
    """Return the bounds of a search from those of one of its processes.

    The search holds its budget itself; beyond it, `default` may take all of its limit, and so may each of torch's
    modes.
    """
    seconds = (
        plan.budget_seconds + plan.limit_seconds * (2 + len(plan.modes)) + _OWN_SECONDS
        if plan.limit_seconds
        else 0.0
    )
    side_by_side = plan.jobs or min(_MAX_COMPILES, max(2, (os.cpu_count() or 1) // 2))
    return replace(limits, seconds=seconds, memory_mb=limits.memory_mb * (side_by_side + _ALWAYS))


def with_preparation(report: Report, seconds: float) -> Report:
    """Count what came before a search, as the verification of fixes, as a part of its duration and of its budget."""
    tuned = report.tuned
    if tuned is None:
        return report
    whole = replace(tuned, budget_seconds=tuned.budget_seconds + seconds, seconds=tuned.seconds + seconds)
    return replace(report, tuned=whole)


def tune_request(request: RunRequest, plan: TunePlan) -> TuneRequest:
    """Make of a target's request that of a search for its fastest configuration."""
    plan = replace(plan, memory_mb=request.limits.memory_mb)
    return request.of_kind(TuneRequest, plan=plan, limits=scaled(request.limits, plan))

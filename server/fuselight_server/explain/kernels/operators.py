"""The operators of a target, counted level by level, and what a set of operators lacks, by operator.

Invariant: a path counts as often as calls go it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fuselight.shared.report import OperatorPath, Phase, Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.explain.kernels.shares import place_of

LEVELS = {
    "call": "torch calls",
    "aten": "ATen",
    "core": "core ATen",
    "prims": "prims",
    "inductor": "Inductor",
    "fallback": "Inductor leaves to ATen",
}
"""Each level by its key, and how it is called."""


@dataclass
class Lack:
    """One operator that is lacking."""

    operator: str
    count: int = 0
    """How often the graphs compute it."""
    calls: dict[str, None] = field(default_factory=dict)
    """The calls that come to it, each once."""
    places: dict[SourceLine, None] = field(default_factory=dict)
    """The lines of those, each once."""


def counts(report: Report) -> dict[str, Counter[str]]:
    """Operators and how often they are computed, by level."""
    totals: dict[str, Counter[str]] = {level: Counter() for level in LEVELS}
    for path in report.operators:
        for level, counted in totals.items():
            for operator in operators_at(path, level):
                counted[operator] += path.count
    return totals


def operators_at(path: OperatorPath, level: str) -> tuple[str, ...]:
    """The operators of a path at a level of `LEVELS`; no call of the source's is a backward one."""
    by_level = {
        "call": (path.call,) if path.call and path.phase is not Phase.BACKWARD else (),
        "aten": path.aten,
        "core": path.core,
        "prims": path.prims,
        "inductor": path.inductor,
        "fallback": path.fallback,
    }
    return by_level[level]


def lacks(report: Report) -> tuple[Lack, ...]:
    """What the operator set that was asked for lacks, what is computed most first."""
    lacking_operators: dict[str, Lack] = {}
    for path in report.operators:
        place = place_of(path.stack, report.roots)
        for operator in path.lacking:
            lack = lacking_operators.setdefault(operator, Lack(operator))
            lack.count += path.count
            if path.call:
                lack.calls.setdefault(path.call)
            if place is not None:
                lack.places.setdefault(place)
    return tuple(sorted(lacking_operators.values(), key=lambda lack: (-lack.count, lack.operator)))


def short(operator: str) -> str:
    """`aten.addmm` for `aten.addmm.default`; another overload keeps its name."""
    return operator.removesuffix(".default")

"""Which of several results for one graph a program replays, by the arithmetic that it allows.

Invariant: a result that changes the arithmetic is never taken silently where an exact one holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuselight.shared.report.tuned import Numerics, TunedResult

OPTION = "numerics"
"""The backend's option: the most that a result may change of the arithmetic."""
_LEVELS = tuple(Numerics)
"""From exact on."""
_BY_PRECISION = {"": Numerics.EXACT, "tf32": Numerics.TF32}


def numerics_of(result: TunedResult) -> Numerics:
    """What a result changes of the arithmetic: at most what its search was allowed."""
    return _BY_PRECISION.get(result.preparation.precision, Numerics.REDUCED)


def parse_numerics(value: object) -> Numerics | None:
    """The value of the option; None without one. Raises ValueError with the values that it may have."""
    if value is None or isinstance(value, Numerics):
        return value
    try:
        return Numerics(value)
    except ValueError:
        known = ", ".join(f"`{numerics.value}`" for numerics in Numerics)
        raise ValueError(f"the option `{OPTION}` is `{value}`, and can be {known}") from None


def preferred(results: Sequence[TunedResult], allowed: Numerics | None) -> TunedResult | None:
    """The newest of the results with the preferred arithmetic; None if `allowed` excludes all.

    Preferred is the most that is allowed; without an option of the program the least that there is.
    """
    if allowed is None:
        return min(reversed(_by_age(results)), key=_level, default=None)
    within = [tuned_result for tuned_result in results if _level(tuned_result) <= _LEVELS.index(allowed)]
    return max(reversed(_by_age(within)), key=_level, default=None)


def _level(result: TunedResult) -> int:
    return _LEVELS.index(numerics_of(result))


def _by_age(results: Sequence[TunedResult]) -> list[TunedResult]:
    return sorted(results, key=lambda tuned_result: tuned_result.when)

"""What a change costs: what calls with its values did, where they were made, else what the guards alone answer.

Invariant: nothing is said of a value that was not tried. Guards answer for one value: that its call compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuselight.shared.report import ChangeKind, Forecast, TriedValue
from fuselight_server.base.formatting import format_list
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecast_kinds import KINDS
from fuselight_server.explain.findings.forecasts.forecast_parts import AskedChange


@dataclass(frozen=True)
class Limit:
    """The recompile limit of a function."""

    compiles: int
    left: int
    """Compiles until it is reached."""
    end: str
    """What a further call does then; empty where calls of torch.compile differ in that."""

    @classmethod
    def of(cls, context: Context, group: Sequence[AskedChange]) -> Limit:
        """The limit of the functions that a change concerns."""
        left = min(max(asked.frame.limit - asked.frame.compiles, 0) for asked in group)
        ends = {True: "an exception, because of fullgraph=True", False: "eager mode", None: ""}
        return cls(group[0].frame.limit, left, ends[context.report.fullgraph])


def call_raises(forecast: Forecast) -> bool:
    """Whether each call that was made with the change raised: there is nothing to compile, and nothing to advise."""
    return bool(forecast.tried) and all(value.raised for value in forecast.tried)


def cost_of(forecast: Forecast, limit: Limit, *, is_alone: bool = True) -> str:
    """`one more compile`, and what further values do if they were tried.

    `is_alone`: whether no other change has the same reason; the values are named then.
    """
    if call_raises(forecast):
        return f"the call raises {forecast.tried[0].raised} with {_named(forecast, forecast.tried[:1])}"
    if limit.left == 0:
        end = f"{limit.end}: " if limit.end else ""
        return f"{end}the limit of {limit.compiles} compiles is reached"
    ran = [value for value in forecast.tried if not value.raised]
    raised = [value for value in forecast.tried if value.raised]
    failures = f"; {raised[0].raised} with {_named(forecast, raised)}" if raised else ""
    # One value does not show what others do. Calls are made without AOTAutograd, which fixes floats that Dynamo keeps
    # symbolic.
    if len(ran) < 2 or (_is_float(forecast.was) and not all(value.compiles for value in ran)):  # noqa: PLR2004
        return f"one more compile{failures}"
    named = _named(forecast, ran) if is_alone else f"{len(ran)} of each"
    return f"{_of_values(forecast, ran, limit)} ({named} tried){failures}"


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.lstrip("-").isdecimal()


def _of_values(forecast: Forecast, ran: Sequence[TriedValue], limit: Limit) -> str:
    each = KINDS[forecast.kind].each
    compiled = sum(value.compiles > 0 for value in ran)
    if compiled == len(ran):
        then = f", then {limit.end}" if limit.end else ""
        return f"each new {each} compiles: {limit.left} more until the limit of {limit.compiles}{then}"
    if compiled == 1 and ran[0].compiles:
        return f"one more compile, which also serves other {each}s"
    return f"{compiled} of {len(ran)} other {each}s compile"


def further_compiles(forecast: Forecast, limit: Limit) -> int:
    """How many compiles such changes can cause, as far as they were tried."""
    if call_raises(forecast):
        return 0
    ran = [value.compiles > 0 for value in forecast.tried if not value.raised]
    if len(ran) > 1 and all(ran):
        return limit.left
    return min(limit.left, max(sum(ran), 1))


def _named(forecast: Forecast, values: Sequence[TriedValue]) -> str:
    is_length = forecast.kind is ChangeKind.LENGTH
    return format_list([f"length {value.value}" if is_length else value.value for value in values])

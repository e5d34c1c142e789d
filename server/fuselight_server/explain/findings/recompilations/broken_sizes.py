"""Fixed sizes that go with a graph break: their findings need no change but that of the break.

Invariant: a size that any call of the run had another value of does not count.
"""

from __future__ import annotations

from fuselight.shared.report import Compile, GuardFailure, Location, Outcome, Symbol
from fuselight_server.explain.findings.advice.expectations import CARRIED
from fuselight_server.explain.findings.common.carried_values import resumption
from fuselight_server.explain.findings.common.context import Context


def failures_of(context: Context, function: str, location: Location) -> list[GuardFailure]:
    """The guards of a function that failed, in all of its recompilations."""
    recompiles = (item for item in context.report.recompiles if item.function == function)
    entries = (entry for item in recompiles if item.location == location for entry in item.entries)
    return [failure for entry in entries for failure in entry.failures]


def is_changed(symbol: Symbol, failure: GuardFailure) -> bool:
    """Whether a guard failed on the size or the number of a symbol."""
    sizes = (f"{size.name}.size({size.dimension})" for size in failure.sizes)
    return symbol.source in {failure.source, *sizes}


def break_before(context: Context, group: list[tuple[Compile, Symbol]]) -> Location | None:
    """The break with which the sizes of a group go: torch gave up the function there, or carries over what has them.

    A carried size counts only if no call had another one.
    """
    places = dict[tuple[str, int], Location]()
    for compiled, symbol in group:
        after, frame = resumption(context, compiled.id), context.frame_of(compiled)
        failures = failures_of(context, frame.function, frame.location) if frame is not None else []
        is_steady = not any(is_changed(symbol, failure) for failure in failures)
        broke = None
        if compiled.outcome is Outcome.SKIPPED:
            broke = next((item for item in context.report.breaks if item.compile_id == compiled.id), None)
        elif after is not None and symbol.source.startswith(CARRIED) and not symbol.marked and is_steady:
            broke = after.broke
        place = context.innermost_user_frame(broke.stack) if broke is not None and is_size(symbol) else None
        if place is None:
            return None
        places[place.path, place.line] = place
    return next(iter(places.values())) if len({symbol.specialized_to for _, symbol in group}) == 1 else None


def with_break(compiled: Compile, broke: Location) -> str:
    """What to expect of a size that goes with a break."""
    if compiled.outcome is Outcome.SKIPPED:
        return f"Expect it: torch gave the function up at the graph break on line {broke.line}, so that no code has it"
    return f"Expect it: each call had this size, which goes with the graph break on line {broke.line}"


def is_size(symbol: Symbol) -> bool:
    """Whether the symbol is the size of a dimension."""
    return ".size(" in symbol.source or ".shape[" in symbol.source

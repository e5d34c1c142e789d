"""What to know of a failed guard: a torch.compile with `dynamic=False`, a cache, code that was dropped.

Invariant: a call with `dynamic=False` is to blame only if torch would keep the value symbolic without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuselight.shared.report import GuardCause, GuardFailure, Location, Recompile
from fuselight_server.base.finding import Related
from fuselight_server.explain.findings.advice.expectations import CARRIED, fixed_by_torch
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.explain.findings.recompilations.value_remedies import cached_function

_SETTING = "automatic_dynamic_shapes"


def static_call(context: Context, recompilation: Recompile, failure: GuardFailure | None) -> Location | None:
    """The torch.compile with dynamic=False that causes a recompilation; None if there is none, or several may."""
    compiled = context.compile_of(recompilation.compile_id)
    is_forbidden = compiled is not None and compiled.makes_dynamic is False
    if not is_forbidden or _SETTING in context.report.environment.config:
        return None
    if failure is None or failure.static is not None or fixed_by_torch(failure):
        return None
    is_argument = failure.source.isidentifier() and failure.expression.startswith("L[")
    if failure.cause is not GuardCause.DIMENSION and not (failure.cause is GuardCause.NUMBER and is_argument):
        return None  # torch keeps the integers of a module fixed without it
    calls = context.report.static_compiles
    is_users = len(calls) == 1 and context.is_user_file(calls[0].path) and CARRIED not in failure.code
    return calls[0] if is_users else None


def about_static(context: Context, home: Location) -> str:
    """Say that the torch.compile of the line makes nothing dynamic."""
    if home not in context.report.static_compiles:
        return ""
    return "dynamic=False of this torch.compile forbids it to keep sizes and numbers dynamic: each needs a compile."


def read_elsewhere(context: Context, failure: GuardFailure, home: Location) -> Iterator[Related]:
    """The read of a value, where the finding is on the line of the torch.compile."""
    read = context.innermost_user_frame(failure.born)
    if read is not None and home in context.report.static_compiles:
        yield Related(span_of(read), "the value is read here")


def about_cached(context: Context, failure: GuardFailure | None) -> str:
    """Say that torch runs the body of a function whose results are cached."""
    cached = cached_function(context, failure) if failure is not None else None
    if cached is None:
        return ""
    return f"torch ignores the cache of `{cached.function}` in compiled code, and runs its body in each call."


def about_dropped(failure: GuardFailure | None) -> str:
    """Say that the guards of dropped code were not checked."""
    if failure is None or failure.cause is not GuardCause.DELETED:
        return ""
    return "torch checks no guard of dropped code, so other causes may follow once the code is kept."


def freed_by(context: Context, failure: GuardFailure | None) -> str:
    """The call of the user that freed what the compiled code needs, at the end of a title."""
    place = context.innermost_user_frame(failure.dropped) if failure is not None and failure.dropped else None
    if place is None or failure is None or CARRIED in failure.code or place.column is None:
        return ""
    source = (context.read_line(place.path, place.line) or "").encode("utf-8", "surrogateescape")
    end = place.end_column if place.end_line in {None, place.line} else None
    text = source[place.column : end].decode("utf-8", "replace").strip()
    text = (
        text if text.endswith(")") else (context.source(place) or "")
    )  # an assignment has the place of its target
    return f" by `{text}`" if text else ""

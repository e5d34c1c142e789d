"""What a report knows of a size (or a number) beyond the guard that failed: who keeps it from being dynamic.

Invariant: marking a size dynamic is advised only where it would help: torch refuses to mark a size that code fixes,
and with sizes kept fixed by a setting the setting is the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.findings.causes import DIMENSION, Cause, cause_of, fixed_by_torch
from fuselight_server.findings.resumptions import carried_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import Compile, GuardFailure, Recompile, Symbol
    from fuselight_server.findings.context import Context

_SETTING = "automatic_dynamic_shapes"


def in_words(context: Context, compiled: Compile, symbol: Symbol) -> str:
    """The symbol's source as findings name it: what a break carried over by the expression that made it."""
    frames = context.report.frames
    frame = frames[compiled.frame] if compiled.frame < len(frames) else None
    if frame is None or frame.resumes_at is None:
        return symbol.source
    return carried_in_words(context, frame.location, frame.resumes_at, symbol.source)


def what_holds_it(context: Context, one: Recompile, failure: GuardFailure) -> tuple[str, ...]:
    """What to do about a size or number that is not free to be dynamic; empty for one that is, and for all else."""
    cause = cause_of(failure)
    if cause not in {Cause.DIMENSION, Cause.NUMBER} or fixed_by_torch(failure):
        return ()
    source = failure.difference.partition(" was ")[0] if cause is Cause.DIMENSION else failure.source
    symbols = [
        symbol
        for compiled in _of_the_function(context, one)
        for symbol in compiled.symbols
        if in_words(context, compiled, symbol) == source
    ]
    fixed = next((symbol for symbol in symbols if symbol.specialized_to is not None), None)
    if fixed is not None:
        home = context.innermost_ours(fixed.stack)
        where = f"on line {home.line}" if home is not None else "of this function"
        return (
            (
                f"Change the code {where} that fixes this size (FL301): until then each size is a compile of its own, "
                "and marking it dynamic is an error"
                if cause is Cause.DIMENSION
                else f"Change the code {where} that fixes this number (FL302), or pass it as a tensor: dynamic=True "
                "does not keep it symbolic there"
            ),
        )
    found = DIMENSION.match(failure.difference) if cause is Cause.DIMENSION else None
    named = found is not None and (found["name"] or "").isidentifier()
    if symbols or not named or _compile(context, one) is None:
        return ()
    # Torch makes a size that varied dynamic by itself, unless it is told not to.
    if _SETTING in context.report.environment.config:
        return (
            f"Set torch._dynamo.config.{_SETTING} back to True: torch then makes a size that varies dynamic",
        )
    return (
        (
            "Take away what keeps this size fixed, dynamic=False or mark_static: torch then makes a size that varies "
            "dynamic"
        ),
    )


def _compile(context: Context, one: Recompile) -> Compile | None:
    return next((item for item in context.report.compiles if item.id == one.compile_id), None)


def _of_the_function(context: Context, one: Recompile) -> Iterator[Compile]:
    """All compiles of the function and of its parts."""
    frames = context.report.frames
    for item in context.report.compiles:
        if item.frame < len(frames):
            frame = frames[item.frame]
            if (frame.function, frame.location) == (one.function, one.location):
                yield item

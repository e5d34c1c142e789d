"""FL203: a compiled frame whose guards are many, or slow to check. They are checked at every call.

Invariant: at most one finding for each function, for the compile with the most guards; the lines that made most of them
are related. Unless a limit in microseconds is set, measured times decide nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fuselight.shared.report import Compile, Frame
from fuselight_server.base.finding import Finding, Related, Span
from fuselight_server.base.formatting import format_count
from fuselight_server.explain.findings.common.context import Context

_MAX_LINES = 8


def guard_findings(context: Context) -> Iterator[Finding]:
    """The findings of frames past the thresholds."""
    worst: dict[tuple[str, int], tuple[Compile, Frame]] = {}
    for compiled in context.report.compiles:
        frame = context.frame_of(compiled)
        if frame is not None and _past(context, compiled):
            key = (frame.location.path, frame.location.line)
            # Not by the measured time: another run of the same text would choose another one.
            if key not in worst or (compiled.guard_count or 0) > (worst[key][0].guard_count or 0):
                worst[key] = compiled, frame
    for compiled, frame in worst.values():
        yield _finding(context, compiled, frame)


def _past(context: Context, compiled: Compile) -> bool:
    limits = context.thresholds
    many = bool(limits.guard_count) and (compiled.guard_count or 0) >= limits.guard_count
    slow = bool(limits.guard_us) and (compiled.guard_us or 0.0) >= limits.guard_us
    return many or slow


def _finding(context: Context, compiled: Compile, frame: Frame) -> Finding:
    count = "slow guards"
    if compiled.guard_count is not None:
        count = format_count(compiled.guard_count, "guard")
    return context.finding(
        "FL203",
        f"`{frame.function}` has {count} to check before each call",
        "A guard is a condition that compiled code relies on: torch checks all of them before each call of it.",
        at=context.innermost_user_frame((frame.location,), compiled.caller),
        cost=("all guards are checked at every call",),
        hints=(
            "Reduce guards: pass varying values as tensors, and keep configuration in a few plain attributes",
            "If modules and parameters never change, consider torch.compiler.skip_guard_on_all_nn_modules_unsafe",
        ),
        call=compiled.call,
        related=tuple(_lines(context, compiled)),
        subject=frame.function,
    )


def _lines(context: Context, compiled: Compile) -> Iterator[Related]:
    """The workspace lines that made the most guards."""
    born: Counter[tuple[str, int]] = Counter()
    for place in compiled.guard_places:
        home = context.innermost_user_frame(place.stack)
        if home is not None:
            born[home.path, home.line] += place.count
    for (path, line), number in born.most_common(_MAX_LINES):
        yield Related(Span(path, line), f"this line created {format_count(number, 'guard')}")

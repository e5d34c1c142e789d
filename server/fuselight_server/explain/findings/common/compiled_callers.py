"""Which compiled code calls a function that torch compiled separately: torch refuses to mark sizes there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.report import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight.shared.report import Frame, Recompile, Report


def is_called_in_compiled_code(report: Report, recompilation: Recompile) -> bool:
    """Whether a function above the call is compiled, also one that goes on after a graph break."""
    compiled = {
        record.frame for record in report.compiles if record.outcome in {Outcome.COMPILED, Outcome.EMPTY}
    }
    frames = [frame for index, frame in enumerate(report.frames) if index in compiled]
    return next(_callers(frames, recompilation), None) is not None


def outer_frame(report: Report, recompilation: Recompile) -> Frame | None:
    """The function whose calls lead to one that torch compiled separately; None for one that is called itself."""
    outer = next(_callers(report.frames, recompilation), None)
    return None if outer is None or outer.location == recompilation.location else outer


def is_called_by(frame: Frame, recompilation: Recompile) -> bool:
    """Whether a function is on the stack above the one that was compiled again."""
    return next(_callers((frame,), recompilation), None) is not None


def _callers(frames: Sequence[Frame], recompilation: Recompile) -> Iterator[Frame]:
    """The frames that are on the stack above a recompilation, the outermost first."""
    for place in recompilation.caller:
        above = [
            frame
            for frame in frames
            if place.path == frame.location.path
            and frame.location.line <= place.line
            and _is_same_function(place.function, frame.function)
        ]
        nearest = max(
            (frame.location.line for frame in above), default=0
        )  # two classes may have a `forward` each
        yield from (frame for frame in above if frame.location.line == nearest)


def _is_same_function(name: str | None, other: str) -> bool:
    """Whether two names can be of one function: a stack may have the last part of it alone."""
    if name is None:
        return False
    if "." in name and "." in other:
        return name == other
    return name.rpartition(".")[2] == other.rpartition(".")[2]

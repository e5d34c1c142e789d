"""Whether a compiled function is called inside of other compiled code: torch refuses to mark sizes there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.report import Outcome

if TYPE_CHECKING:
    from fuselight.shared.report import Recompile, Report


def is_called_in_compiled_code(report: Report, recompilation: Recompile) -> bool:
    """Whether a function above the call is compiled, also one that goes on after a graph break."""
    compiled = {
        record.frame for record in report.compiles if record.outcome in {Outcome.COMPILED, Outcome.EMPTY}
    }
    frames = [frame for index, frame in enumerate(report.frames) if index in compiled]
    return any(
        place.path == frame.location.path
        and place.function is not None
        and place.function.rpartition(".")[2] == frame.function.rpartition(".")[2]
        and place.line >= frame.location.line
        for place in recompilation.caller
        for frame in frames
    )

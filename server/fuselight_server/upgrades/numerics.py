"""The results of calls with both releases: who moved, and by how much.

Invariant: a difference that rounding explains is none; what was not compared is said so, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from fuselight.shared.report import Accuracy, CallErrors, ReleaseCall, Report
from fuselight_server.jobs.comparison.model import ChangeVerdict


class ResultChange(Enum):
    """What became of the results of a call."""

    EQUAL = "equal"
    """Bit for bit, eager and compiled."""
    ROUNDING = "within rounding"
    EAGER = "eager changed"
    """The results without torch.compile differ by more than rounding."""
    COMPILED_WORSE = "compiled changed"
    """Compiled results differ from eager's with the later release alone."""
    COMPILED_BETTER = "compiled fixed"
    """Compiled results differ from eager's with the earlier release alone."""
    COMPILED_WRONG = "compiled differs with both"
    UNKNOWN = "not compared"

    @property
    def verdict(self) -> ChangeVerdict:
        """How it is to be read."""
        if self in {ResultChange.EAGER, ResultChange.COMPILED_WORSE}:
            return ChangeVerdict.REGRESSION
        return ChangeVerdict.IMPROVEMENT if self is ResultChange.COMPILED_BETTER else ChangeVerdict.SAME


def result_change(call: ReleaseCall) -> ResultChange:
    """Who moved."""
    if call.eager.passed is None:
        return ResultChange.UNKNOWN
    if call.eager.passed is False:
        return ResultChange.EAGER
    before, after = _passed(call.compiled_before), _passed(call.compiled_after)
    if before is not None and after is not None and not (before and after):
        if before == after:
            return ResultChange.COMPILED_WRONG
        return ResultChange.COMPILED_WORSE if before else ResultChange.COMPILED_BETTER
    if call.is_eager_equal and call.is_compiled_equal is not False:
        return ResultChange.EQUAL
    return ResultChange.ROUNDING


def _passed(accuracy: Accuracy | None) -> bool | None:
    return None if accuracy is None else accuracy.passed


def compared_calls(reports: Iterable[Report]) -> Iterator[tuple[Report, ReleaseCall]]:
    """The calls that the later side compared, with the reports of its `outputs`."""
    for report in reports:
        for call in report.outputs.calls if report.outputs is not None else ():
            yield report, call


def result_text(call: ReleaseCall, torch: tuple[str | None, str | None]) -> str:
    """Who moved, in a sentence; empty if nobody did."""
    change = result_change(call)
    before, after = torch
    if change is ResultChange.EAGER:
        is_real = _passed(call.float64) is False
        why = "also in float64, so this is no rounding" if is_real else "by more than rounding"
        return f"eager results changed {why}: {call.eager.why}"
    if change is ResultChange.COMPILED_WORSE and call.compiled_after is not None:
        return f"compiled results differ from eager's with torch {after}, not with {before}: {call.compiled_after.why}"
    if change is ResultChange.COMPILED_BETTER and call.compiled_before is not None:
        return f"compiled results differed from eager's with torch {before} alone: {call.compiled_before.why}"
    if change is ResultChange.COMPILED_WRONG and call.compiled_after is not None:
        return f"compiled results differ from eager's with both versions: {call.compiled_after.why}"
    if change is ResultChange.UNKNOWN:
        return f"results were not compared: {call.eager.why}"
    return ""


def error_text(errors: CallErrors) -> str:
    """`error from float64: eager 1.2e-07 -> 1.2e-07, compiled 3e-07 -> 2e-07`; empty without float64."""
    pairs = (
        ("eager", errors.eager_before, errors.eager_after),
        ("compiled", errors.compiled_before, errors.compiled_after),
    )
    known = [
        f"{name} {old:.2g} -> {new:.2g}" for name, old, new in pairs if old is not None and new is not None
    ]
    return f"error from float64: {', '.join(known)}" if known else ""

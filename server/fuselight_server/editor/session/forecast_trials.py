"""Which forecast a command means, and what came of its verification, in words."""

from __future__ import annotations

from collections.abc import Mapping

from fuselight_server.base.formatting import format_count, format_target
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.execution.runs.keys import Key
from fuselight_server.fixes.verification.forecast_trials import tried_changes


def forecast_of(
    captures: Mapping[Key, CaptureResult], path: str | None, target: object
) -> tuple[CaptureResult | None, str]:
    """The result whose forecast the user means; without one, why there is none and what to do."""
    of_file = [result for key, result in captures.items() if key.path == path]
    named = [result for result in of_file if result.key.name == target]
    results = named or [result for result in of_file if tried_changes(result.expected_changes)]
    if len(results) > 1:
        return None, "Several targets have a forecast. Move the cursor to one of them, then verify again."
    if not results:
        return None, "Run the target first: a forecast is made from its last run."
    (result,) = results
    if result.stale:
        return None, f"Run {_name(result)} again: its files have changed since the run that forecasts."
    if not tried_changes(result.expected_changes):
        return None, f"The forecast of {_name(result)} has no likely change that compiles it again."
    return result, ""


def _name(result: CaptureResult) -> str:
    return format_target(result.key.name)


def end_of(result: CaptureResult, why: str) -> str:
    """Say what came of a forecast, and what to do next."""
    name, changes = _name(result), tried_changes(result.expected_changes)
    if why:
        return (
            f"The forecast of {name} was not verified: {why}. Run the target, then verify its forecast again."
        )
    passed = sum(
        any(line.startswith("verified") for line in result.tried.get(change, ())) for change in changes
    )
    if not passed:
        lines = [line for change in changes for line in result.tried.get(change, ())]
        end = "passed" if any(line.startswith("refused") for line in lines) else "could be tried"
        return f"No remedy {end} for what compiles {name} again. Hover over its name to read why."
    words = "has" if passed == 1 else "have"
    counted = f"{passed} of {format_count(len(changes), 'likely change')}"
    return f"{counted} of {name} {words} a verified remedy. Hover over its name to read them."

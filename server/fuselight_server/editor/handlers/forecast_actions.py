"""The command that tries the remedies of a target's forecast, and shows what came of it in the hover and the report.

Invariant: it runs because the user asked for it, and says why where it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight_server.base.formatting import format_count
from fuselight_server.editor.handlers.commands import path_in
from fuselight_server.fixes.verification.forecast_trials import tried_changes

if TYPE_CHECKING:
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.results.captures import CaptureResult
    from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange


async def verify_forecast(server: Server, options: dict[str, Any]) -> None:
    """Try the remedies of a target's forecast."""
    result, obstacle = _result_of(server, options)
    if result is None:
        server.ui.say(obstacle, error=False)
        return
    changes = tried_changes(result.expected_changes)
    if not server.analysis.verification_runs.agrees(
        result.key, lambda: server.spawn(verify_forecast(server, options), "verifying a forecast")
    ):
        return
    why = await server.analysis.fixes.try_forecast(result)
    server.ui.results_changed([result.key.path])
    server.ui.say(_end(result, changes, why), error=False)


def _end(result: CaptureResult, changes: tuple[ExpectedChange, ...], why: str) -> str:
    """Say what came of a forecast, and what to do next."""
    name = _name(result)
    if why:
        return (
            f"The forecast of {name} was not verified: {why}. Run the target, then verify its forecast again."
        )
    passed = sum(
        any(line.startswith("verified") for line in result.tried.get(change, ())) for change in changes
    )
    if not passed:
        return f"No remedy passed for what compiles {name} again. Hover over its name to read why."
    words = "has" if passed == 1 else "have"
    counted = f"{passed} of {format_count(len(changes), 'likely change')}"
    return f"{counted} of {name} {words} a verified remedy. Hover over its name to read them."


def _result_of(server: Server, options: dict[str, Any]) -> tuple[CaptureResult | None, str]:
    """The result whose forecast the user means; without one, why there is none and what to do."""
    path, target = path_in(options), options.get("target")
    of_file = [result for key, result in server.state.captures.items() if key.path == path]
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
    return result.key.name or "__main__"


COMMANDS = {"fuselight.server.verifyForecast": verify_forecast}

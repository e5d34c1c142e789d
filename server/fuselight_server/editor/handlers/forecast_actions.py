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


async def verify_forecast(server: Server, options: dict[str, Any]) -> None:
    """Try the remedies of a target's forecast."""
    result = _result_of(server, options)
    if result is None or result.stale:
        server.ui.say("Run the target first: a forecast is made from its last run.", error=False)
        return
    name = result.key.name or "__main__"
    changes = tried_changes(result.expected_changes)
    if not changes:
        server.ui.say(f"The forecast of {name} has no likely change that compiles it again.", error=False)
        return
    if not server.analysis.verification_runs.agrees(
        result.key, lambda: server.spawn(verify_forecast(server, options), "verifying a forecast")
    ):
        return
    if not await server.analysis.fixes.try_forecast(result):
        server.ui.say(f"The forecast of {name} was not verified: it was canceled.", error=False)
        return
    server.ui.results_changed([result.key.path])
    passed = sum(
        any(line.startswith("verified") for line in result.tried.get(change, ())) for change in changes
    )
    words = f"{passed} of {format_count(len(changes), 'likely change')} of {name} have a verified remedy."
    server.ui.say(f"{words} Hover over its name to read them.", error=False)


def _result_of(server: Server, options: dict[str, Any]) -> CaptureResult | None:
    path, target = path_in(options), options.get("target")
    capture_results = [
        capture
        for key, capture in server.state.captures.items()
        if key.path == path and capture.expected_changes
    ]
    named = [capture_result for capture_result in capture_results if capture_result.key.name == target]
    return next(iter(named or (capture_results if len(capture_results) == 1 else [])), None)


COMMANDS = {"fuselight.server.verifyForecast": verify_forecast}

"""The command that tries the remedies of a target's forecast, and shows what came of it in the hover and the report.

Invariant: it runs because the user asked for it, and says why where it does not.
"""

from __future__ import annotations

from typing import Any

from fuselight_server.editor.handlers.commands import path_in
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.session.forecast_trials import end_of, forecast_of


async def verify_forecast(server: Server, options: dict[str, Any]) -> None:
    """Try the remedies of a target's forecast."""
    result, obstacle = forecast_of(server.state.captures, path_in(options), options.get("target"))
    if result is None:
        server.ui.say(obstacle, error=False)
        return
    if not server.analysis.verification_runs.agrees(
        result.key, lambda: server.spawn(verify_forecast(server, options), "verifying a forecast")
    ):
        return
    why = await server.analysis.fixes.try_forecast(result)
    server.ui.results_changed([result.key.path])
    server.ui.say(end_of(result, why), error=False)


COMMANDS = {"fuselight.server.verifyForecast": verify_forecast}

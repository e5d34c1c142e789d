"""Which changes of a later call compile each target again, and what came of trying them.

Invariant: a forecast is made from the report of a run that was made in this command.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.protocol import CaptureRequest
from fuselight_server.commands.check import NO_THRESHOLDS, analyze
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecasts import expected_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fuselight.shared.report import Report
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.commands.options import CommandOptions
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun
    from fuselight_server.explain.findings import Thresholds
    from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange
    from fuselight_server.fixes.verification.comparison_runs import FixTarget
    from fuselight_server.fixes.verification.fixer import Fixer
    from fuselight_server.fixes.verification.forecast_trials import (  # noqa: TC004 - for type checkers alone
        ChangeTrial,
        RemedyTrial,
    )

__all__ = ["ChangeTrial", "ForecastOutcome", "RemedyTrial", "Trials", "forecast", "try_changes"]

Trials: TypeAlias = "dict[tuple[str, str], dict[ExpectedChange, ChangeTrial]]"
"""What came of the likely changes of each target, by its path and name."""


@dataclass(frozen=True)
class ForecastOutcome:
    """The forecasts of a command's targets: of each target, or of each thing that its program compiles."""

    checked: CheckOutcome
    """The findings of the targets, as a check makes them."""
    reports: tuple[Report, ...]
    """Those that have a forecast."""
    trials: Trials


async def forecast(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    thresholds: Thresholds = NO_THRESHOLDS,
    default_sizes: dict[str, int] | None = None,
    tries_changes: bool = False,
) -> ForecastOutcome:
    """Ask each target's guards which changes compile again; `tries_changes` makes the likely ones."""
    with owned_folder("forecast") if tries_changes else contextlib.nullcontext() as folder:
        forecasts = _Forecasts(folder)
        checked = await analyze(
            options,
            show,
            token,
            thresholds=thresholds,
            default_sizes=default_sizes,
            report_of=forecasts.report_of,
            tries=0.0,  # its own trials are of changes
        )
    return ForecastOutcome(checked, tuple(forecasts.reports), forecasts.trials)


class _Forecasts:
    """The forecasts so far."""

    def __init__(self, folder: str | None) -> None:
        """`folder`: an empty one for the results of runs; None: changes are not tried."""
        self.reports: list[Report] = []
        self.trials: Trials = {}
        self._folder = folder

    async def report_of(self, target_run: TargetRun, outcome: CheckOutcome) -> Report:
        """Report one target."""
        report = await self._forecast(target_run, outcome)
        parts = [await self._forecast(call, outcome) for call in target_run.calls(report)]
        self.reports += parts or [report]
        return report

    async def _forecast(self, target_run: TargetRun, outcome: CheckOutcome) -> Report:
        """Report one target, and try remedies for the likely changes of its forecast."""
        request = target_run.request
        if isinstance(request, CaptureRequest):
            request = dataclasses.replace(request, tries_forecasts=True)
        report = await target_run.run_report(request)
        if self._folder is None:
            return report
        from fuselight_server.fixes.verification.fixer import Fixer  # noqa: PLC0415 - only where changes are tried

        fixer = Fixer(
            read=outcome.sources.text_or_none,
            obstacle=lambda _remedy: "",
            readings=outcome.readings,
            folder=self._folder,
        )
        tried = self.trials.setdefault((report.target.path, report.target.name), {})
        expected = expected_changes(Context.of(report, read_line=outcome.sources.line))
        await try_changes(fixer, target_run, target_run.token, report, expected, keep=tried.__setitem__)
        fixer.runs.forget_results()
        return report


async def try_changes(
    fixer: Fixer,
    target: FixTarget,
    token: CancelToken,
    report: Report,
    expected: Iterable[ExpectedChange],
    *,
    keep: Callable[[ExpectedChange, ChangeTrial], None],
) -> None:
    """Make each likely change of a target's call, and try the remedies that change its code; `keep` gets each trial."""
    from fuselight_server.fixes.verification.forecast_trials import (  # noqa: PLC0415 - only where changes are tried
        tried_changes,
        try_remedies,
    )

    for change in tried_changes(expected):
        keep(change, await token.run(try_remedies(fixer, target, report, change)))

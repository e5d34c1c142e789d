"""`fuselight tune`: the fastest configuration of each target on this machine, verified, and written for replay.

Invariant: what is written was measured and compared in this search. Exit code 0: each target has a decision, also that
`default` is the fastest, and it is written; 1: a decision could not be written; 2: a target could not be tuned, or the
tuned file cannot be written, which is checked before the search; as after any Ctrl-C, 130 where that ended the search,
which keeps the best so far, unconfirmed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.configurations import MODES, ConfigurationError, names_in
from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.protocol import TunePlan
from fuselight.shared.report import Numerics
from fuselight_server.base.terminal import print_error, standard_output
from fuselight_server.cli.fix import FixedFiles
from fuselight_server.cli.measure_options import (
    add_timed_device_option,
    add_work_options,
    search_budget,
    work_of,
)
from fuselight_server.commands.options import CommandError, CommandOptions, add_command_options
from fuselight_server.commands.outcome import CheckOutcome, report_problems
from fuselight_server.commands.targets import complete, report_each
from fuselight_server.explain.benchmarks.exports import NotBuiltError, page_parts
from fuselight_server.explain.searches.decisions import (
    WrittenDecision,
    tuned_path,
    unwritable,
    write_decision,
)
from fuselight_server.explain.searches.measurements import is_tentative
from fuselight_server.explain.searches.planning import (
    FIX_SHARE,
    candidates,
    tune_request,
    with_preparation,
)
from fuselight_server.explain.searches.words import progress_best, with_best
from fuselight_server.fixes.verification.fixer import FixOptions, FixStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from fuselight.shared.report import Report, Tuned
    from fuselight_server.commands.targets import TargetRun

STOPPED = "stopped: the search ended early, and kept the best configuration so far, which is not confirmed"
STOPPED_EARLY = "stopped: no configuration was faster than default yet, so nothing was written"


@dataclass
class TargetSearch:
    """One target: its search, and what became of the result."""

    report: Report
    written: WrittenDecision | None = None
    """None without a result."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(
        parser, formats=("text", "json", "html"), seconds=600.0, memory_mb=16384, limited="candidate"
    )
    parser.add_argument(
        "--budget",
        metavar="TIME",
        type=search_budget,
        default=TunePlan().budget_seconds,
        help="duration of the whole search, compiles included: seconds, as 120s, or minutes, as 2m (default: 120s)",
    )
    add_work_options(parser, verb="tune")
    add_timed_device_option(parser)
    parser.add_argument(
        "--numerics",
        type=Numerics,
        choices=[one.value for one in Numerics],
        default=Numerics.EXACT,
        help="changes of the arithmetic that may be tried: none (exact), TF32, or also bfloat16 (reduced) "
        "(default: exact)",
    )
    parser.add_argument(
        "--fixed-modules",
        action="store_true",
        help="no module changes after the first call (train(), a replaced layer, a hook): also try candidates that do "
        "not check for it",
    )
    named = parser.add_mutually_exclusive_group()
    for option, what in (("--try", "also try"), ("--only", "try nothing but")):
        named.add_argument(
            option,
            dest=f"{option[2:]}_names",
            metavar="CONFIG,CONFIG",
            action="append",
            type=_candidates,
            help=f"{what} these configurations, as max-autotune or default+freezing=True; repeatable",
        )
    parser.add_argument(
        "--modes",
        action="store_true",
        help="also measure torch's other modes, after the search and beyond its budget",
    )
    parser.add_argument(
        "--fixes",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="try the source with verified fixes of its graph breaks and recompilations",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="the tuned file, or its folder (default: fuselight-tuned.json of the project)",
    )
    parser.add_argument(
        "--artifacts",
        action="store_true",
        help="save the winner's compiled code beside the tuned file, for a faster start",
    )


def execute(options: argparse.Namespace) -> int:
    """Search, write the results and print them; returns the exit code."""
    given = options.only_names or options.try_names or ()
    plan = TunePlan(
        work=work_of(options),
        device=options.device,
        budget_seconds=options.budget,
        numerics=Numerics(options.numerics),
        fixed_modules=options.fixed_modules,
        candidates=tuple(dict.fromkeys(name for group in given for name in group)),
        only=options.only_names is not None,
        modes=MODES if options.modes else (),
        limit_seconds=options.time_limit,
    )
    _check_output(options)
    searches = Searches(plan, output=options.output, has_fixes=options.fixes, has_artifacts=options.artifacts)
    try:
        if options.format == "html":
            page_parts("tune")
        outcome = complete(options, searches.make)
        _print(outcome, searches, options)
    except NotBuiltError as error:
        raise CommandError(str(error)) from None
    if searches.is_stopped:
        is_kept = any(one.report.tuned is not None and one.report.tuned.result for one in searches.found)
        raise KeyboardInterrupt(STOPPED if is_kept else STOPPED_EARLY)
    return exit_code(outcome, searches.found)


def _check_output(options: argparse.Namespace) -> None:
    """Raise CommandError where a search would find out at its end that its result cannot be written."""
    for path in dict.fromkeys(tuned_path(str(one), options.output) for one in options.paths if one.exists()):
        problem = unwritable(path)
        if problem:
            raise CommandError(problem)


def exit_code(outcome: CheckOutcome, searches: Sequence[TargetSearch]) -> int:
    """0 each target has a decision, 1 one could not be written, 2 something could not be tuned."""
    undecided = any(report.tuned is None or report.tuned.result is None for report in outcome.reports)
    if outcome.problems or undecided or not outcome.reports:
        return 2
    written = [one.written for one in searches if one.written is not None]
    return 1 if any(one.problem and not one.keeps_earlier for one in written) else 0


class Searches:
    """The searches of the command, one after the other."""

    def __init__(
        self,
        plan: TunePlan,
        *,
        output: str | None = None,
        has_fixes: bool = True,
        has_artifacts: bool = False,
    ) -> None:
        """`output` names the tuned file; `has_fixes`: whether fixes are verified and tried."""
        self.found: list[TargetSearch] = []
        self.is_stopped = False
        """Whether Ctrl-C ended a search."""
        self._plan = plan
        self._output = output
        self._has_fixes = has_fixes
        self._has_artifacts = has_artifacts

    async def make(self, options: CommandOptions, show: Callable[[str], None]) -> CheckOutcome:
        """Search for each target of the paths."""
        outcome = CheckOutcome()

        async def report_of(target_run: TargetRun, checked: CheckOutcome) -> Report:
            outcome.sources = checked.sources
            report = await self._search(target_run, checked)
            outcome.reports.append(report)
            if self.is_stopped:
                raise _StoppedError
            return report

        with contextlib.suppress(_StoppedError):
            # Sampling a process stops it, which would falsify its times.
            return await report_each(options, show, report_of, sample_after=0.0, splits_programs=True)
        return outcome

    async def _search(self, target_run: TargetRun, outcome: CheckOutcome) -> Report:
        start = time.monotonic()
        path = target_run.request.target.path
        fixed, titles = await self._fixes(target_run, outcome) if self._has_fixes else ({}, ())
        spent = time.monotonic() - start
        plan = dataclasses.replace(
            self._plan,
            budget_seconds=max(self._plan.budget_seconds - spent, 1.0),
            fixed=fixed,
            fixes=titles,
            artifacts=str(tuned_path(path, self._output).parent) if self._has_artifacts else "",
        )
        report = await self._measured(target_run, plan)
        report = with_preparation(report, spent)
        self.found.append(TargetSearch(report, self._written(report.tuned, path)))
        return report

    def _written(self, tuned: Tuned | None, path: str) -> WrittenDecision | None:
        if tuned is None or tuned.result is None:
            return None
        return write_decision(tuned.result, path, self._output, is_tentative=is_tentative(tuned))

    async def _measured(self, target_run: TargetRun, plan: TunePlan) -> Report:
        """The report of the search; one that Ctrl-C ends has what was known by then."""
        known: list[Report] = []

        def partly(report: Report) -> None:
            known[:] = [report]

        def show(text: str) -> None:
            best = progress_best(known[0].tuned) if known and known[0].tuned is not None else ""
            target_run.show(with_best(text, best))

        run = dataclasses.replace(target_run, show=show)
        request = tune_request(target_run.request, plan)
        report, self.is_stopped = await until_interrupted(run.report(request, partly))
        if report is not None:
            return report
        if known:
            return known[0]
        raise KeyboardInterrupt(STOPPED_EARLY)

    async def _fixes(
        self, target_run: TargetRun, outcome: CheckOutcome
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Texts with the fixes that pass in a part of the budget, and the titles of these fixes."""
        with owned_folder("tune") as folder:
            files = FixedFiles(FixOptions(), folder, writes=False)

            async def fix() -> None:
                first = await files.report_of(target_run, outcome)
                if first.breaks or first.recompiles:
                    await files.fixer.fix(target_run, first, FixOptions())

            target_run.show("looking for graph breaks and recompilations that a verified fix removes")
            with contextlib.suppress(asyncio.TimeoutError, TimeoutError):  # those that passed by then count
                await asyncio.wait_for(fix(), FIX_SHARE * self._plan.budget_seconds)
        passed = [one for one in files.attempts if one.status is FixStatus.PASSED]
        titles = tuple(dict.fromkeys(one.remedy.title for one in passed))
        return dict(files.fixer.texts), titles


class _StoppedError(Exception):
    """Ctrl-C ended a search: the targets after it are left out."""


async def until_interrupted(work: Awaitable[Report]) -> tuple[Report | None, bool]:
    """What `work` returns, None where Ctrl-C ended it; and whether it did. A second Ctrl-C ends the command."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    stopped: list[bool] = []

    def stop() -> None:
        stopped.append(True)
        loop.remove_signal_handler(signal.SIGINT)
        task.cancel()

    has_handler = True
    try:
        loop.add_signal_handler(signal.SIGINT, stop)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not in the main thread
        has_handler = False
    try:
        return await task, False
    except asyncio.CancelledError:
        if not stopped:
            raise
        return None, True
    finally:
        if has_handler:
            loop.remove_signal_handler(signal.SIGINT)


def _candidates(text: str) -> tuple[str, ...]:
    try:
        return candidates(names_in(text))
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _print(outcome: CheckOutcome, searches: Searches, options: argparse.Namespace) -> None:
    from fuselight_server.cli.formats import tune as formats  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    if options.format == "text":
        formats.print_searches(searches.found, terminal)
    else:
        render = {"json": formats.as_json, "html": formats.as_html}[options.format]
        terminal.write_data(render(outcome, searches.found))
    if options.format == "html" and len(searches.found) > 1:
        print_error("HTML shows the first target only; choose another with --target")
    for one in searches.found:
        if one.written is not None and one.written.problem:
            print_error(one.written.problem)
    report_problems(outcome, "tune", is_empty=not searches.found)

"""`fuselight tune`: the fastest configuration of each target on this machine, verified, and written for replay.

Invariant: what is written was measured and compared in this search. Exit code 0: each target has a decision, also that
`default` is the fastest, and it is written; 1: a decision could not be written; 2: a target could not be tuned, or the
tuned file cannot be written, which is checked before the search; as after any Ctrl-C, 130 where that ended the search,
which keeps the best so far, unconfirmed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fuselight.shared.configurations import MODES, names_in
from fuselight.shared.measurement_plans import TunePlan
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.terminal import print_error, standard_output
from fuselight_server.cli.measure_options import (
    add_estimate_option,
    add_search_options,
    add_timed_device_option,
    add_work_options,
    work_of,
)
from fuselight_server.cli.options import add_command_options, read_by
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.tune import TargetSearch, TuningOutcome, check_output, find_fastest
from fuselight_server.explain.pages.document import NotBuiltError, page_parts
from fuselight_server.explain.searches.planning import candidates

STOPPED = "stopped: the search ended early, and kept the best configuration so far, which is not confirmed"
STOPPED_EARLY = "stopped: no configuration was faster than default yet, so nothing was written"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json", "html"), limits=COMPILE_LIMITS, limited="candidate")
    add_search_options(parser)
    add_work_options(parser, verb="tune")
    add_timed_device_option(parser)
    add_estimate_option(parser)
    named = parser.add_mutually_exclusive_group()
    for option, what in (("--try", "also try"), ("--only", "try nothing but")):
        named.add_argument(
            option,
            dest=f"{option[2:]}_names",
            metavar="CONFIG,CONFIG",
            action="append",
            type=read_by(lambda text: candidates(names_in(text))),
            help=f"{what} these configurations, as max-autotune or default+freezing=True; repeatable",
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
        numerics=options.numerics,
        fixed_modules=options.fixed_modules,
        candidates=tuple(dict.fromkeys(name for group in given for name in group)),
        only=options.only_names is not None,
        modes=MODES if options.modes else (),
        limit_seconds=options.time_limit,
        estimates_memory=options.estimate,
    )
    check_output(options.paths, options.output)
    try:
        if options.format == "html":
            page_parts("tune")
        outcome = complete(
            options,
            find_fastest,
            plan=plan,
            output=options.output,
            has_fixes=options.fixes,
            has_artifacts=options.artifacts,
        )
        if outcome.searches or not outcome.is_stopped:
            _print(outcome, options)
    except NotBuiltError as error:
        raise CommandError(str(error)) from None
    if outcome.is_stopped:
        raise KeyboardInterrupt(STOPPED if outcome.has_result else STOPPED_EARLY)
    return exit_code(outcome.checked, outcome.searches)


def exit_code(outcome: CheckOutcome, searches: Sequence[TargetSearch]) -> int:
    """0 each target has a decision, 1 one could not be written, 2 something could not be tuned."""
    undecided = any(report.tuned is None or report.tuned.result is None for report in outcome.reports)
    if outcome.problems or undecided or not outcome.reports:
        return 2
    written = [search.written for search in searches if search.written is not None]
    return 1 if any(decision.problem and not decision.keeps_earlier for decision in written) else 0


def _print(outcome: TuningOutcome, options: argparse.Namespace) -> None:
    from fuselight_server.cli.formats import tune as formats  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    if options.format == "text":
        formats.print_searches(outcome.checked, outcome.searches, terminal)
    else:
        render = {"json": formats.as_json, "html": formats.as_html}[options.format]
        terminal.write_data(render(outcome.checked, outcome.searches))
    if options.format == "html" and len(outcome.searches) > 1:
        print_error("HTML shows the first target only; choose another with --target")
    for search in outcome.searches:
        if search.written is not None and search.written.problem:
            print_error(search.written.problem)
    report_problems(outcome.checked, "tune", is_empty=not outcome.searches)

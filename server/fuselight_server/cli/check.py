"""`fuselight check`: the editor's findings in the terminal, one worker for all files.

Invariant: the same reading, plan, worker and findings as the language server; only the printing is the command's.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from fuselight_server.base.command_error import CommandError
from fuselight_server.base.default_limits import CAPTURE_LIMITS
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_count
from fuselight_server.base.terminal import Terminal, print_error, standard_output
from fuselight_server.base.thresholds import Thresholds
from fuselight_server.cli.accuracy_options import (
    add_accuracy_options,
    asked_accuracy_plan,
    has_accuracy_options,
)
from fuselight_server.cli.options import add_command_options, add_tries_option, at_least
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.cli.world_options import add_world_options, link_option, world_option
from fuselight_server.commands.check import TRIES, ReportOf, analyze, fix_command, report_as_is
from fuselight_server.commands.known_fixes import FindingFixes, list_fixes
from fuselight_server.commands.notebook_cells import cell_names, check_in_cells

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.commands.baseline import Baseline
    from fuselight_server.commands.changed_lines import ChangedLines
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.warm import WarmOutcome

_FACT_FORMATS = ("text", "json")
"""Formats that can carry the values of expressions, and name the cells of notebooks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json", "sarif", "github"), limits=CAPTURE_LIMITS)
    parser.add_argument(
        "--facts",
        action="store_true",
        help="print the value of each traced expression: its shape, dtype and device (text and json)",
    )
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="run every target, also those of which nothing has changed since an earlier check",
    )
    add_tries_option(parser, tuple(TRIES))
    parser.add_argument(
        "--warm",
        action="store_true",
        help="start each target twice with one compile cache, too: what the second start compiles again is a finding",
    )
    parser.add_argument(
        "--accuracy",
        action="store_true",
        help="compare the results of each target's compiled calls with eager mode, too: a difference is a finding; "
        "each of the next options implies it",
    )
    add_accuracy_options(parser, prefix="accuracy-", without=("tries",))
    parser.add_argument(
        "--baseline", metavar="FILE", type=Path, help="report only findings that are not in this file"
    )
    parser.add_argument(
        "--changed-since",
        metavar="REF",
        help="report only findings on lines that differ from where this branch left REF, as in a pull request",
    )
    parser.add_argument(
        "--write-baseline",
        metavar="FILE",
        type=Path,
        help="accept all findings: write them to FILE and exit with 0",
    )
    parser.add_argument(
        "--sarif",
        metavar="FILE",
        type=Path,
        help="also write the findings to FILE as SARIF, whatever the format",
    )
    add_world_options(parser)
    add_analysis_options(parser)


def add_analysis_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that decide what `analyze` finds."""
    parser.add_argument(
        "--guard-count",
        metavar="N",
        type=at_least(0),
        default=Thresholds.guard_count,
        help="warn from this many guards on, 0 for never (default: %(default)s)",
    )
    parser.add_argument(
        "--guard-us",
        metavar="US",
        type=at_least(0.0),
        default=Thresholds.guard_us,
        help="warn when guards take this many microseconds, 0 for never (default: %(default)g)",
    )
    parser.add_argument(
        "--size",
        metavar="NAME=N",
        action="append",
        type=_named_size,
        help="size of a named dimension in shape annotations; repeatable",
    )


def execute(options: argparse.Namespace) -> int:
    """Check the targets and print the findings; returns the exit code. Raises CommandError."""
    options.world = world_option(options)
    if options.facts and options.format not in _FACT_FORMATS:
        raise CommandError(f"--facts needs --format {' or '.join(_FACT_FORMATS)}, not {options.format}")
    changed = _changed_lines(options)
    if options.sarif is not None:
        _prepare_sarif(options.sarif)
    if options.write_baseline is None and options.baseline is None:
        outcome, starts = _analyzed(options)
    else:
        from fuselight_server.commands import baseline  # noqa: PLC0415 - only with a baseline

        known = baseline.read(options.baseline) if options.baseline is not None else None
        if options.write_baseline is not None:
            baseline.check_writable(options.write_baseline)
        outcome, starts = _analyzed(options)
        if options.write_baseline is not None:
            baseline.write(options.write_baseline, outcome.findings, outcome.sources, outcome.reports)
            count = format_count(len(outcome.findings), "finding")
            print_error(f"accepted {count} in {options.write_baseline}")
            report_problems(outcome, "analyze")
            return 2 if outcome.problems else 0
        if known is not None and options.baseline is not None:
            _leave_out_known(outcome, options.baseline, known)
    if changed is not None:
        outcome.show_only(changed)
    _print(outcome, options, starts)
    if outcome.answers is not None:
        outcome.answers.save()
    if options.sarif is not None:
        _write_sarif(outcome, options.sarif)
    return max(outcome.exit_code, starts.exit_code if starts is not None and starts.targets else 0)


def _stopped_words(not_run: int) -> str:
    left = f"{format_count(not_run, 'target')} not run, and " if not_run else ""
    return f"stopped: these are the findings so far; {left}not all advice was tried"


def _leave_out_known(outcome: CheckOutcome, path: Path, known: Baseline) -> None:
    """Show the findings that a baseline does not know, and what changed of torch since it was written."""
    from fuselight_server.commands import baseline  # noqa: PLC0415 - only with a baseline
    from fuselight_server.commands.trace_conditions import changes_of_targets  # noqa: PLC0415 - the same

    new = baseline.new_findings(path, outcome.findings, outcome.sources, known)
    outcome.known = len(outcome.findings) - len(new)
    outcome.findings = new
    now = baseline.conditions_by_target(outcome.reports, path)
    outcome.since_baseline = changes_of_targets(now, known.conditions)
    if note := known.note(path):
        print_error(note)


def _changed_lines(options: argparse.Namespace) -> ChangedLines | None:
    """The lines of the change that the user asked about: read before the work, so that an error comes at once."""
    if options.changed_since is None:
        return None
    if options.write_baseline is not None:
        raise CommandError("--write-baseline accepts all findings: leave out --changed-since.")
    from fuselight_server.commands.changed_lines import changed_since  # noqa: PLC0415 - only if asked for

    return changed_since(options.changed_since, options.paths)


def _analyzed(options: argparse.Namespace) -> tuple[CheckOutcome, WarmOutcome | None]:
    """The findings, with `--warm` also both starts of each target."""
    given = analysis_options(options)
    report_of: ReportOf = report_as_is
    options.accuracy = options.accuracy or has_accuracy_options(options)
    if options.accuracy:
        from fuselight_server.commands.accuracy import with_results  # noqa: PLC0415 - only with --accuracy

        report_of = with_results(asked_accuracy_plan(options, tries=options.tries))
    tries = TRIES[options.tries]
    if not options.warm:
        kept = not options.no_cache and not options.accuracy
        is_data = options.format != "text" or options.sarif or options.write_baseline
        outcome = complete(
            options,
            analyze,
            **given,
            report_of=report_of,
            uses_kept=kept,
            tries=tries,
            keeps_partial=not is_data,  # a part of the findings would pass for all of them
        )
        return outcome, None
    from fuselight_server.commands.warm import check_warm  # noqa: PLC0415 - only with --warm

    starts = complete(options, check_warm, **given, report_of=report_of, tries=tries)
    return starts.check, starts


class AnalysisOptions(TypedDict):
    """What `add_analysis_options` declares, as use cases take it."""

    thresholds: Thresholds
    default_sizes: dict[str, int]


def analysis_options(options: argparse.Namespace) -> AnalysisOptions:
    """Return the options of `add_analysis_options`."""
    return {
        "thresholds": Thresholds(guard_count=options.guard_count, guard_us=options.guard_us),
        "default_sizes": dict(options.size or ()),
    }


def _named_size(pair: str) -> tuple[str, int]:
    name, _, number = pair.partition("=")
    if not name or not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"`{pair}` is not NAME=N, such as batch=4")
    return name, int(number)


def _print(outcome: CheckOutcome, options: argparse.Namespace, starts: WarmOutcome | None) -> None:
    terminal = standard_output(options.color)
    if options.format == "text":
        _print_text(outcome, options, starts, terminal)
        return
    from fuselight_server.cli.formats import annotations  # noqa: PLC0415 - one format is printed

    list_fixes(outcome)
    formats = {"sarif": annotations.as_sarif, "github": annotations.as_github}
    if options.format == "json":
        from fuselight_server.cli.formats.json import as_data  # noqa: PLC0415 - the same

        command, outcome = _fix_command(outcome, options), check_in_cells(outcome)
        link = link_option(options) if _has_worlds(outcome) else None
        data = as_data(outcome, with_facts=options.facts, fix_command=command, link=link)
        if _has_results(outcome):
            from fuselight_server.cli.formats.accuracy import results_as_json  # noqa: PLC0415 - only with --accuracy

            for target, report in zip(data["targets"], outcome.reports, strict=True):
                target["accuracy"] = results_as_json(report)
        if starts is not None:
            from fuselight_server.cli.formats.jobs_caches import warm_data  # noqa: PLC0415 - only with --warm

            data["starts"] = warm_data(starts)
        text = json.dumps(data, indent=2)
    else:
        text = formats[options.format](outcome)
    if text:
        terminal.write_data(text + "\n")


def _print_text(
    outcome: CheckOutcome, options: argparse.Namespace, starts: WarmOutcome | None, terminal: Terminal
) -> None:
    """Print each finding when its fixes are known: the first one does not wait for those of the others."""
    from fuselight_server.cli.formats.findings import print_findings  # noqa: PLC0415 - one format is printed

    known, names, listed = FindingFixes(outcome), cell_names(outcome), list[Finding]()
    unnamed, outcome = outcome, check_in_cells(outcome)

    def in_turn() -> Iterator[Finding]:
        for finding in unnamed.findings:
            listed.append(known.listed(finding))
            yield names.finding(listed[-1])

    if options.facts:
        from fuselight_server.cli.formats.facts import print_facts  # noqa: PLC0415 - only if asked for

        print_facts(outcome, terminal)
    print_findings(outcome, terminal, in_turn())
    unnamed.findings = listed
    command = _fix_command(unnamed, options)
    if _has_worlds(outcome):
        from fuselight_server.cli.formats.world import print_worlds  # noqa: PLC0415 - only with ranks

        print_worlds(outcome, terminal, link_option(options))
    if _has_results(outcome):
        from fuselight_server.cli.formats.accuracy import print_results  # noqa: PLC0415 - only with --accuracy

        print_results(outcome, terminal)
    if starts is not None:
        from fuselight_server.cli.formats.jobs_caches import print_warm  # noqa: PLC0415 - only with --warm

        print_warm(starts, terminal)
    if command:
        terminal.print(f"Try `{command}`: it compiles and compares each known fix before you apply it.")
    report_problems(outcome, "analyze")
    if unnamed.not_run is not None:
        raise KeyboardInterrupt(_stopped_words(unnamed.not_run))


def _fix_command(outcome: CheckOutcome, options: argparse.Namespace) -> str:
    return fix_command(outcome, tuple(options.target or ()), tuple(options.arguments))


def _prepare_sarif(path: Path) -> None:
    """Make the folder of the file; an error comes before the models run, not after. Raises CommandError."""
    place = Path(os.path.realpath(path))
    if place.is_dir():
        raise CommandError(f"`{path}` cannot be written: it is a folder. Name a file in it.")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"`{path}` cannot be written: {error.strerror or error}.") from None


def _write_sarif(outcome: CheckOutcome, path: Path) -> None:
    from fuselight.shared.foreign_files import write_whole  # noqa: PLC0415 - only if asked for
    from fuselight_server.cli.formats.annotations import as_sarif  # noqa: PLC0415 - the same

    try:
        write_whole(os.path.realpath(path), f"{as_sarif(outcome)}\n".encode(), mode=0o644)
    except OSError as error:
        raise CommandError(f"`{path}` cannot be written: {error.strerror or error}.") from None


def _has_worlds(outcome: CheckOutcome) -> bool:
    """Whether a target ran as several ranks."""
    return any(report.world is not None for report in outcome.reports)


def _has_results(outcome: CheckOutcome) -> bool:
    """Whether the results of a target were compared with eager mode."""
    return any(report.results is not None for report in outcome.reports)

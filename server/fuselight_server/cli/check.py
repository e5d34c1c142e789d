"""`fuselight check`: the editor's findings in the terminal, one worker for all files.

Invariant: the same reading, plan, worker and findings as the language server; only the printing is the command's.
"""

from __future__ import annotations

import argparse
import functools
import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fuselight.shared.codec import encode
from fuselight_server.base.formatting import format_count
from fuselight_server.base.terminal import print_error, standard_output
from fuselight_server.cli.fix_classes import FixClasses
from fuselight_server.commands.findings import SourceHints, compose_findings
from fuselight_server.commands.options import (
    CommandError,
    CommandOptions,
    add_command_options,
    at_least,
)
from fuselight_server.commands.outcome import CheckOutcome, report_problems
from fuselight_server.commands.sources import read_text, shown_path
from fuselight_server.commands.targets import complete, report_each
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.findings import Thresholds, findings
from fuselight_server.explain.findings.fixable import FixClass, has_remedies
from fuselight_server.explain.findings.priority import of_reports
from fuselight_server.explain.findings.static import example_unread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.targets import TargetRun
    from fuselight_server.execution.runs.kept_answers import KeptAnswers
    from fuselight_server.source.reading import Reading, StaticTarget


ReportOf: TypeAlias = "Callable[[TargetRun, CheckOutcome], Awaitable[Report]]"
_NO_THRESHOLDS = Thresholds()
_MOST_WITH_FIXES = 50
"""Findings for which a fix is looked up: each takes some milliseconds."""
_FACT_FORMATS = ("text", "json")
"""Formats that can carry the values of expressions."""


async def _report_of(target_run: TargetRun, _outcome: CheckOutcome) -> Report:
    return await target_run.report()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json", "sarif", "github"), seconds=120.0, memory_mb=8192)
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
    parser.add_argument(
        "--baseline", metavar="FILE", type=Path, help="report only findings that are not in this file"
    )
    parser.add_argument(
        "--write-baseline",
        metavar="FILE",
        type=Path,
        help="accept all findings: write them to FILE and exit with 0",
    )
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
    if options.facts and options.format not in _FACT_FORMATS:
        raise CommandError(f"--facts needs --format {' or '.join(_FACT_FORMATS)}, not {options.format}")
    if options.write_baseline is None and options.baseline is None:
        outcome = analyzed(options, uses_kept=not options.no_cache)
    else:
        from fuselight_server.commands import baseline  # noqa: PLC0415 - only with a baseline

        known = baseline.read(options.baseline) if options.baseline is not None else Counter()
        if options.write_baseline is not None:
            baseline.check_writable(options.write_baseline)
        outcome = analyzed(options, uses_kept=not options.no_cache)
        if options.write_baseline is not None:
            baseline.write(options.write_baseline, outcome.findings, outcome.sources)
            count = format_count(len(outcome.findings), "finding")
            print_error(f"accepted {count} in {options.write_baseline}")
            report_problems(outcome, "analyze")
            return 2 if outcome.problems else 0
        if options.baseline is not None:
            new = baseline.new_findings(options.baseline, outcome.findings, outcome.sources, known)
            outcome.known = len(outcome.findings) - len(new)
            outcome.findings = new
    _print(outcome, options)
    if outcome.answers is not None:
        outcome.answers.save()
    return outcome.exit_code


def analyzed(
    options: argparse.Namespace, report_of: ReportOf = _report_of, *, uses_kept: bool = False
) -> CheckOutcome:
    """Run the targets with the options of `add_analysis_options`; `report_of` makes the report of each."""
    thresholds = Thresholds(guard_count=options.guard_count, guard_us=options.guard_us)
    sizes = dict(options.size or ())
    return complete(
        options,
        analyze,
        thresholds=thresholds,
        default_sizes=sizes,
        report_of=report_of,
        uses_kept=uses_kept,
    )


async def analyze(
    options: CommandOptions,
    show: Callable[[str], None],
    *,
    thresholds: Thresholds = _NO_THRESHOLDS,
    default_sizes: dict[str, int] | None = None,
    report_of: ReportOf = _report_of,
    uses_kept: bool = False,
) -> CheckOutcome:
    """Read the files, run their targets one after the other in one worker, and make the findings."""
    outcome = await report_each(options, show, report_of, default_sizes=default_sizes, uses_kept=uses_kept)
    shared_findings(outcome, thresholds)
    return outcome


def shared_findings(outcome: CheckOutcome, thresholds: Thresholds = _NO_THRESHOLDS) -> None:
    """Make the findings of the outcome from its reports and readings."""
    ran = [
        finding
        for report in outcome.reports
        for finding in findings(report, thresholds=thresholds, read_line=outcome.sources.line)
        if finding.code != "FL502"
        or report.target.kind != "call"  # a problem of the command: a name it does not know
    ]
    called = {(one.location.path, one.location.line) for report in outcome.reports for one in report.frames}
    hints = [_hints(reading, outcome) for reading in outcome.readings.values()]
    kept = compose_findings(ran, hints, outcome.readings, served=called)
    outcome.findings = sorted(kept, key=lambda one: (one.span.path, one.span.start, one.code))


def _hints(reading: Reading, outcome: CheckOutcome) -> SourceHints:
    answered = {
        report.target.name
        for report in outcome.reports
        if report.inputs is not None and report.target.path == reading.path
    }
    # Where nothing of a file can run, its targets do not lack inputs.
    most = None if reading.syntax_error is None else 0
    return SourceHints(reading, answered, most, functools.partial(_example, outcome.answers, reading))


def _example(answers: KeptAnswers | None, reading: Reading, target: StaticTarget) -> str:
    """A directive's call of a target, from the signature of what it calls."""
    text = read_text(Path(reading.path))
    if not isinstance(text, str):
        return example_unread(target)
    question = ("call", text, json.dumps(encode(target), sort_keys=True))
    known = answers.recall(reading.path, *question) if answers is not None else None
    if known is not None:
        return known
    from fuselight_server.source.edits import call_for  # noqa: PLC0415 - LibCST takes as long as all else in a check

    call = call_for(text, target)
    if answers is not None:
        answers.remember(reading.path, call, (), *question)
    return call


def _named_size(pair: str) -> tuple[str, int]:
    name, _, number = pair.partition("=")
    if not name or not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"`{pair}` is not NAME=N, such as batch=4")
    return name, int(number)


def _reports_of(finding: Finding, outcome: CheckOutcome) -> list[Report]:
    """The reports that may have the finding: of targets of its name, those of its own file first."""
    path = finding.span.path
    named = [one for one in outcome.reports if (one.target.name or MAIN) == (finding.target or MAIN)]
    # Several programs have a target of that name: the one that ran the file is meant.
    ran = [one for one in named if one.target.path == path or path in one.files] or named
    return sorted(ran, key=lambda one: one.target.path != path)


def fix_command(outcome: CheckOutcome, targets: tuple[str, ...] = ()) -> str:
    """The command that tries a fix of a finding; empty where none of the first findings has a known fix.

    The line to fix first counts before others. `targets`: those that the user named.
    """
    known = FixClasses(outcome)
    changing = ""
    ranks = {
        (one.cost.path, one.cost.line): rank
        for rank, one in enumerate(of_reports(outcome.reports, outcome.findings))
    }
    fixable = sorted(
        (one for one in outcome.findings if has_remedies(one.code)),
        key=lambda one: ranks.get((one.span.path, one.span.line), len(ranks)),
    )
    for finding in fixable[:_MOST_WITH_FIXES]:
        for report in _reports_of(finding, outcome):
            classes = known.classes_of(finding, report)
            named = [f"--target {shlex.quote(name)}" for name in targets if name == report.target.name]
            command = " ".join(["fuselight fix", shlex.quote(shown_path(report.target.path)), *named])
            if classes - {FixClass.CHANGES}:
                return command
            if classes:
                changing = changing or f"{command} --allow-behavior-changes"
    return changing


def _print(outcome: CheckOutcome, options: argparse.Namespace) -> None:
    terminal = standard_output(options.color)
    if options.format == "text":
        from fuselight_server.cli.formats.findings import print_findings  # noqa: PLC0415 - one format is printed

        if options.facts:
            from fuselight_server.cli.formats.facts import print_facts  # noqa: PLC0415 - only if asked for

            print_facts(outcome, terminal)
        print_findings(outcome, terminal)
        if command := fix_command(outcome, tuple(options.target or ())):
            terminal.print(f"A fix is known: `{command}` compiles and compares it before you apply it.")
        report_problems(outcome, "analyze")
        return
    from fuselight_server.cli.formats import annotations  # noqa: PLC0415 - one format is printed

    formats = {"sarif": annotations.as_sarif, "github": annotations.as_github}
    if options.format == "json":
        from fuselight_server.cli.formats.json import as_json  # noqa: PLC0415 - the same

        command = fix_command(outcome, tuple(options.target or ()))
        text = as_json(outcome, with_facts=options.facts, fix_command=command)
    else:
        text = formats[options.format](outcome)
    if text:
        terminal.write_data(text + "\n")

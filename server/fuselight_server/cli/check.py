"""`fuselight check`: the editor's findings in the terminal, one worker for all files.

Invariant: the same reading, plan, worker and findings as the language server; only the printing is the command's.
"""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fuselight.protocol import Limits
from fuselight_server.cli import baseline as baselines
from fuselight_server.cli.formats import Format
from fuselight_server.cli.outcome import Outcome
from fuselight_server.cli.progress import shown_progress
from fuselight_server.cli.started import StartedWorker
from fuselight_server.cli.targets import planned_jobs, readings_of, texts_of, turns, unparsed
from fuselight_server.findings import Thresholds, apply_ignores, findings, static_findings
from fuselight_server.interpreters import NoInterpreterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.report import Report
    from fuselight_server.cli.targets import Job
    from fuselight_server.finding import Finding


class Colour(str, enum.Enum):
    """When to colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class CheckOptions:
    """What the command line asked for."""

    paths: tuple[Path, ...]
    targets: tuple[str, ...] = ()
    python: str | None = None
    limits: Limits = field(default_factory=Limits)
    thresholds: Thresholds = field(default_factory=Thresholds)
    default_sizes: dict[str, int] = field(default_factory=dict)
    verbose: bool = False


def check(  # noqa: PLR0917 - the parameters are the command's options, given by name
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    output_format: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TEXT,
    target: Annotated[
        Optional[list[str]],  # noqa: UP045 - evaluated at run time, on 3.10 too
        typer.Option(
            help="Run this class or function (or __main__), compiled in the source or not. Repeatable."
        ),
    ] = None,
    python: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The interpreter that has torch (else: the environment, .venv, python3)."),
    ] = None,
    baseline: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Fail on findings that this file does not know."),
    ] = None,
    write_baseline: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Accept all findings: write them to this file and exit with 0."),
    ] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for one target, 0 for none.", min=0)] = 120.0,
    memory_limit: Annotated[int, typer.Option(help="MB of memory for one target, 0 for none.", min=0)] = 8192,
    guard_count: Annotated[int, typer.Option(help="Warn from this many guards on, 0 never.", min=0)] = (
        Thresholds.guard_count
    ),
    guard_us: Annotated[float, typer.Option(help="Warn of guards this slow (us), 0 never.", min=0)] = (
        Thresholds.guard_us
    ),
    size: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="NAME=N", help="Size of a named dimension in shape annotations. Repeatable."),
    ] = None,
    colour: Annotated[Colour, typer.Option("--color", help="When to colour.")] = Colour.AUTO,
    verbose: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--verbose", "-v", help="Show the worker's log on stderr.")
    ] = False,
) -> None:
    """Show what torch.compile does to the targets in PATHS, on the lines that cause it."""
    options = CheckOptions(
        paths=tuple(paths),
        targets=tuple(target or ()),
        python=python,
        limits=Limits(seconds=time_limit, memory_mb=memory_limit),
        thresholds=Thresholds(guard_count=guard_count, guard_us=guard_us),
        default_sizes=_sizes(size or []),
        verbose=verbose,
    )
    try:
        with shown_progress(quiet=verbose) as say:
            outcome = asyncio.run(analyse(options, say))
        if write_baseline is not None:
            baselines.write(write_baseline, outcome.findings, outcome.sources)
            typer.echo(f"{len(outcome.findings)} findings accepted in {write_baseline}", err=True)
            raise typer.Exit(2 if outcome.problems else 0)
        if baseline is not None:
            new = baselines.new_findings(baseline, outcome.findings, outcome.sources)
            outcome.known = len(outcome.findings) - len(new)
            outcome.findings = new
    except (NoInterpreterError, baselines.BaselineError, OSError) as error:
        typer.echo(f"fuselight: {error}", err=True)
        raise typer.Exit(2) from None
    _print(outcome, output_format, colour)
    raise typer.Exit(outcome.exit_code)


async def analyse(options: CheckOptions, say: Callable[[str], None]) -> Outcome:
    """Read the files, run their targets one after the other in one worker, and project the reports."""
    outcome = Outcome()
    texts = texts_of(options.paths, outcome)
    worker = None
    if options.targets or any("compile" in text or "fuselight" in text for text in texts.values()):
        # torch is imported while the sources are read: nothing else in a run takes as long.
        worker = StartedWorker(options.python, options.paths[0], verbose=options.verbose)
        outcome.interpreter, outcome.why = worker.choice.executable, worker.choice.why
    try:
        readings = await asyncio.to_thread(readings_of, texts)
        jobs = planned_jobs(
            readings,
            outcome,
            targets=options.targets,
            limits=options.limits,
            default_sizes=options.default_sizes,
        )
        if jobs and worker is not None:
            await _run_all(jobs, worker, outcome, say)
    finally:
        if worker is not None:
            await worker.close()
    found = [item for report in outcome.reports for item in _findings_of(report, options, outcome)]
    for reading in readings.values():
        said = {(one.span.path, one.span.line, one.code) for one in found}
        answered = {
            report.target.name
            for report in outcome.reports
            if report.inputs is not None and report.target.path == reading.path
        }
        found += [
            one
            for one in static_findings(reading, answered=answered)
            if (one.span.path, one.span.line, one.code) not in said
            and not (one.code == "FL502" and reading.syntax_error is not None)
        ]
    outcome.problems.extend(unparsed(readings.values()))
    kept = apply_ignores(_without_repeats(found), readings)
    outcome.findings = sorted(
        kept, key=lambda one: (one.span.path, one.span.line, one.span.column or 0, one.code)
    )
    return outcome


async def _run_all(
    jobs: list[Job],
    started: StartedWorker,
    outcome: Outcome,
    say: Callable[[str], None],
) -> None:
    choice = started.choice
    say(f"starting {choice.executable} ({choice.why})")
    worker = await started.ready()
    for turn in turns(jobs, worker, choice, say):
        report = await turn.run()
        outcome.reports.append(report)
        if any(failure.kind in {"no_torch", "old_torch"} for failure in report.failures):
            return  # no other run can do better in this interpreter


def _findings_of(report: Report, options: CheckOptions, outcome: Outcome) -> list[Finding]:
    return list(findings(report, thresholds=options.thresholds, read_line=outcome.sources.line))


def _without_repeats(found: list[Finding]) -> list[Finding]:
    """Two targets that share a line find the same thing there: it is shown once, for the first."""
    seen = set()
    out = []
    for one in found:
        key = (one.span, one.code, one.title)
        if key not in seen:
            seen.add(key)
            out.append(one)
    return out


def _sizes(pairs: list[str]) -> dict[str, int]:
    out = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        if not name or not number.isdecimal() or int(number) == 0:
            raise typer.BadParameter(f"{pair!r} is not NAME=N, as batch=4", param_hint="--size")
        out[name] = int(number)
    return out


def _print(outcome: Outcome, output_format: Format, colour: Colour) -> None:
    if output_format is Format.TEXT:
        from rich.console import Console  # noqa: PLC0415 - only for people

        from fuselight_server.cli.formats.text import print_text  # noqa: PLC0415

        force = {Colour.AUTO: None, Colour.ALWAYS: True, Colour.NEVER: None}[colour]
        plain = colour is Colour.NEVER
        console = Console(
            force_terminal=force, no_color=plain or None, highlight=False, emoji=False, markup=False
        )
        print_text(outcome, console)
        return
    if output_format is Format.JSON:
        from fuselight_server.cli.formats.json import as_json as render  # noqa: PLC0415
    elif output_format is Format.SARIF:
        from fuselight_server.cli.formats.sarif import as_sarif as render  # noqa: PLC0415
    else:
        from fuselight_server.cli.formats.github import as_github as render  # noqa: PLC0415
    text = render(outcome)
    if text:
        typer.echo(text)

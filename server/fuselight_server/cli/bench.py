"""`fuselight bench`: eager against compiled, timed on the device that is there, with the time of each line.

Invariant: what is printed was measured in this run; exit code 0 where all of it was, 1 where results are not eager's, 2
where something could not be measured.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fuselight.configurations import ConfigurationError, names_in
from fuselight.protocol import Limits, MeasurePlan
from fuselight.report import Culprit, Failure, Work
from fuselight_server.cli.progress import shown_progress
from fuselight_server.cli.sources import shown_path
from fuselight_server.cli.started import StartedWorker
from fuselight_server.cli.targets import NO_TARGET, report_each
from fuselight_server.finding import Severity
from fuselight_server.findings.refusals import refused_report
from fuselight_server.interpreters import NoInterpreterError
from fuselight_server.measured.exports import (
    NotBuiltError,
    NotReadError,
    OtherTargetError,
    from_json,
    page_parts,
    text_of,
)
from fuselight_server.measured.history import NotKeptError, run_of
from fuselight_server.measured.planning import configurations, history_of, measure_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.report import Report
    from fuselight_server.cli.outcome import Outcome
    from fuselight_server.cli.targets import Turn
    from fuselight_server.measured.history import Run

LAST = "last"
"""Names the newest run before this one."""
STOPPED = "stopped: what has come to its end lies in the history, the rest was not kept"


class BenchFormat(str, enum.Enum):
    """How to print."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    HTML = "html"


class AgainstError(Exception):
    """There is no such run to compare with."""


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """What the command line asked for."""

    paths: tuple[Path, ...]
    targets: tuple[str, ...] = ()
    compare: tuple[str, ...] = ()
    """None named: eager, and the target as the source compiles it, else `default`."""
    plan: MeasurePlan = dataclasses.field(default_factory=MeasurePlan)
    against: str | None = None
    python: str | None = None
    memory_mb: int = 0
    verbose: bool = False


@dataclasses.dataclass
class Benched:
    """One target: its run, and the one that it is compared with."""

    report: Report
    run: Run | None
    before: Run | None = None


def bench(  # noqa: PLR0917 - the parameters are the command's options, given by name
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    target: Annotated[
        Optional[list[str]],  # noqa: UP045 - evaluated at run time, on 3.10 too
        typer.Option(help="Measure this class or function alone. Repeatable."),
    ] = None,
    compare: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="eager,default,...",
            help="Configurations: eager, written, dynamic, torch.compile's modes, backend:NAME, each with +dynamic, "
            "+fullgraph, +OPTION=VALUE behind it, a VALUE with a comma in quotes (else: eager, and as the source "
            "compiles it). Repeatable.",
        ),
    ] = None,
    train: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--train", help="Measure forward and backward.")
    ] = False,
    step: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--step", help="Measure a training step: forward, backward and an SGD step.")
    ] = False,
    rounds: Annotated[int, typer.Option(help="How often the configurations take turns.", min=2)] = 10,
    seconds: Annotated[float, typer.Option(help="Of timed calls for each configuration.", min=0.01)] = 2.0,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:1 (else: the GPU that is there, else the CPU).")
    ] = "",
    cold_cache: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--cold-cache", help="Clear the device's L2 cache before each timed call.")
    ] = False,
    isolated: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--isolated", help="Run each generated kernel alone as well.")
    ] = False,
    accuracy: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--accuracy/--no-accuracy", help="Compare results with eager's.")
    ] = True,
    profile: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--profile/--no-profile", help="Take the time of each kernel and line.")
    ] = True,
    against: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="RUN|FILE",
            help="Compare with an earlier run (`last`, or its id), the JSON of one, or another file's last.",
        ),
    ] = None,
    output_format: Annotated[BenchFormat, typer.Option("--format", help="How to print.")] = BenchFormat.TEXT,
    python: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The interpreter that has torch (else: the environment, .venv, python3)."),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for one configuration, 0 for none.", min=0)
    ] = 600.0,
    memory_limit: Annotated[
        int, typer.Option(help="MB of memory for one configuration, 0 for none.", min=0)
    ] = 16384,
    verbose: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--verbose", "-v", help="Show the worker's log on stderr.")
    ] = False,
) -> None:
    """Time the targets in PATHS: eager against compiled, checked for accuracy, with the time of each line."""
    work = Work.TRAINING_STEP if step else Work.FORWARD_BACKWARD if train else None
    plan = MeasurePlan(
        work=work, rounds=rounds, seconds=seconds, limit_seconds=time_limit, cold_cache=cold_cache,
        accuracy=accuracy, profile=profile, isolated=isolated, device=device.strip(),
    )  # fmt: skip
    try:
        names = tuple(name for text in compare or () for name in names_in(text))
        configurations(names, compiled=False)  # what cannot be read is told before anything runs
        if output_format is BenchFormat.HTML:
            page_parts()
        options = BenchOptions(
            tuple(paths), tuple(target or ()), names, plan, against, python, memory_limit, verbose,
        )  # fmt: skip
        with shown_progress(quiet=verbose) as say:
            outcome, benched = asyncio.run(measure(options, say))
        _print(outcome, benched, output_format)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint="--compare") from None
    except (AgainstError, NoInterpreterError, NotBuiltError, OSError) as error:
        typer.echo(f"fuselight: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo(f"fuselight: {STOPPED}", err=True)
        raise typer.Exit(130) from None  # as a shell tells of Ctrl-C
    raise typer.Exit(exit_code(outcome))


def exit_code(outcome: Outcome) -> int:
    """0 all was measured and is right, 1 results are not eager's, 2 something could not be measured."""
    failed = any(
        report.failures
        or report.measured is None
        or not report.measured.finished
        or any(one.failure is not None for one in report.measured.configurations)
        for report in outcome.reports
    )
    if outcome.problems or failed or not outcome.reports:
        return 2
    found = [one for report in outcome.reports for one in outcome.of_measured(report)]
    return int(any(one.severity >= Severity.WARNING for one in found))


async def measure(options: BenchOptions, say: Callable[[str], None]) -> tuple[Outcome, list[Benched]]:
    """Measure every target, one after the other; one whose other run is not there is told as a failure.

    Raises AgainstError where nothing can be compared with what was named.
    """
    benched: list[Benched] = []
    exported = _exported(options.against)

    async def report_of(turn: Turn, outcome: Outcome) -> Report:
        asked = turn.request.target
        names = configurations(options.compare, compiled=asked.compiled)
        plan = dataclasses.replace(options.plan, configurations=names)
        try:
            before = _before(options.against, exported, asked.path, asked.name)
        except AgainstError as error:  # the targets before it were measured, those behind it may be
            failure = Failure(Culprit.USER, "against", str(error), "Measure it without --against")
            report = refused_report(turn.request, failure, None)
            benched.append(Benched(report, None))
            return report
        report = await turn.run(measure_request(turn.request, plan))
        benched.append(_kept(report, before, outcome, asked.path, asked.name))
        return report

    # To look into a process stops it, and what is measured then is wrong: no run is sampled.
    worker = StartedWorker(options.python, options.paths[0], verbose=options.verbose, sample_after=0.0)
    limits = Limits(seconds=options.plan.limit_seconds, memory_mb=options.memory_mb)
    outcome = await report_each(options.paths, worker, say, report_of, targets=options.targets, limits=limits)
    return outcome, benched


def _kept(report: Report, before: Run | None, outcome: Outcome, path: str, target: str) -> Benched:
    """Keep a benchmark that came to its end beside the earlier ones; that it cannot be is told."""
    history = history_of(path, target)
    run = run_of(report, str(history.store.folder.parent), outcome.sources.line)
    if run is not None:
        try:
            run = history.keep(run) or run
        except NotKeptError as error:
            typer.echo(f"fuselight: {error}", err=True)
    return Benched(report, run, before)


def _exported(against: str | None) -> str | None:
    """The text of an export that is named; None for anything else. Raises AgainstError where it is no export."""
    if against is None or not against.endswith(".json"):
        return None
    try:
        return text_of(against)
    except NotReadError as error:
        raise AgainstError(str(error)) from None


def _before(against: str | None, exported: str | None, path: str, target: str) -> Run | None:
    """The run to compare with. Raises AgainstError."""
    if against is None:
        return None
    if exported is not None:
        try:
            return from_json(exported, target, path)
        except OtherTargetError as error:
            raise AgainstError(f"{against}: {error}") from None
    other = Path(against)
    if other.suffix == ".py":
        run = history_of(str(other.absolute()), target).newest()
        if run is None:
            what = f"{against} has no benchmark of {target or '__main__'}"
            raise AgainstError(f"{what}: `fuselight bench {against}` makes one")
        return run
    history = history_of(path, target)
    run = history.newest() if against == LAST else history.read(against)
    if run is None:
        there = ", ".join(one.id for one in history.runs())
        offer = f"there are {there}" if there else "none was made yet"
        raise AgainstError(f"{shown_path(path)}: {target or '__main__'} has no run {against!r}: {offer}")
    return run


def _print(outcome: Outcome, benched: list[Benched], output_format: BenchFormat) -> None:
    from fuselight_server.cli.formats import bench_text  # noqa: PLC0415 - only for people
    from fuselight_server.cli.formats.bench_data import as_csv, as_html, as_json  # noqa: PLC0415

    if output_format is BenchFormat.TEXT:
        from rich.console import Console  # noqa: PLC0415 - the same

        bench_text.print_benchmarks(outcome, benched, Console(highlight=False, emoji=False, markup=False))
        return
    made = {BenchFormat.JSON: as_json, BenchFormat.CSV: as_csv, BenchFormat.HTML: as_html}[output_format]
    typer.echo(made(outcome, benched), nl=False)
    if output_format is BenchFormat.HTML and len(benched) > 1:
        typer.echo("fuselight: HTML is of the first target; choose another with --target", err=True)
    if output_format is not BenchFormat.JSON:  # which has them
        for one in benched:
            name = f"{shown_path(one.report.target.path)}: {one.report.target.name or '__main__'}"
            for failure in one.report.failures:
                typer.echo(f"fuselight: {name}: {failure.message}. {failure.next_step}".rstrip(), err=True)
    for problem in outcome.problems:
        typer.echo(f"fuselight: cannot measure {problem.what}: {problem.why}", err=True)
    if not benched and not outcome.problems:
        typer.echo(f"fuselight: {NO_TARGET}", err=True)

"""`fuselight kernels`: the kernels that each line becomes, for a device that need not be there.

Invariant: times are estimates and say so; nothing was launched.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fuselight.devices import AUTO, FALLBACK, UnknownDevice, find
from fuselight.protocol import Limits
from fuselight.report import KernelKind, Problem, Tier
from fuselight_server.cli.outcome import Details
from fuselight_server.cli.progress import shown_progress
from fuselight_server.cli.started import StartedWorker
from fuselight_server.cli.targets import report_each
from fuselight_server.interpreters import NoInterpreterError
from fuselight_server.kernel_cache import cache_of, keep
from fuselight_server.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.report import Device, Report
    from fuselight_server.cli.outcome import Outcome
    from fuselight_server.cli.targets import Turn


class Assembly(str, enum.Enum):
    """Which text of a kernel to show."""

    TTIR = "ttir"
    TTGIR = "ttgir"
    LLIR = "llir"
    PTX = "ptx"
    SASS = "sass"
    AMDGCN = "amdgcn"


class KernelFormat(str, enum.Enum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


@dataclasses.dataclass(frozen=True)
class KernelOptions:
    """What the command line asked for."""

    paths: tuple[Path, ...]
    device: Device | None
    """None: the GPU that is there, else the catalogue's FALLBACK."""
    targets: tuple[str, ...] = ()
    resources: bool = False
    """Whether to compile the Triton kernels as well."""
    disassemble: bool = False
    """Whether their SASS is wanted, too."""
    python: str | None = None
    limits: Limits = dataclasses.field(default_factory=Limits)
    verbose: bool = False


def kernels(  # noqa: PLR0917 - the parameters are the command's options, given by name
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    target: Annotated[
        Optional[list[str]],  # noqa: UP045 - evaluated at run time, on 3.10 too
        typer.Option(help="Generate for this class or function alone. Repeatable."),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help=f"What to generate for: h100, rtx-4090, cpu, ... (auto: the GPU here, else {FALLBACK})."
        ),
    ] = AUTO,
    output_format: Annotated[
        KernelFormat, typer.Option("--format", help="How to print.")
    ] = KernelFormat.TEXT,
    source: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--source", help="Show the source of each kernel.")
    ] = False,
    graphs: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--graphs", help="Show AOTAutograd's graphs: joint, forward and backward.")
    ] = False,
    asm: Annotated[
        Optional[Assembly],  # noqa: UP045
        typer.Option(help="Compile each Triton kernel and show this text of it."),
    ] = None,
    resources: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--resources", help="Compile each Triton kernel: registers, spills, occupancy.")
    ] = False,
    why: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="LINE:LINE", help="Say whether two lines are fused, and why not. Repeatable."),
    ] = None,
    python: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The interpreter that has torch (else: the environment, .venv, python3)."),
    ] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for one target, 0 for none.", min=0)] = 600.0,
    memory_limit: Annotated[
        int, typer.Option(help="MB of memory for one target, 0 for none.", min=0)
    ] = 16384,
    verbose: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--verbose", "-v", help="Show the worker's log on stderr.")
    ] = False,
) -> None:
    """Show the kernels that each line of the targets in PATHS becomes on a GPU, present or not."""
    pairs = tuple(map(_pair, why or []))
    try:
        chosen = None if device.strip().lower() == AUTO else find(device)
        options = KernelOptions(
            paths=tuple(paths),
            device=chosen,
            targets=tuple(target or ()),
            resources=resources or asm is not None,
            disassemble=asm is Assembly.SASS,
            python=python,
            limits=Limits(seconds=time_limit, memory_mb=memory_limit),
            verbose=verbose,
        )
        with shown_progress(quiet=verbose) as say:
            outcome = asyncio.run(generate(options, say))
    except (UnknownDevice, NoInterpreterError, OSError) as error:
        typer.echo(f"fuselight: {error}", err=True)
        raise typer.Exit(2) from None
    shown = Details(source=source, graphs=graphs, asm=asm.value if asm else None)
    if output_format is KernelFormat.JSON:
        from fuselight_server.cli.formats.kernels_json import as_json  # noqa: PLC0415

        typer.echo(as_json(outcome, shown, pairs=pairs))
    else:
        from rich.console import Console  # noqa: PLC0415 - only for people

        from fuselight_server.cli.formats.kernels_text import print_kernels  # noqa: PLC0415

        console = Console(highlight=False, emoji=False, markup=False)
        print_kernels(outcome, console, shown, pairs=pairs)
    failed = any(report.failures for report in outcome.reports)
    unlearnt = any(problem.stage != "cache" for problem in outcome.problems)
    raise typer.Exit(2 if unlearnt or failed or not outcome.reports else 0)


async def generate(options: KernelOptions, say: Callable[[str], None]) -> Outcome:
    """Generate the kernels of every target, one after the other in one worker."""

    async def report_of(turn: Turn, outcome: Outcome) -> Report:
        request = dataclasses.replace(turn.request, tier=Tier.KERNELS, device=options.device)
        generating = dataclasses.replace(turn, request=request)
        report = await _cached_or_run(generating, outcome)
        if not options.resources:
            return report
        return await _with_resources(report, generating, disassemble=options.disassemble)

    worker = StartedWorker(options.python, options.paths[0], verbose=options.verbose)
    return await report_each(
        options.paths, worker, say, report_of, targets=options.targets, limits=options.limits
    )


async def _cached_or_run(turn: Turn, outcome: Outcome) -> Report:
    """The report of the cache, if nothing has changed; else one that is kept there."""
    request = turn.request
    store = Store.of(Path(request.target.path))
    if turn.worker.hello is not None:
        found = cache_of(store).find(request, turn.worker.hello.versions)
        if found.report is not None:
            return found.report
    report = await turn.run()
    problem = keep(store, request, report)
    if problem is not None:
        outcome.problems.append(Problem("cache", request.target.name or "__main__", problem))
    return report


async def _with_resources(report: Report, turn: Turn, *, disassemble: bool) -> Report:
    """The report with each of its Triton kernels compiled for the device."""
    wanted = {
        kernel.text_key: report.texts[kernel.text_key]
        for graph in report.generated
        for kernel in graph.kernels
        if kernel.text_key and kernel.kind in {KernelKind.TRITON, KernelKind.TEMPLATE}
    }
    if not wanted:
        return report
    asked = dataclasses.replace(turn.request, assemble=tuple(wanted.values()), disassemble=disassemble)
    compiled = await turn.run(asked)
    failures = (*report.failures, *compiled.failures)
    return dataclasses.replace(report, assembled=compiled.assembled, failures=failures)


def _pair(text: str) -> tuple[int, int]:
    first, _, second = text.partition(":")
    if not (first.isdecimal() and second.isdecimal()):
        raise typer.BadParameter(f"{text!r} is not LINE:LINE, as 12:13", param_hint="--why")
    return int(first), int(second)

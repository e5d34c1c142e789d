"""`fuselight kernels`: the kernels that each line becomes, for a device that may be absent.

Invariant: times are estimates and say so; nothing was launched.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.devices import AUTO, FALLBACK, UnknownDevice, find
from fuselight.shared.protocol import AssembleRequest, GenerateRequest
from fuselight.shared.report import KernelKind, Problem
from fuselight_server.base.store import Store
from fuselight_server.base.terminal import standard_output
from fuselight_server.commands.options import CommandOptions, add_command_options
from fuselight_server.commands.outcome import Details, report_problems
from fuselight_server.commands.targets import complete, report_each
from fuselight_server.execution.runs.kernel_cache import KernelCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.report import Device, Report
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun

ASSEMBLIES = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), seconds=600.0, memory_mb=16384)
    parser.add_argument(
        "--device",
        type=_device,
        metavar="NAME",
        help=f"target GPU: h100, rtx-4090, ..., or cpu (default: this machine's GPU, or {FALLBACK} if none)",
    )
    parser.add_argument("--source", action="store_true", help="show the source of each kernel")
    parser.add_argument(
        "--graphs", action="store_true", help="show AOTAutograd's graphs: joint, forward and backward"
    )
    parser.add_argument(
        "--asm", choices=ASSEMBLIES, help="compile each Triton kernel and show its code at this level"
    )
    parser.add_argument(
        "--resources", action="store_true", help="compile each Triton kernel: registers, spills, occupancy"
    )
    parser.add_argument(
        "--why",
        metavar="LINE:LINE",
        action="append",
        type=_pair_of_lines,
        help="show whether two lines are fused, and why not; repeatable",
    )


def execute(options: argparse.Namespace) -> int:
    """Generate the kernels and print them; returns the exit code."""
    resources = options.resources or options.asm is not None
    is_sass = options.asm == "sass"
    outcome = complete(options, generate, device=options.device, resources=resources, disassemble=is_sass)
    from fuselight_server.cli.formats.kernels import as_json, print_kernels  # noqa: PLC0415 - not for --help

    pairs = tuple(options.why or ())
    details = Details(source=options.source, graphs=options.graphs, asm=options.asm, pairs=pairs)
    terminal = standard_output(options.color)
    if options.format == "json":
        terminal.write_data(as_json(outcome, details) + "\n")
    else:
        print_kernels(outcome, terminal, details)
        report_problems(outcome, "analyze", is_empty=not outcome.reports)
    has_failed = any(report.failures for report in outcome.reports)
    is_incomplete = any(problem.stage != "cache" for problem in outcome.problems)
    return 2 if is_incomplete or has_failed or not outcome.reports else 0


async def generate(
    options: CommandOptions,
    show: Callable[[str], None],
    *,
    device: Device | None,
    resources: bool = False,
    disassemble: bool = False,
) -> CheckOutcome:
    """Generate the kernels of every target, one after the other in one worker.

    `device`: None for this machine's GPU, else the catalogue's FALLBACK. `resources`: whether to compile the Triton
    kernels; `disassemble`: whether to make their SASS.
    """

    async def report_of(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        request = target_run.request.of_kind(GenerateRequest, device=device)
        generating = dataclasses.replace(target_run, request=request)
        report = await _cached_or_run(generating, outcome)
        if not resources:
            return report
        return await _with_resources(report, generating, disassemble=disassemble)

    return await report_each(options, show, report_of)


async def _cached_or_run(target_run: TargetRun, outcome: CheckOutcome) -> Report:
    """The report of the cache if nothing has changed, else that of a run, which the cache then keeps."""
    request = target_run.request
    cache = KernelCache(Store.of(Path(request.target.path)))
    if target_run.worker.hello is not None:
        found = cache.find(request, target_run.worker.hello.versions)
        if found.report is not None:
            return found.report
    report = await target_run.report()
    problem = cache.keep(request, report)
    if problem is not None:
        outcome.problems.append(Problem("cache", request.target.name or "__main__", problem))
    return report


async def _with_resources(report: Report, target_run: TargetRun, *, disassemble: bool) -> Report:
    """The report with each of its Triton kernels compiled for the device."""
    wanted = {
        kernel.text_key: report.texts[kernel.text_key]
        for graph in report.generated
        for kernel in graph.kernels
        if kernel.text_key and kernel.kind in {KernelKind.TRITON, KernelKind.TEMPLATE}
    }
    if not wanted:
        return report
    asked = target_run.request.of_kind(
        AssembleRequest,
        device=report.target_device,
        sources=tuple(wanted.values()),
        disassemble=disassemble,
    )
    compiled = await target_run.report(asked)
    failures = (*report.failures, *compiled.failures)
    return dataclasses.replace(report, assembled=compiled.assembled, failures=failures)


def _device(name: str) -> Device | None:
    try:
        return None if name.strip().lower() == AUTO else find(name)
    except UnknownDevice as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _pair_of_lines(text: str) -> tuple[int, int]:
    first, _, second = text.partition(":")
    if not (first.isdecimal() and second.isdecimal()):
        raise argparse.ArgumentTypeError(f"`{text}` is not LINE:LINE, such as 12:13")
    return int(first), int(second)

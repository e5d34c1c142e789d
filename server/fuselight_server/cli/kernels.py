"""`fuselight kernels`: the kernels that each line becomes, for a device that may be absent.

Invariant: times are estimates and say so; nothing was launched.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fuselight.shared.devices import AUTO, FALLBACK, UnknownDevice, find
from fuselight_server.base.terminal import standard_output
from fuselight_server.cli.options import add_command_options
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.kernels import generate
from fuselight_server.commands.notebook_cells import check_in_cells

if TYPE_CHECKING:
    from fuselight.shared.report import Device

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
    from fuselight_server.cli.formats.kernels import Details, as_json, print_kernels  # noqa: PLC0415 - not for --help

    pairs = tuple(options.why or ())
    details = Details(source=options.source, graphs=options.graphs, asm=options.asm, pairs=pairs)
    terminal = standard_output(options.color)
    outcome = check_in_cells(outcome)
    if options.format == "json":
        terminal.write_data(as_json(outcome, details) + "\n")
    else:
        print_kernels(outcome, terminal, details)
        report_problems(outcome, "analyze", is_empty=not outcome.reports)
    has_failed = any(report.failures for report in outcome.reports)
    is_incomplete = any(problem.stage != "cache" for problem in outcome.problems)
    return 2 if is_incomplete or has_failed or not outcome.reports else 0


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

"""`fuselight kernels`: the kernels that each line becomes, for a device that may be absent.

Invariant: times are estimates and say so; nothing was launched.
"""

from __future__ import annotations

import argparse

from fuselight.shared.devices import FALLBACK
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.terminal import standard_error, standard_output
from fuselight_server.cli.options import add_command_options, device_option
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.kernels import generate
from fuselight_server.commands.notebook_cells import check_in_cells
from fuselight_server.commands.notebook_lines import NamedLine

ASSEMBLIES = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")
_NUMBERS = (2, 4)
"""In a pair of lines: with and without their cells."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), limits=COMPILE_LIMITS)
    parser.add_argument(
        "--device",
        type=device_option,
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
        "--configurations",
        action="store_true",
        help="compile every configuration of @triton.autotune in your own kernels, and list them side by side",
    )
    parser.add_argument(
        "--keep-fastest",
        action="store_true",
        help="leave @triton.autotune in your files with the configurations that it measured to be fastest, on a GPU",
    )
    parser.add_argument(
        "--why",
        metavar="LINE:LINE|CELL:LINE:CELL:LINE",
        action="append",
        type=_pair_of_lines,
        help="show whether two lines are fused, and why not; in a notebook, LINE is of the target's cell; repeatable",
    )


def execute(options: argparse.Namespace) -> int:
    """Generate the kernels and print them; returns the exit code."""
    named: list[tuple[NamedLine, NamedLine]] = options.why or []
    pairs = tuple(named)
    other = next((path for path in options.paths if not str(path).endswith(SUFFIX)), None)
    if other is not None and any(line.cell is not None for pair in pairs for line in pair):
        raise CommandError(f"--why names cells, and `{other}` is no notebook. Write LINE:LINE")
    resources = options.resources or options.asm is not None or options.configurations or options.keep_fastest
    outcome = complete(
        options,
        generate,
        device=options.device,
        resources=resources,
        disassemble=options.asm == "sass",
        configurations=options.configurations,
    )
    from fuselight_server.cli.formats.kernels import Details, as_json, print_kernels  # noqa: PLC0415 - not for --help

    details = Details(source=options.source, graphs=options.graphs, asm=options.asm, pairs=pairs)
    terminal = standard_output(options.color)
    outcome = check_in_cells(outcome)
    if options.format == "json":
        terminal.write_data(as_json(outcome, details) + "\n")
    else:
        print_kernels(outcome, terminal, details)
        report_problems(outcome, "analyze", is_empty=not outcome.reports)
    if options.keep_fastest:
        from fuselight_server.cli.formats.kept_configurations import print_kept  # noqa: PLC0415 - not for --help
        from fuselight_server.commands.fastest_configurations import write_fastest  # noqa: PLC0415 - the same

        print_kept(write_fastest(outcome.reports), standard_error(options.color))
    has_failed = any(report.failures for report in outcome.reports)
    is_incomplete = any(problem.stage != "cache" for problem in outcome.problems)
    return 2 if is_incomplete or has_failed or not outcome.reports else 0


def _pair_of_lines(text: str) -> tuple[NamedLine, NamedLine]:
    parts = text.split(":")
    if not all(map(str.isdecimal, parts)) or len(parts) not in _NUMBERS:
        raise argparse.ArgumentTypeError(
            f"`{text}` is not LINE:LINE, such as 12:13, nor CELL:LINE:CELL:LINE, such as 2:1:2:3"
        )
    numbers = list(map(int, parts))
    if len(numbers) == _NUMBERS[0]:
        return NamedLine(numbers[0]), NamedLine(numbers[1])
    cell, line, other_cell, other_line = numbers
    return NamedLine(line, cell), NamedLine(other_line, other_cell)

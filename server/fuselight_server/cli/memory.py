"""`fuselight memory`: what a call or a training step of each target allocates, on a device that may be absent.

Invariant: exit code 0 only if each target was estimated and fits.
"""

from __future__ import annotations

import argparse

from fuselight.shared.devices import FALLBACK
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.terminal import standard_output
from fuselight_server.cli.options import add_command_options, add_training_options, device_option
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.cli.world_options import add_world_options, world_option
from fuselight_server.commands.memory import (
    OPTIMIZERS,
    SAVINGS_SECONDS,
    MemoryOutcome,
    MemoryPlan,
    estimate_memory,
    exit_code,
)
from fuselight_server.commands.notebook_cells import check_in_cells


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json", "html"), limits=COMPILE_LIMITS)
    device = parser.add_mutually_exclusive_group()
    device.add_argument(
        "--measure",
        action="store_true",
        help="also run each step on the device of the target's tensors, and measure what its allocator gives",
    )
    device.add_argument(
        "--device",
        type=device_option,
        metavar="NAME",
        help=f"target GPU: h100, rtx-4090, ..., or cpu (default: this machine's GPU, or {FALLBACK} if none)",
    )
    parser.add_argument(
        "--by",
        choices=("line", "module"),
        default="line",
        help="what is allocated at the peak: by line, or by module, each with those in it (default: %(default)s)",
    )
    add_world_options(parser)
    add_training_options(
        parser,
        training="estimate a training step: forward, backward and optimizer",
        inference="estimate the call alone",
    )
    parser.add_argument(
        "--batch",
        metavar="N,N,...",
        type=_batches,
        default=(),
        help="first sizes of the inputs, in place of the directive's",
    )
    parser.add_argument(
        "--largest-batch",
        action="store_true",
        help="search the largest batch that fits, in eager mode and compiled",
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="compile all layers of a large target, also where few of many equal ones predict its peak",
    )
    parser.add_argument(
        "--savings",
        action="store_true",
        help="try what would need less in training: points of activation_memory_budget, checkpointed modules, changes "
        "of the source, whose results are compared",
    )
    parser.add_argument(
        "--savings-time",
        metavar="SECONDS",
        type=float,
        default=SAVINGS_SECONDS,
        help="with --savings, how long changes are tried (default: %(default)g)",
    )
    parser.add_argument(
        "--optimizer",
        choices=OPTIMIZERS,
        default=OPTIMIZERS[0],
        help="the optimizer of a training step; sgd has momentum (default: %(default)s)",
    )


def execute(options: argparse.Namespace) -> int:
    """Estimate the targets and print what they need; returns the exit code."""
    options.world = world_option(options)
    plan = MemoryPlan(
        options.device,
        options.training,
        options.optimizer,
        options.batch,
        finds_largest=options.largest_batch,
        tries_savings=options.savings,
        savings_seconds=options.savings_time,
        measures=options.measure,
        is_exact=options.exact,
    )
    outcome = complete(options, estimate_memory, plan=plan)
    outcome = MemoryOutcome(check_in_cells(outcome.check), outcome.largest)
    from fuselight_server.cli.formats.memory import (  # noqa: PLC0415 - not for --help
        memory_as_json,
        memory_as_page,
        print_memory,
    )

    terminal = standard_output(options.color)
    if options.format == "json":
        terminal.write_data(memory_as_json(outcome) + "\n")
    elif options.format == "html":
        terminal.write_data(memory_as_page(outcome) + "\n")
    else:
        print_memory(outcome, terminal, by_module=options.by == "module")
        report_problems(outcome.check, "estimate", is_empty=not outcome.check.reports)
    return exit_code(outcome.check)


def _batches(text: str) -> tuple[int, ...]:
    sizes = text.split(",")
    if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"`{text}` is not a list of sizes, such as 8,16,32")
    return tuple(dict.fromkeys(map(int, sizes)))

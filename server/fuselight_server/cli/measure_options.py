"""Options of the commands that time a target: configurations, the work of a call, and the duration.

Invariant: a configuration that cannot be read is an error of the command line, before anything runs.
"""

from __future__ import annotations

import argparse
import re

from fuselight.shared.configurations import ConfigurationError, names_in
from fuselight.shared.devices import UnknownDevice, find
from fuselight.shared.report import Work
from fuselight_server.cli.options import at_least
from fuselight_server.explain.benchmarks.planning import configurations
from fuselight_server.explain.searches.planning import budget_seconds


def add_measure_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that `work_of` and `asked_configurations` read, `--rounds`, `--seconds`, `--accuracy`."""
    parser.add_argument(
        "--compare",
        metavar="NAME,NAME",
        action="append",
        type=_configurations,
        help="configurations: eager, written (as in source), dynamic, the modes of torch.compile, backend:NAME, each "
        "with +dynamic, +fullgraph, +OPTION=VALUE after it, a VALUE with a comma in quotes; repeatable "
        "(default: eager and written)",
    )
    add_work_options(parser, verb="measure")
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=at_least(2),
        default=10,
        help="number of interleaved rounds (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=at_least(0.01),
        default=2.0,
        help="seconds of timed calls for each configuration (default: %(default)g)",
    )
    parser.add_argument(
        "--accuracy",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compare results with eager's",
    )


def add_work_options(parser: argparse.ArgumentParser, *, verb: str) -> None:
    """Declare `--train` and `--step`, which `work_of` reads."""
    work = parser.add_mutually_exclusive_group()
    work.add_argument("--train", action="store_true", help=f"{verb} forward and backward")
    work.add_argument(
        "--step", action="store_true", help=f"{verb} a training step: forward, backward and SGD"
    )


_TIMED_ON = "cpu, cuda or cuda:1 (default: this machine's GPU, or the CPU if none)"


def add_timed_device_option(parser: argparse.ArgumentParser) -> None:
    """Declare `--device`: what to run on, which must be present."""
    parser.add_argument("--device", type=_timed_device, default="", help=_TIMED_ON)


def add_estimate_option(parser: argparse.ArgumentParser) -> None:
    """Declare `--estimate`: whether memory is estimated besides what is measured."""
    parser.add_argument(
        "--estimate",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also estimate the peak memory, after all that is measured",
    )


def _timed_device(text: str) -> str:
    name = text.strip()
    if re.fullmatch(r"cpu|cuda(:\d+)?|", name.lower()):
        return name
    try:
        key = find(name).key
    except UnknownDevice:
        raise argparse.ArgumentTypeError(
            f"there is no device `{name}`: name cpu, cuda, or a GPU by its number, as cuda:1"
        ) from None
    raise argparse.ArgumentTypeError(
        f"`{name}` names a GPU that may be absent, for which kernels are generated but never timed. Time on cpu, cuda "
        f"or cuda:1, or see the estimates of `fuselight kernels --device {key}`"
    )


def work_of(options: argparse.Namespace) -> Work | None:
    """The work of one call that the options name; None: what the target's inputs say."""
    return Work.TRAINING_STEP if options.step else Work.FORWARD_BACKWARD if options.train else None


def asked_configurations(options: argparse.Namespace) -> tuple[str, ...]:
    """The configurations to compare; none: the default."""
    return tuple(name for group in options.compare or () for name in group)


def _configurations(text: str) -> tuple[str, ...]:
    try:
        names = names_in(text)
        configurations(names, compiled=False)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return tuple(names)


def search_budget(text: str) -> float:
    """The seconds of `120s` or `2m`. Raises argparse.ArgumentTypeError."""
    try:
        return budget_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None

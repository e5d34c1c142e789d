"""Options of the commands that time a target: configurations, the work of a call, and the duration.

Invariant: a configuration that cannot be read is an error of the command line, before anything runs.
"""

from __future__ import annotations

import argparse
import re

from fuselight.shared.configurations import names_in
from fuselight.shared.devices import UnknownDevice, find
from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.report import Numerics, Work
from fuselight_server.cli.options import at_least, read_by
from fuselight_server.explain.benchmarks.planning import configurations
from fuselight_server.explain.searches.planning import budget_seconds


def add_measure_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that `work_of` and `asked_configurations` read, `--rounds`, `--seconds`, `--accuracy`."""
    parser.add_argument(
        "--compare",
        metavar="NAME,NAME",
        action="append",
        type=read_by(_configurations),
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


def add_search_options(parser: argparse.ArgumentParser, *, scope: str = "") -> None:
    """Declare `--budget`, `--numerics`, `--fixed-modules`, `--modes`; `scope`: what precedes what they do."""
    parser.add_argument(
        "--budget",
        metavar="TIME",
        type=read_by(budget_seconds),
        default=TunePlan().budget_seconds,
        help=f"{scope}duration of a search, compiles included: seconds, as 120s, or minutes, as 2m (default: 120s)",
    )
    parser.add_argument(
        "--numerics",
        type=Numerics,
        choices=[numerics.value for numerics in Numerics],
        default=Numerics.EXACT,
        help=f"{scope}changes of the arithmetic that may be tried: none (exact), TF32, or also bfloat16 (reduced) "
        "(default: exact)",
    )
    parser.add_argument(
        "--fixed-modules",
        action="store_true",
        help=f"{scope}no module changes after the first call (train(), a replaced layer, a hook): also try candidates "
        "that do not check for it",
    )
    parser.add_argument(
        "--modes",
        action="store_true",
        help=f"{scope}also measure torch's other modes, after the search and beyond its budget",
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
    names = names_in(text)
    configurations(names, compiled=False)
    return tuple(names)

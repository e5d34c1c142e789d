"""Options of `fuselight sweep`, and the plan that they describe."""

from __future__ import annotations

import argparse
from pathlib import Path

from fuselight.shared.configurations import MODES
from fuselight.shared.measurement_plans import MeasurePlan, TunePlan
from fuselight.shared.suites import SIZES, SUITES
from fuselight_server.cli.measure_options import (
    add_measure_options,
    add_search_options,
    asked_configurations,
    work_of,
)
from fuselight_server.cli.options import add_color_option, add_python_option, at_least
from fuselight_server.commands.options import suggestion
from fuselight_server.sweep.rows import SweepJob
from fuselight_server.sweep.tasks import CPU, CUDA, SweepOptions


def add_sweep_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "suite",
        metavar="SUITE",
        help="a folder, a .py file, a list of targets (.toml, .jsonl, .py with TARGETS), or a built-in suite: "
        f"{', '.join(SUITES)}",
    )
    parser.add_argument(
        "--size",
        choices=SIZES,
        default=SIZES[0],
        help="size of the models of a built-in suite (default: %(default)s); with --train they are trained",
    )
    parser.add_argument(
        "--do",
        metavar="JOB,JOB",
        type=_jobs,
        default=(SweepJob.CHECK,),
        help=f"what to do with each model: {', '.join(job.value for job in SweepJob)} (default: check)",
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        action="append",
        help="cpu or cuda for bench and tune, a GPU of the catalog for kernels; repeatable",
    )
    _add_engine_options(parser)
    _add_folder_options(parser)
    _add_limits(parser)
    add_measure_options(parser)
    add_search_options(parser, scope="for tune: ")
    parser.add_argument(
        "--against", metavar="DIR|FILE", help="compare with the results of another sweep, regressions first"
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "csv", "html"),
        default="text",
        help="output format (default: %(default)s)",
    )
    add_color_option(parser)


def _add_engine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="local: processes on this machine; ray: a Ray cluster (default: %(default)s)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="the Ray cluster: HOST:PORT, ray://HOST:PORT or auto (default: a Ray of this machine, for this sweep)",
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=at_least(1),
        help="number of tasks in parallel that are not timed (default: as cores and memory allow)",
    )
    parser.add_argument(
        "--gpus", metavar="N", type=at_least(1), help="number of GPUs to time on (default: all of them)"
    )
    add_python_option(parser, "Python interpreter with torch")


def _add_folder_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="folder for the results (default: a new folder in .fuselight/sweeps of the project)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the results in DIR, by default the newest ones of this suite",
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="with --resume: also run again what has no result"
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=at_least(0.0),
        help="time limit of a run, or of each configuration that is timed, 0 for none (default: 120 for check, else "
        "600)",
    )
    parser.add_argument(
        "--memory-limit",
        metavar="MB",
        type=at_least(0),
        help="memory limit of a run, 0 for none (default: 8192 for check, else 16384)",
    )


def sweep_options(options: argparse.Namespace) -> SweepOptions:
    """What the command line asks for."""
    work = work_of(options)
    return SweepOptions(
        jobs=options.do,
        devices=tuple(_device(name.strip()) for group in options.device or () for name in group.split(",")),
        time_limit=options.time_limit,
        memory_limit=options.memory_limit,
        compare=asked_configurations(options),
        search=TunePlan(
            work=work,
            budget_seconds=options.budget,
            numerics=options.numerics,
            fixed_modules=options.fixed_modules,
            accuracy=options.accuracy,
            modes=MODES if options.modes else (),
        ),
        plan=MeasurePlan(
            work=work,
            rounds=options.rounds,
            seconds=options.seconds,
            accuracy=options.accuracy,
            bisect=False,
            profile=False,
        ),
    )


def _device(name: str) -> str:
    return name.lower() if name.lower() in {CPU, CUDA} else name


def _jobs(text: str) -> tuple[SweepJob, ...]:
    known = [job.value for job in SweepJob]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            offer = suggestion(name, known) or f"; there are {', '.join(known)}"
            raise argparse.ArgumentTypeError(f"there is no job `{name}`{offer}")
    if not names:
        raise argparse.ArgumentTypeError(f"name one of {', '.join(known)}")
    return tuple(SweepJob(name) for name in dict.fromkeys(names))

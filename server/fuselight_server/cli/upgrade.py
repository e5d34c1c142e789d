"""`fuselight upgrade PATH... --from A --to B`: what changes for the targets with another release of torch."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from fuselight.shared.devices import FALLBACK
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.terminal import standard_output
from fuselight_server.cli.options import add_command_options, at_least, device_option
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.upgrade import (
    ALL_PARTS,
    UpgradeOutcome,
    UpgradePart,
    UpgradePlan,
    compare_releases,
)
from fuselight_server.upgrades.model import RegressionKind

T = TypeVar("T")
FORMATS = ("text", "json", "sarif", "github", "html")
_NONE = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    side = "a Python or an environment with torch, or a version of torch such as 2.13 (see --install)"
    parser.add_argument("--from", dest="before", metavar="PYTHON", required=True, help=f"before: {side}")
    parser.add_argument("--to", dest="after", metavar="PYTHON", required=True, help=f"after: {side}")
    parser.add_argument(
        "--install",
        action="store_true",
        help="install a version of torch that is missing, with uv, in Fuselight's cache folder (up to 3 GB each)",
    )
    add_command_options(parser, formats=FORMATS, limits=COMPILE_LIMITS, has_python=False)
    parser.add_argument(
        "--do",
        metavar="PART,PART",
        type=_parts,
        default=ALL_PARTS,
        help=f"what to compare: {', '.join(part.value for part in ALL_PARTS)} (default: all; check is always done)",
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        type=device_option,
        help=f"GPU to generate kernels for, present or not, or cpu (default: this machine's GPU, or {FALLBACK})",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="also time eager and compiled calls on this machine, on its GPU if it has one (not with --jobs)",
    )
    parser.add_argument(
        "--measure-on",
        choices=("cpu", "cuda"),
        default="",
        help="the device to time on (default: the GPU if any)",
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=at_least(1),
        default=1,
        help="workers that run in parallel: 2 for both sides of a target, 4 for two targets (default: %(default)s)",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder that keeps the runs of each target")
    parser.add_argument("--resume", action="store_true", help="use the runs that --out has")
    parser.add_argument(
        "--fail-on",
        metavar="KIND,KIND",
        type=_kinds,
        default=tuple(RegressionKind),
        help=f"regressions for exit code 1: {', '.join(kind.value for kind in RegressionKind)}, or none "
        "(default: all)",
    )


def execute(options: argparse.Namespace) -> int:
    """Compare the targets and print what differs; returns the exit code. Raises CommandError."""
    if options.resume and options.out is None:
        raise CommandError("`--resume` needs `--out DIR`, the folder of the comparison to resume.")
    from fuselight.shared.measurement_plans import MeasurePlan  # noqa: PLC0415 - not for --help

    plan = UpgradePlan(
        before=options.before,
        after=options.after,
        parts=options.do,
        device=options.device,
        measure=MeasurePlan(accuracy=False, bisect=False, device=options.measure_on)
        if options.measure
        else None,
        jobs=options.jobs,
        installs=options.install,
        out=options.out,
        is_resumed=options.resume,
    )
    outcome = complete(options, compare_releases, plan=plan)
    _print(outcome, options)
    if not outcome.comparison.targets:
        return 2
    return outcome.exit_code(options.fail_on)


def _print(outcome: UpgradeOutcome, options: argparse.Namespace) -> None:
    from fuselight_server.cli.formats.upgrade import print_upgrade  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    if options.format != "text":
        text = _formatted(outcome, options.format)
        if text:
            terminal.write_data(f"{text}\n")
        return
    if outcome.comparison.targets:
        print_upgrade(outcome, terminal)
    report_problems(outcome, "analyze", is_empty=not outcome.comparison.targets)


def _formatted(outcome: UpgradeOutcome, name: str) -> str:
    if name == "json":
        from fuselight_server.cli.formats.upgrade import upgrade_as_json  # noqa: PLC0415 - one format is printed

        return upgrade_as_json(outcome)
    if name == "html":
        from fuselight_server.cli.formats.upgrade_page import upgrade_as_page  # noqa: PLC0415 - the same

        return upgrade_as_page(outcome)
    from fuselight_server.cli.formats import annotations  # noqa: PLC0415 - the same

    new = outcome.new_findings
    return annotations.as_sarif(new) if name == "sarif" else annotations.as_github(new)


def _parts(text: str) -> tuple[UpgradePart, ...]:
    return tuple(dict.fromkeys((UpgradePart.CHECK, *_named(text, {part.value: part for part in ALL_PARTS}))))


def _kinds(text: str) -> tuple[RegressionKind, ...]:
    if text.strip() == _NONE:
        return ()
    return tuple(_named(text, {kind.value: kind for kind in RegressionKind}, _NONE))


def _named(text: str, known: Mapping[str, T], *further: str) -> list[T]:
    """The values of the names in a list; `further` ones are named where a name is none of `known`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None or not names:
        raise argparse.ArgumentTypeError(f"`{unknown or text}` is none of {', '.join((*known, *further))}")
    return [known[name] for name in names]

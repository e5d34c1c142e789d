"""Options that several commands share, declared once, and what they say to a use case."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fuselight_server.base.default_limits import DefaultLimits
from fuselight_server.base.terminal import Color, print_error, standard_error
from fuselight_server.commands.options import CommandOptions

if TYPE_CHECKING:  # commands without a report load none
    from fuselight.shared.report import Device

T = TypeVar("T")


def add_command_options(
    parser: ArgumentParser,
    *,
    formats: tuple[str, ...],
    limits: DefaultLimits,
    limited: str = "target",
    has_python: bool = True,
) -> None:
    """Declare the options of `CommandOptions`, and how to print.

    `limited`: what the limits apply to. `has_python`: whether one interpreter runs the targets.
    """
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="files and folders")
    parser.set_defaults(arguments=())
    parser.epilog = "Words after -- are the arguments of the program: train.py -- --config small.json"
    parser.add_argument(
        "--target",
        action="append",
        metavar="NAME",
        help="run only this class or function (or __main__), compiled in the source or not; repeatable",
    )
    parser.add_argument(
        "--format", choices=formats, default=formats[0], help="output format (default: %(default)s)"
    )
    add_color_option(parser)
    if has_python:
        add_python_option(parser, "Python interpreter with torch")
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=at_least(0.0),
        default=limits.seconds,
        help=f"time limit for each {limited}, 0 for none (default: %(default)g)",
    )
    parser.add_argument(
        "--memory-limit",
        metavar="MB",
        type=at_least(0),
        default=limits.memory_mb,
        help=f"memory limit for each {limited}, 0 for none (default: %(default)s)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show the worker's log on stderr")


def add_color_option(parser: ArgumentParser) -> None:
    """Declare `--color`."""
    parser.add_argument(
        "--color",
        type=Color,
        choices=[color.value for color in Color],
        default=Color.AUTO,
        help="when to color text (default: auto)",
    )


def add_tries_option(parser: ArgumentParser, choices: tuple[str, ...]) -> None:
    """Declare `--tries`."""
    parser.add_argument(
        "--tries",
        choices=choices,
        default="some",
        help="which changes that may cure a finding are tried on the calls of the run: none, those for which "
        "30%% of the command's time, or 20 seconds, are enough, worst findings first, or all (default: %(default)s)",
    )


def add_training_options(parser: ArgumentParser, *, training: str, inference: str) -> None:
    """Declare `--train` and `--inference`, which stand above the directive; each with what the command then does."""
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--train",
        dest="training",
        action="store_true",
        default=None,
        help=f"{training} (default: as the directive says)",
    )
    mode.add_argument("--inference", dest="training", action="store_false", default=None, help=inference)


def add_python_option(parser: ArgumentParser, what: str) -> None:
    """Declare `--python`."""
    parser.add_argument(
        "--python",
        metavar="PATH",
        help=f"{what} (default: the active environment, then .venv, then python3)",
    )


def command_options(options: Namespace) -> CommandOptions:
    """The options that `add_command_options` declared, as given."""
    from fuselight.shared.protocol import Limits  # noqa: PLC0415 - not for --help

    given = CommandOptions(
        paths=tuple(options.paths),
        targets=tuple(options.target or ()),
        python=getattr(options, "python", None),
        limits=Limits(seconds=options.time_limit, memory_mb=options.memory_limit),
        world=getattr(options, "world", None),
        arguments=tuple(options.arguments),
        notify=print_error,
    )
    return dataclasses.replace(given, log=standard_error().print) if options.verbose else given


def at_least(least: float) -> Callable[[str], float]:
    """A type of argument: a number, whole if `least` is, that is not smaller."""
    kind = type(least)
    what = f"a {'whole number' if kind is int else 'number'} of at least {least:g}"

    def number(text: str) -> float:
        with contextlib.suppress(ValueError):
            value = kind(text)
            if value >= least:
                return value
        raise argparse.ArgumentTypeError(f"`{text}` is not {what}")

    return number


def read_by(read: Callable[[str], T]) -> Callable[[str], T]:
    """A type of argument: what `read` makes of the text, whose ValueError is the message."""

    def argument(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return argument


@read_by
def device_option(name: str) -> Device | None:
    """The device of an option, None for `auto`."""
    from fuselight.shared.devices import AUTO, find  # noqa: PLC0415 - few commands have the option

    return None if name.strip().lower() == AUTO else find(name)

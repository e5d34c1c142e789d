"""The options of a comparison of results, as options of commands.

Invariant: their names, texts and defaults are those of `commands/accuracy_options.py`; a value that does not fit is an
error of the command line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection

from fuselight_server.cli.options import at_least, read_by
from fuselight_server.commands.accuracy_options import (
    ACCURACY_OPTIONS,
    AccuracyOption,
    AccuracyPlan,
    accuracy_plan,
    compared_with,
    read_device,
)

_DESTINATION = "accuracy_option_"
_READERS: dict[str, Callable[[str], str]] = {"against": compared_with, "device": read_device}


def add_accuracy_options(
    parser: argparse.ArgumentParser, *, prefix: str = "", without: Collection[str] = ()
) -> None:
    """Declare the options, each with a prefix; `without`: those that the command has under a name of its own."""
    for option in ACCURACY_OPTIONS:
        if option.name not in without:
            _add(parser, option, f"--{prefix}{option.terminal_flag}")


def _add(parser: argparse.ArgumentParser, option: AccuracyOption, flag: str) -> None:
    destination = f"{_DESTINATION}{option.name}"
    if isinstance(option.default, bool):
        parser.add_argument(flag, dest=destination, action="store_true", help=option.words)
    elif option.choices:
        words = f"{option.words} (default: %(default)s)"
        parser.add_argument(
            flag, dest=destination, choices=option.choices, default=option.default, help=words
        )
    elif isinstance(option.default, float):
        parser.add_argument(
            flag,
            dest=destination,
            metavar=option.metavar,
            type=at_least(0.0),
            default=option.default,
            help=f"{option.words} (default: %(default)g)",
        )
    else:
        parser.add_argument(
            flag,
            dest=destination,
            metavar=option.metavar,
            type=read_by(_READERS[option.name]),
            default=option.default,
            help=option.words,
        )


def asked_accuracy_plan(
    options: argparse.Namespace, *, training: bool | None = None, **others: object
) -> AccuracyPlan:
    """The plan that the options ask for; `others`: values of options that the command has under another name."""
    given = {
        name.removeprefix(_DESTINATION): value for name, value in vars(options).items() if _is_ours(name)
    }
    return accuracy_plan({**given, **others}, training=training)


def has_accuracy_options(options: argparse.Namespace) -> bool:
    """Whether an option is not at its default."""
    defaults = {f"{_DESTINATION}{option.name}": option.default for option in ACCURACY_OPTIONS}
    return any(value != defaults[name] for name, value in vars(options).items() if _is_ours(name))


def _is_ours(name: str) -> bool:
    return name.startswith(_DESTINATION)

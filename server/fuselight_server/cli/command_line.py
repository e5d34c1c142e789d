"""The command line: which command to run, its help, and what its exit code is after an error.

Invariant: only the module of the chosen command is imported.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from fuselight_server.base.command_error import CommandError
from fuselight_server.base.interrupts import INTERRUPTED, raise_at_interrupts
from fuselight_server.base.terminal import print_error, printable
from fuselight_server.commands.options import suggestion

COMMANDS = {
    "accuracy": "Compare compiled calls of the targets in PATH with eager mode: wrong results, their line and cause.",
    "bench": "Time the targets in PATH: eager and compiled, compared for accuracy, with the time of each line.",
    "check": "Show what torch.compile does to the targets in PATH, on the lines that cause it.",
    "consent": "List the folders and programs that an editor may run without asking again, and forget answers.",
    "doctor": "Check the environment: Python, torch, Triton, compilers, driver, and a compile on each device.",
    "fix": "Remove findings of the targets in PATH: each change is compiled and compared before it is offered.",
    "forecast": "Show which changes of its inputs, attributes or modes compile each target in PATH again.",
    "kernels": "Show the kernels that each line of the targets in PATH becomes, on a GPU that may be absent.",
    "mcp": "Start the server for coding agents (Model Context Protocol) on stdin and stdout.",
    "memory": "Estimate the memory of a call or a training step of the targets in PATH, on a GPU that may be absent.",
    "open": "Show what torch.compile did in a job that ran elsewhere, from the logs (TORCH_TRACE) that it left.",
    "ops": "Show what the operators of the targets in PATH decompose into, and what a backend lacks.",
    "repro": "Write the smallest program that shows what torch.compile does wrong in the targets in PATH.",
    "run": "Run SCRIPT as python would, then show what torch.compile did in it.",
    "sweep": "Check, compile, time or tune every model of SUITE, on this machine or over a Ray cluster.",
    "server": "Start the language server on stdin and stdout.",
    "tune": "Find the fastest configuration of torch.compile for the targets in PATH, with results that are compared.",
    "upgrade": "Compare what torch.compile does to the targets in PATH with two versions of torch.",
    "verify": "Compile and compare a changed file with the file: whether results stay, and what it compiles to.",
    "warm": "Start the targets in PATH twice with one cache: what the second start compiled again, and why.",
}
SUMMARY = "See what torch.compile does to your model, on the line that caused it."


class _Parser(argparse.ArgumentParser):
    """A parser whose errors hold no control characters, and offer the option that was probably meant."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\n")

    def reject(self, extra: Sequence[str]) -> NoReturn:
        name = extra[0].partition("=")[0]
        offer = suggestion(name, self._option_string_actions)
        self.error(f"there is no option {name}{offer}" if name.startswith("-") else f"unexpected {name}")

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(printable(message), file)


class _Version(argparse.Action):
    """Print the version; reading it takes longer than parsing."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from fuselight.shared.version import version  # noqa: PLC0415 - only here

        print(f"fuselight {version()}")  # noqa: T201 - what was asked for
        parser.exit()


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; returns its exit code."""
    try:
        return _run_command(arguments)
    except BrokenPipeError:  # the reader of the output has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run_command(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen = next((argument for argument in given if not argument.startswith("-")), None)
    parser, command = _parsers(chosen)
    if not given:
        parser.print_help()
        return 2
    if chosen is not None and command is None:
        parser.error(f"there is no command {chosen}{suggestion(chosen, COMMANDS)}")
    own, arguments = given, list[str]()
    if command is not None and _takes_program(command) and "--" in given:
        own, arguments = _split(given, parser)
    options, extra = parser.parse_known_args(own)
    if extra:
        (command or parser).reject(extra)
    if arguments:
        options.arguments = arguments
    module = importlib.import_module(f"fuselight_server.cli.{chosen}")

    try:
        raise_at_interrupts()
        code: int = module.execute(options)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (CommandError, OSError) as error:
        print_error(str(error))
        return 2
    except KeyboardInterrupt as stop:
        print_error(str(stop) or "stopped")
        return INTERRUPTED
    return code


def _takes_program(command: argparse.ArgumentParser) -> bool:
    """Whether a command runs programs of the user's, so that words after `--` are theirs."""
    return command.get_default("arguments") is not None


def _split(given: list[str], parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """The words of Fuselight, and those of the program after `--`. A `--` before all paths ends the options alone."""
    at = given.index("--")
    own, rest = given[:at], given[at + 1 :]
    with_path, extra = parser.parse_known_args([*own, "PATH"])
    if len(with_path.paths) > 1 or extra:
        return own, rest
    end = rest.index("--") if "--" in rest else len(rest)
    return [*own, "--", *rest[:end]], rest[end + 1 :]


def _parsers(chosen: str | None) -> tuple[_Parser, _Parser | None]:
    """The parser of all commands, and that of the chosen one, which alone has its options."""
    parser = _Parser(prog="fuselight", description=SUMMARY, allow_abbrev=False)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        if name == chosen:
            importlib.import_module(f"fuselight_server.cli.{name}").add_arguments(command)
    return parser, commands.choices.get(chosen or "")

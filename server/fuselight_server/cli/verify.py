"""`fuselight verify`: whether a changed file does what it did, and what it compiles to. Nothing is written.

Invariant: exit code 0 only if each target that runs what has changed was compared, and gives the same.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from fuselight.shared.foreign_files import SOURCE_BYTES
from fuselight.shared.report import Problem
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.default_limits import CAPTURE_LIMITS
from fuselight_server.base.terminal import standard_output
from fuselight_server.base.unified_diff import DiffError
from fuselight_server.cli.options import add_command_options, at_least
from fuselight_server.cli.progress import complete
from fuselight_server.commands.changed_texts import diff_texts, file_texts
from fuselight_server.commands.sources import SourceFiles, read_text
from fuselight_server.commands.verify import AllowedChange, verify


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), limits=CAPTURE_LIMITS, limited="run")
    change = parser.add_mutually_exclusive_group(required=True)
    change.add_argument("--new", metavar="FILE", type=Path, help="file with the new text of the first PATH")
    change.add_argument(
        "--diff",
        metavar="FILE",
        help="unified diff of the change, - for stdin; its paths are relative to the working folder or to one above",
    )
    parser.add_argument(
        "--allow",
        action="append",
        type=AllowedChange,
        choices=[change.value for change in AllowedChange],
        help="what the change may change besides the code; repeatable",
    )
    parser.add_argument(
        "--case-seconds",
        metavar="S",
        type=at_least(0.0),
        help="time for further calls (dtypes, sizes, modes) of each text, 0 for the known inputs alone; what is not "
        "compared then is named in the verdict (default: all are compared)",
    )
    parser.add_argument(
        "--inductor",
        action="store_true",
        help="compile with Inductor too, which takes longer and needs a C++ compiler or a GPU",
    )


def execute(options: argparse.Namespace) -> int:
    """Verify the change and print the verdict; returns the exit code. Raises CommandError."""
    texts = _from_diff(options.diff) if options.new is None else _from_file(options.paths[0], options.new)
    outcome = complete(
        options,
        verify,
        texts=texts,
        allowed=frozenset(options.allow or ()),
        case_seconds=options.case_seconds,
        inductor=options.inductor,
    )
    from fuselight_server.commands.verdict_rows import verdict_lines, verify_data  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    data = verify_data(outcome)
    if options.format == "json":
        terminal.write_data(json.dumps({"schema": 1, **data}, indent=2) + "\n")
    else:
        for line in verdict_lines(data):
            terminal.print(line)
    return outcome.exit_code


def _from_file(path: Path, new: Path) -> dict[str, str]:
    return {_absolute(str(path)): _text(new)}


def _from_diff(name: str) -> dict[str, str]:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(SOURCE_BYTES + 1)
        else:
            with Path(name).open("rb") as file:  # may be a pipe
                data = file.read(SOURCE_BYTES + 1)
    except OSError as error:
        raise CommandError(f"`{name}`: {error.strerror or error}. Name a file that can be read.") from None
    if len(data) > SOURCE_BYTES:
        raise CommandError(f"`{name}` is larger than {SOURCE_BYTES:,} bytes. Name a smaller diff.")
    try:
        return file_texts(diff_texts(data, Path.cwd(), SourceFiles()), SourceFiles())
    except DiffError as error:
        raise CommandError(f"{error}. Nothing was verified.") from None


def _text(path: Path) -> str:
    text = read_text(path)
    if isinstance(text, Problem):
        raise CommandError(f"`{path}`: {text.why}. Name a file that can be read.")
    return text


def _absolute(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - as commands/sources.py names files

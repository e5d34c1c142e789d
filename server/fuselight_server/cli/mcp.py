"""`fuselight mcp`: the server for coding agents on stdin and stdout (docs/agents.md).

Invariant: without `--allow-run`, no user code runs unless the user has agreed to a question that the client shows.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from fuselight_server.base.command_error import CommandError
from fuselight_server.base.terminal import print_error, standard_error, standard_output
from fuselight_server.cli.options import add_python_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        action="append",
        type=Path,
        help="folder that the agent may name files of; repeatable (default: the working folder)",
    )
    parser.add_argument(
        "--allow-run",
        metavar="PATH",
        nargs="*",
        type=Path,
        help="let the agent run the code of these files and folders; without PATH, of every --root",
    )
    parser.add_argument(
        "--attach",
        metavar="FOLDER",
        nargs="?",
        const="",
        help="serve from the editor that has the working folder open, with its unsaved texts; the editor asks before "
        "code runs. FOLDER: the address that an editor gives",
    )
    add_python_option(parser, "Python interpreter with torch")
    parser.add_argument(
        "--instructions", action="store_true", help="print the text that a model gets, and exit"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show the worker's log on stderr")


def execute(options: argparse.Namespace) -> int:
    """Serve until the client ends it. Raises CommandError."""
    if options.instructions:
        from fuselight_server.agents.instructions import INSTRUCTIONS  # noqa: PLC0415 - nothing else is needed

        standard_output().write_data(INSTRUCTIONS)
        return 0
    if options.attach is not None:
        _attach(options)
    folders = [_folder(folder) for folder in options.root or [Path.cwd()]]
    os.chdir(folders[0])  # paths are shown and read as relative to it
    allowed = _allowed(options.allow_run, folders)
    from fuselight_server.agents.host import AgentHost  # noqa: PLC0415 - not for --help
    from fuselight_server.agents.permissions import FlagPermission  # noqa: PLC0415 - the same
    from fuselight_server.agents.session import AgentSession  # noqa: PLC0415 - the same
    from fuselight_server.agents.stdio import serve  # noqa: PLC0415 - the same
    from fuselight_server.agents.toolbox import AgentToolbox  # noqa: PLC0415 - the same

    if sys.stdin is not None and sys.stdin.isatty():
        print_error(
            "waiting for an agent's client on stdin, which usually starts this command. Ctrl-C ends it."
        )
    log = standard_error().print if options.verbose else _ignore
    host = AgentHost(
        folders=lambda: folders,
        permission=FlagPermission(allowed, folders),
        python=lambda _path: options.python,
        log=log,
    )
    return serve(lambda: AgentToolbox(AgentSession(host)))


def _attach(options: argparse.Namespace) -> NoReturn:
    """Serve from an editor until the client or the editor ends. Raises CommandError."""
    if options.allow_run is not None or options.python is not None:
        raise CommandError(
            "--attach leaves consent and the interpreter to the editor: leave out the other options."
        )
    from fuselight_server.agents.attachment.addresses import connect_for, connect_to  # noqa: PLC0415 - only here
    from fuselight_server.agents.attachment.bridge import bridge  # noqa: PLC0415 - the same

    if options.attach:
        bridge(connect_to(Path(options.attach)))
    bridge(connect_for(_folder((options.root or [Path.cwd()])[0])))


def _folder(path: Path) -> Path:
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would rename what the user named
    if not absolute.is_dir():
        raise CommandError(f"`{path}` is no folder. Name a folder with `--root DIR`.")
    return absolute


def _allowed(paths: list[Path] | None, folders: list[Path]) -> list[Path]:
    """The paths whose code may run. Raises CommandError."""
    if paths is None:
        return []
    for path in paths:
        if not path.exists():
            raise CommandError(f"`{path}` does not exist. Name files or folders after `--allow-run`.")
    return [Path(os.path.abspath(path)) for path in paths] or folders  # noqa: PTH100 - as above


def _ignore(_text: str) -> None:
    """Log nothing."""

# ruff: noqa: INP001 - a program that is run by its path, in no package
"""Starts the language server of the extension: `python -I -S -X utf8 launch.py`; with arguments, that command.

Invariant: only the extension's own folders are put on the import path, so that neither the workspace nor the
packages of this interpreter can change what the server runs. Without bundled libraries (a checkout that has not been
packaged) the interpreter's own packages serve, for then it is started without `-S`.
"""

from __future__ import annotations

import os
import sys

OLDEST = (3, 10)


def main() -> None:
    """Put the three folders on the path and serve."""
    if sys.version_info < OLDEST:
        sys.exit(f"Fuselight's language server needs Python 3.10 or newer; {sys.executable} is {sys.version}")
    extension = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib costs 10 ms of the start
    sys.path[:0] = [
        os.path.join(extension, "server"),  # noqa: PTH118 - as above
        os.path.join(extension, "compiler"),  # noqa: PTH118 - as above
        os.path.join(extension, "bundled", "libs"),  # noqa: PTH118 - as above
    ]
    if len(sys.argv) > 1:  # as `mcp --attach FOLDER`, for an agent
        from fuselight_server.cli.command_line import run_command  # noqa: PLC0415 - importable only from here on

        sys.exit(run_command())
    from fuselight_server.cli.server import serve  # noqa: PLC0415 - as above

    serve()


if __name__ == "__main__":
    main()

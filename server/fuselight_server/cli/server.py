"""`fuselight server`: the language server over stdio, for editors other than VS Code."""

from __future__ import annotations

import gc
from argparse import ArgumentParser, Namespace


def add_arguments(_parser: ArgumentParser) -> None:
    """It has no options."""


def execute(_options: Namespace) -> int:
    """Serve until the client ends it."""
    serve()
    return 0


def serve() -> None:
    """Import the server and serve until the client ends it."""
    gc.disable()  # what is imported lives for good: to look for garbage in it is a tenth of the start
    from fuselight_server.editor.app import main  # noqa: PLC0415 - no other command needs the LSP library

    gc.freeze()
    gc.enable()
    main()

"""`fuselight server`: the language server over stdio, for editors other than VS Code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(_parser: ArgumentParser) -> None:
    """It has no options."""


def execute(_options: Namespace) -> int:
    """Serve until the client ends it."""
    from fuselight_server.editor.app import main  # noqa: PLC0415 - no other command needs the LSP library

    main()
    return 0

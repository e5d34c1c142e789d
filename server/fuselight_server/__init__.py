"""Fuselight's language server and command line. Never imports torch or the user's code."""

from __future__ import annotations


def main() -> None:
    """Entry point of the `fuselight` command."""
    from fuselight_server.cli import app  # noqa: PLC0415 - the server, which imports this package too, needs no CLI

    app()

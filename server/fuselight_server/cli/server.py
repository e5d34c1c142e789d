"""`fuselight server`: the language server over stdio, for editors other than VS Code."""

from __future__ import annotations


def server() -> None:
    """Start the language server; it speaks LSP on stdin and stdout."""
    from fuselight_server.app import main  # noqa: PLC0415 - the other verbs need no LSP library

    main()

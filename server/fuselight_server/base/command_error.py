"""The error that ends a use case, whatever shows it."""

from __future__ import annotations


class CommandError(Exception):
    """The command cannot go on; the message says why and what to do."""

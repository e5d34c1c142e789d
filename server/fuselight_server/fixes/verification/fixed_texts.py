"""The texts of files with the fixes that have passed, which later fixes are tried on top of.

Invariant: nothing is written. A file without a fix has the text that `read` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fuselight.shared.protocol import RunRequest
from fuselight_server.base.files import split_text
from fuselight_server.execution.runs.planning import with_texts


@dataclass
class FixedTexts:
    """The texts with the fixes so far."""

    read: Callable[[str], str | None]
    """The text of a file before any fix; None if it cannot be read."""
    changed: dict[str, str] = field(default_factory=dict)
    """The texts with fixes, by path."""

    def text(self, path: str) -> str | None:
        """The text of a file with the fixes so far; None if it cannot be read."""
        return self.changed[path] if path in self.changed else self.read(path)

    def before(self, texts: Mapping[str, str]) -> dict[str, str]:
        """The texts so far of changed files, and of those that `texts` would change."""
        return {**self.changed, **{path: self.text(path) or "" for path in texts}}

    def after(self, texts: Mapping[str, str]) -> dict[str, str]:
        """The texts so far, with further changed ones."""
        return {**self.changed, **texts}

    def line_reader(self, texts: Mapping[str, str] | None = None) -> Callable[[str, int], str | None]:
        """Reads lines (1-based) of the texts so far, and of further changed ones, as findings need them."""
        known: dict[str, list[str]] = {}
        after = self.after(texts or {})

        def read_line(path: str, number: int) -> str | None:
            if path not in known:
                known[path] = split_text(after[path] if path in after else self.read(path) or "")
            return known[path][number - 1] if 0 < number <= len(known[path]) else None

        return read_line

    def changed_request(self, request: RunRequest, texts: Mapping[str, str] | None = None) -> RunRequest:
        """The run of a target with the texts so far, and with further changed ones."""
        return with_texts(request, self.after(texts or {}))

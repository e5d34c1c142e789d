"""What the analysis shows of itself; the LSP edge implements it.

Invariant: these calls only say that something has changed; what is drawn is asked of the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight_server.state import Folder


class Face(Protocol):
    """What the user sees; the LSP edge implements it."""

    def findings_changed(self, paths: Iterable[str]) -> None:
        """Publish what is known of these files."""
        ...

    def runs_changed(self) -> None:
        """Show which runs wait, move or ended."""
        ...

    def results_changed(self, paths: Iterable[str]) -> None:
        """Draw the reports of these files again."""
        ...

    def say(self, text: str, *, error: bool) -> None:
        """Tell the user."""
        ...

    async def confirm(self, folder: Folder, summary: str, interpreter: str) -> str:
        """Ask whether code may run in `folder`: `run`, `never` or `later`."""
        ...

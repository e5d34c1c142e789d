"""What a session shows to the user; the LSP edge implements it.

Invariant: these calls say that something has changed, or put a question; what is shown is read from the state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from fuselight_server.base.consent_store import first_call_of
from fuselight_server.editor.messages.answers import ConsentChoice
from fuselight_server.editor.session.state import Folder


def agents_of(folder: str) -> str:
    """What stands for the runs of agents in a folder: of a path or a URI."""
    return f"{folder}/#agents"


@dataclass(frozen=True)
class Question:
    """One question, in words, with its possible answers by the titles of their buttons."""

    folder: Folder
    message: str
    detail: str
    answers: dict[str, ConsentChoice]
    program: str | None = None
    """The file whose program would run; None for a question about the folder."""
    is_part: bool = False
    """Whether the program would run up to its first call alone: an answer to that is none for the whole program."""
    is_for_agents: bool = False
    """Whether an agent asks: an answer to that is none for the user's own runs, nor theirs for it."""
    explicit: bool = False
    """Whether the user has just asked for the run: the question must not hide by itself."""

    @property
    def subject(self) -> str:
        """What the answer holds for: a folder's path or a program's."""
        if self.program is None:
            return agents_of(self.folder.path) if self.is_for_agents else self.folder.path
        return first_call_of(self.program) if self.is_part else self.program


class Ui(Protocol):
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

    def refresh_lenses(self) -> None:
        """Draw the lenses again."""
        ...

    def say(self, text: str, *, error: bool) -> None:
        """Tell the user."""
        ...

    async def offer(self, text: str, actions: tuple[str, ...]) -> str | None:
        """Show a message with buttons; return the one that was pressed."""
        ...

    async def confirm(self, question: Question) -> str:
        """Put a question to the user; return one of its answers, `later` where it was closed without one."""
        ...

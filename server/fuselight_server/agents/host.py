"""What the surroundings of an agent's server decide: which folders it may read, whether user code may run, and texts.

Invariant: a tool asks nobody else. A server that a terminal started and one that is attached to an editor differ in
their host alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fuselight_server.agents.protocol.toolbox import Caller
from fuselight_server.commands.options import RunSettings
from fuselight_server.commands.started_worker import IDLE_SECONDS


class Permission(Protocol):
    """Decides whether user code may run."""

    async def refusal(self, path: Path, caller: Caller) -> str:
        """Why the code of a file or folder may not run, and what to do; empty if it may.

        It may ask the user, through the caller or in another way.
        """
        ...


def _no_texts() -> Mapping[str, str]:
    return {}


def _no_python(_path: Path) -> str | None:
    return None


def _no_settings(_path: Path) -> RunSettings:
    return RunSettings()


def _idle_seconds(_path: Path) -> float:
    return IDLE_SECONDS


def _ignore(_text: str) -> None:
    """Log nothing."""


@dataclass(frozen=True)
class AgentHost:
    """The surroundings of a server for agents."""

    folders: Callable[[], Sequence[Path]]
    """Absolute folders: no file outside of them is read. Relative paths are relative to the first one that has them."""
    permission: Permission
    texts: Callable[[], Mapping[str, str]] = field(default=_no_texts)
    """Texts by absolute path that stand for those on disk, as an editor's unsaved ones."""
    python: Callable[[Path], str | None] = field(default=_no_python)
    """The interpreter with torch for a file; None: the ladder of the command line decides."""
    settings: Callable[[Path], RunSettings] = field(default=_no_settings)
    """What changes each run of a file."""
    idle_seconds: Callable[[Path], float] = field(default=_idle_seconds)
    """How long the worker for a file stays without a run."""
    log: Callable[[str], None] = field(default=_ignore)
    """Where the worker's log goes."""

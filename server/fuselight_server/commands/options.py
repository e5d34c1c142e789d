"""What every use case takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from fuselight.shared.protocol import Limits
    from fuselight.shared.report import WorldPlan
    from fuselight_server.base.settings import Settings
    from fuselight_server.commands.started_worker import KeptWorker


def _default_limits() -> Limits:
    from fuselight.shared.protocol import Limits  # noqa: PLC0415 - not for --help: it takes half as long as a check

    return Limits()


def _ignore(_text: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class RunSettings:
    """What an editor's settings of a folder change in each run."""

    environment: Mapping[str, str] = field(default_factory=dict)
    dynamo_config: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> RunSettings:
        """Those of the editor's settings of a folder that a command takes."""
        return cls(settings.environment, settings.dynamo.config)


@dataclass(frozen=True)
class CommandOptions:
    """Which targets to run, in which interpreter, within which limits."""

    paths: tuple[Path, ...]
    targets: tuple[str, ...] = ()
    python: str | None = None
    settings: RunSettings = field(default_factory=RunSettings)
    limits: Limits = field(default_factory=_default_limits)
    world: WorldPlan | None = None
    """The ranks as which every target runs; None: those of its directive, if it has any."""
    arguments: tuple[str, ...] = ()
    """Of the program in each file that runs as one, as in a shell."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts by absolute path that stand for those on disk, as an editor's unsaved ones."""
    log: Callable[[str], None] = _ignore
    """Where the worker's log goes."""
    notify: Callable[[str], None] = _ignore
    """Where a notice goes that is no result: what could not be kept, a torch that is not tested."""
    kept_worker: KeptWorker | None = None
    """The worker that the command's runs use, which outlives the command; None: a new one, which ends with it."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Offer the name that was probably meant; empty if none is like it."""
    import difflib  # noqa: PLC0415 - after an error

    lowered = {text.lower(): text for text in sorted(known)}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    return f"; did you mean {lowered[close[0]]}?" if close else ""

"""Why runs that were asked for have no result: canceled, not permitted, or lost.

Invariant: what is noted of a target is forgotten when another run of it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fuselight.shared.report import Tier
from fuselight_server.execution.runs.keys import Key

CANCELED = "canceled"
RESTARTED = "canceled: the worker was restarted"
INTERPRETER_CHANGED = "canceled: the interpreter was changed"
LOST = "not finished: the worker was lost"

NOUNS = {
    Tier.CAPTURE: "",
    Tier.KERNELS: "kernels",
    Tier.MEASURED: "benchmark",
    Tier.TUNED: "search",
    Tier.ACCURACY: "comparison",
    Tier.MEMORY: "estimate of memory",
}
"""What a run of each tier is called; a capture is the run itself."""

_ASK_AGAIN = "Press Run to be asked again."
_RUN_AGAIN = "Start it again."


@dataclass(frozen=True)
class RunEnd:
    """The end of a run without a result."""

    words: str
    """In a few words, such as `canceled`."""
    step: str = _RUN_AGAIN
    """What to do, as a sentence."""

    def short(self, tier: Tier) -> str:
        """`canceled`, `benchmark canceled`."""
        return f"{NOUNS[tier]} {self.words}".lstrip()

    def sentence(self, tier: Tier) -> str:
        """Say it with what to do: `benchmark canceled. Start it again`."""
        return f"{self.short(tier)}. {self.step}"


NOT_ALLOWED = RunEnd("not run: you did not allow this folder to run", _ASK_AGAIN)
POSTPONED = RunEnd("not run: you have not allowed it yet", _ASK_AGAIN)


class RunEnds(dict["Key", RunEnd]):
    """The newest end without a result of each target and tier, by run key."""

    def forget_ends(self, keys: Iterable[Key]) -> list[Key]:
        """Forget the ends of these targets, of every tier; return those that were known."""
        targets = {(key.path, key.name) for key in keys}
        known = [key for key in self if (key.path, key.name) in targets]
        for key in known:
            del self[key]
        return known

"""A sentence of advice, and the change that tries it.

Invariant: a change that can be tried is never advised before it was: until then it is named as one that was not tried.
One that does not cure is not shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fuselight.shared.report import CallCure, CureTrial

NOT_TRIED = "Not tried"
"""How advice begins of which nobody knows whether it cures."""
_YET = f"{NOT_TRIED} yet: "
_NOT_POSSIBLE = f"{NOT_TRIED}, as no call could be changed so: "


@dataclass(frozen=True)
class TriedAdvice:
    """One change that may cure a recompilation."""

    text: str
    """An imperative sentence without a full stop, as ``Pass `limit` as a tensor``."""
    cure: CallCure
    cost: str = ""
    """What the change costs besides the edit; a sentence without a full stop."""


def spoken(candidates: Iterable[TriedAdvice], trials: Mapping[CallCure, CureTrial]) -> tuple[str, ...]:
    """What is said of the candidates: those that cure, the fewest compiles first; else those that were not tried.

    Several changes at once are said only if they save more than each of them alone.
    """
    candidates = tuple(candidates)
    tried = [(trials[item.cure], item) for item in candidates if item.cure in trials]
    cures = sorted(
        ((trial, item) for trial, item in tried if trial.cures and not _is_enough_alone(trial, trials)),
        key=lambda pair: pair[0].after,
    )
    if cures:
        texts = [_with_counts(item, trial) for trial, item in cures]
        return (texts[0], *(f"Or {text[0].lower()}{text[1:]}" for text in texts[1:]))
    texts = [
        f"{_YET if item.cure not in trials else _NOT_POSSIBLE}{item.text[0].lower()}{item.text[1:]}"
        for item in candidates
        if not item.cure.also and (item.cure not in trials or not trials[item.cure].is_made)
    ]
    return tuple(texts)


def _is_enough_alone(trial: CureTrial, trials: Mapping[CallCure, CureTrial]) -> bool:
    """Whether one of several changes saves as much as all of them."""
    known = (trials.get(part) for part in trial.cure.changes if part is not trial.cure)
    return any(alone is not None and alone.cures and alone.after <= trial.after for alone in known)


def _with_counts(advice: TriedAdvice, trial: CureTrial) -> str:
    text = f"{advice.text} (tried: {trial.before} → {trial.after} {trial.cure.goal.value})"
    return f"{text}. {advice.cost}" if advice.cost else text

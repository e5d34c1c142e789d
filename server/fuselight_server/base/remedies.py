"""What to do about a finding: one ordered list, which every face reads.

Invariant: an entry says what is known of it. What a verification or a trial refused stays in the list, with the reason,
and is never said as advice, nor is what could be tried and was not: how many there are is said in its place.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from fuselight.shared.report import CallCure, CureGoal

NO_CALL = "no call could be changed so"
"""Why a trial shows nothing: the value that it changes is in no call."""


class RemedyState(str, enum.Enum):
    """What is known of a remedy."""

    VERIFIED = "verified"
    """A fix: it was compiled, and its results were compared."""
    TRIED = "tried"
    """The calls of the run were made with it, and it helps."""
    NOT_TRIED = "not tried"
    ADVICE = "advice"
    """Words that nothing can try."""
    REFUSED = "refused"
    """It was verified or tried, and does not help, or it is not the same for every call."""


_EXPECTED = re.compile(r"(?:Or e|E)xpect (?:(?!, or |[.;] ).)*$", re.DOTALL)
"""Advice that names no alternative and has no further sentence: it asks for no change."""
UNVERIFIED = "it cannot be verified: "
"""How the reason begins why a change could not be compared: nothing speaks against it."""
IN_A_TRIAL = "in a trial "
"""How the reason of a remedy begins that a trial made, with a result that only a verification can judge."""


@dataclass(frozen=True)
class FindingRemedy:
    """One thing to do about a finding."""

    text: str
    """A sentence in the imperative, without a full stop: ``Pass `limit` as a tensor``."""
    state: RemedyState = RemedyState.ADVICE
    kind: str = ""
    """What changes: that of a fix, or of a cure; empty for words."""
    why: str = ""
    """Why it is refused or not tried, what a verification says of its results, or which break comes next."""
    counts: str = ""
    """What it lowers: `3 → 1 compiles`; empty if that is not known."""
    cost: str = ""
    """What it costs besides the edit; a sentence without a full stop."""
    about: str = ""
    """The value that it is for, where that is not the one of the finding."""
    unwritten: str = ""
    """Why no fix makes the change, though a person can."""
    cure: CallCure | None = None
    """What a trial of it changes."""
    is_fix: bool = False
    """Whether Fuselight can write it."""
    changes_behavior: bool = False
    """Of a fix: whether it changes random numbers, what is printed, or exceptions; `cost` says what."""
    left: tuple[int, ...] = ()
    """What its run left, to order changes of one state: the smaller, the better; empty if no run is known."""
    values: tuple[str, ...] = ()
    """Which values change, of several that a change of the kind may be for; empty where it is the same for all."""

    @property
    def is_step(self) -> bool:
        """Whether a user can do something: not what is refused, and not what is only to be expected."""
        is_words = self.state is RemedyState.ADVICE
        return self.state is not RemedyState.REFUSED and not (is_words and _EXPECTED.match(self.text))

    @property
    def is_unproven(self) -> bool:
        """Of a fix: whether a verification, and no trial, can show what it does."""
        return self.is_fix and self.cure is None

    @property
    def is_pending(self) -> bool:
        """Whether it can be tried or verified and was not, so that nobody knows whether it helps: no advice yet."""
        return self.state is RemedyState.NOT_TRIED and not self.why

    def words(self) -> str:
        """The entry as advice; of one that is pending there are none."""
        text = self.text
        if self.state is RemedyState.TRIED:
            text = f"{text} (tried: {', '.join(filter(None, (self.counts, self.why)))})"
        elif self.state is RemedyState.VERIFIED:
            text = f"{text} (verified: {', '.join(filter(None, (self.counts, self.why)))})"
        elif self.state is RemedyState.NOT_TRIED and self.why:
            text = f"{text} (not {'verified' if self.is_unproven else 'tried'}: {self.why})"
        if self.cost and (self.is_fix or self.state is not RemedyState.NOT_TRIED):
            text = f"{text}. {self.cost}"
        if self.unwritten:
            text = f"{text}. No fix writes it, as {self.unwritten}"
        return f"For {self.about}: {text}" if self.about else text

    @property
    def has_moved_break(self) -> bool:
        """Whether a trial refused it for another break, so that a verification alone can say what it is worth."""
        return self.why.startswith(IN_A_TRIAL)

    @property
    def is_of_break(self) -> bool:
        """Whether its trial was made against a graph break."""
        return self.cure is not None and self.cure.goal is CureGoal.BREAKS

    @property
    def reason(self) -> str:
        """Of what is refused: `tried and refused: gradients differ`, or `no fix is offered: ...` without a run."""
        why = self.why.removeprefix(IN_A_TRIAL)
        return f"{'tried and refused' if self.was_tried else 'no fix is offered'}: {why}"

    @property
    def was_tried(self) -> bool:
        """Of what is refused: whether a run refused it, and not a fact of the code."""
        return self.is_fix or self.cure is not None

    def as_data(self) -> dict[str, str | bool]:
        """The entry as plain data (docs/report.md)."""
        return {
            "text": self.text,
            "state": self.state.value,
            "kind": self.kind,
            "counts": self.counts,
            "why": self.why,
            "cost": self.cost,
            "about": self.about,
            "unwritten": self.unwritten,
            "is_fix": self.is_fix,
            "changes_behavior": self.changes_behavior,
        }

    def renamed(self, words: Callable[[str], str]) -> FindingRemedy:
        """The entry with its texts changed."""
        return replace(
            self,
            text=words(self.text),
            why=words(self.why),
            cost=words(self.cost),
            about=words(self.about),
            unwritten=words(self.unwritten),
        )


def advice(texts: Iterable[str]) -> tuple[FindingRemedy, ...]:
    """Words as remedies."""
    return tuple(map(FindingRemedy, texts))


_RANKS = {RemedyState.VERIFIED: 0, RemedyState.TRIED: 1, RemedyState.REFUSED: 5}


def in_order(remedies: Iterable[FindingRemedy]) -> tuple[FindingRemedy, ...]:
    """The entries by what is known of them: what was verified, what was tried, fixes, advice, refused.

    What could not be tried comes after advice. Of what was verified, the one comes first that leaves the least,
    and so of what was tried.
    """
    return tuple(sorted(dict.fromkeys(remedies), key=_rank))


def _rank(remedy: FindingRemedy) -> tuple[int, tuple[int, ...]]:
    is_last = remedy.state is RemedyState.NOT_TRIED and remedy.why
    usual = 4 if is_last else 2 if remedy.is_fix else 3
    is_known = remedy.state in {RemedyState.VERIFIED, RemedyState.TRIED}
    return _RANKS.get(remedy.state, usual), remedy.left if is_known else ()


def advised(remedies: Iterable[FindingRemedy]) -> tuple[str, ...]:
    """The entries that may help, as advice."""
    return tuple(dict.fromkeys(_advised(remedies)))


def refused_fixes(remedies: Iterable[FindingRemedy]) -> tuple[FindingRemedy, ...]:
    """The changes that are refused; those against a recompilation that only a trial refused are left out.

    So is what a trial refused against a graph break, if another change helps.
    """
    remedies = tuple(remedies)
    helps = any(remedy.state in {RemedyState.VERIFIED, RemedyState.TRIED} for remedy in remedies)
    refused = (remedy for remedy in remedies if remedy.state is RemedyState.REFUSED)
    named = [
        remedy
        for remedy in refused
        if remedy.is_fix or not remedy.counts or (remedy.is_of_break and not helps)
    ]
    return (*named, *(remedy for remedy in remedies if remedy.has_moved_break and not helps))


def refusals(remedies: Iterable[FindingRemedy]) -> tuple[str, ...]:
    """Why changes are refused: `Use torch.where: tried and refused: gradients differ`.

    Of several that one fact of the code refuses without a run, or one trial, the first says it.
    """
    first: dict[object, str] = {}
    for remedy in refused_fixes(remedies):
        key = (remedy.cure or remedy.text, remedy.reason) if remedy.was_tried else remedy.reason
        first.setdefault(key, f"{remedy.text}: {remedy.reason}")
    return tuple(first.values())


def _advised(remedies: Iterable[FindingRemedy]) -> Iterator[str]:
    remedies, before = tuple(remedies), None
    pending = [remedy for remedy in remedies if remedy.is_pending]
    values = {remedy.about for remedy in pending if remedy.cure is not None}
    for remedy in remedies:
        is_early = remedy.about in values and _ONE_FOR_EACH.match(remedy.text)
        if remedy.state is RemedyState.REFUSED or remedy.is_pending or remedy.has_moved_break or is_early:
            continue
        is_leading = before is None or before.about != remedy.about
        text = (replace(remedy, text=_without_or(remedy.text)) if is_leading else remedy).words()
        is_other = before is not None and before.state is remedy.state is RemedyState.TRIED
        yield f"Or {_lowered(text)}" if is_other and not remedy.about else text
        before = remedy
    yield from _not_tried(pending)


_ONE_FOR_EACH = re.compile(r"Expect one compile for each (?:value|length) of ")
"""How the advice begins that nothing helps: it is said after what may help was tried."""


def _not_tried(pending: Iterable[FindingRemedy]) -> Iterator[str]:
    """How many changes are not advised yet: a terminal adds what tries them (base/option_names.py)."""
    pending = tuple(pending)
    fixes = sum(remedy.is_unproven for remedy in pending)
    if changes := len(pending) - fixes:
        yield f"{changes} possible change{'s are' if changes > 1 else ' is'} not tried yet"
    if fixes:
        yield f"{fixes} possible fix{'es are' if fixes > 1 else ' is'} not verified yet"


def _without_or(text: str) -> str:
    """An alternative as a sentence of its own: what it was an alternative to is not advised."""
    rest = text.removeprefix("Or ")
    return f"{rest[0].upper()}{rest[1:]}" if rest != text else text


def _lowered(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}"

"""How the calls of a changed text compare with those of the text before it: for fixes, and for changes of the user.

Invariant: each change is judged by the same policy, `verdict.py` and `case_policy.py`, and nothing here knows where a
change comes from. A class is never better than the calls that were compared show, nor than the change can earn.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TypeVar

from fuselight.shared.report import Report, Verification
from fuselight_server.base.formatting import cut_list, format_list
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.verification.case_policy import CaseException
from fuselight_server.fixes.verification.verdict import (
    Verdict,
    VerdictKind,
    calls_verdict,
    cases_verdict,
    memory_notes,
    refusal_kind,
    result_words,
)

OTHER_INPUTS = "other inputs"
"""The name of all further calls, where none was made."""
_SHOWN_CASES = 3
"""Cases that are named in a title."""
_Entry = TypeVar("_Entry")


@dataclass(frozen=True)
class TextComparison:
    """What the compared calls show."""

    kind: VerdictKind
    words: str
    """`same results, except for float16 inputs`, or why the change is refused."""
    fix_class: FixClass | None = None
    """How the results relate; None unless they are the same."""
    exceptions: tuple[CaseException, ...] = ()
    """Cases in which results differ, which `words` names."""
    tried: tuple[str, ...] = ()
    """What was compared: the recorded inputs, other values, further calls."""
    not_accepted: tuple[str, ...] = ()
    """Further calls that the target refuses with an exception, before and after."""
    not_reached: tuple[str, ...] = ()
    """Further calls that were not compared, which `words` names: they lower the class."""
    reached: int = 0
    """How many further calls are done."""
    left: tuple[str, ...] = ()
    """Those that another round compares."""
    limits: tuple[str, ...] = ()
    """What else `words` name: cases that were not compared, lines that did not run."""
    rounds: int = 0
    """Rounds of further calls so far."""
    notes: tuple[str, ...] = ()
    """What was not compared, and why."""
    memory: tuple[str, ...] = ()
    """Which outputs share their memory with something else than before, or have other strides."""
    verifications: tuple[Verification, ...] = ()
    """The comparisons themselves."""

    @property
    def has_passed(self) -> bool:
        """Whether the results are the same, as far as the class of the change asks."""
        return self.kind is VerdictKind.SAME


NOT_COMPARED = TextComparison(VerdictKind.UNVERIFIED, "nothing was compared")


def compare_calls(remedy: Remedy, report: Report) -> TextComparison:
    """Compare the calls of the inputs; `report` is that of the new text."""
    return _comparison(remedy, report, calls_verdict(remedy, report))


def compare_further(remedy: Remedy, first: TextComparison, report: Report) -> TextComparison:
    """Add a round of further calls to a comparison that has passed; `report` is theirs.

    Without progress, the next round leaves out the call that this one ended in.

    Rounds end by calls, not by a clock: under load, a comparison that a time limit ended offered a fix as `same
    results` that has an exception on a quiet machine.
    """
    joined = join(remedy, first, _comparison(remedy, report, cases_verdict(remedy, report)))
    if report.verification is None:
        joined = dataclasses.replace(joined, left=first.left or (OTHER_INPUTS,))
    if joined.left and joined.reached <= first.reached:
        joined = dataclasses.replace(
            joined,
            reached=first.reached + 1,
            not_reached=_once(joined.not_reached, joined.left[:1]),
            left=joined.left[1:],
        )
    joined = dataclasses.replace(joined, rounds=first.rounds + 1)
    return joined if joined.left else end(remedy, joined)


def end(remedy: Remedy, comparison: TextComparison) -> TextComparison:
    """The comparison if nothing else is compared: what is left lowers the class and is named."""
    not_reached = _once(comparison.not_reached, comparison.left)
    ended = dataclasses.replace(comparison, not_reached=not_reached, left=())
    return limit(remedy, ended, _not_compared(not_reached) if not_reached else "")


_NOT_COMPARED = "not compared: "
_MORE_CALLS = re.compile(r"(\d+) more compiled calls?")


def _not_compared(not_reached: tuple[str, ...]) -> str:
    return f"{_NOT_COMPARED}{format_list(cut_list(not_reached, _SHOWN_CASES))}"


def _all_not_reached(first: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """What either part of a program does not reach; compiled calls that are only counted are one number."""
    counts = [int(match[1]) for text in (*first, *others) if (match := _MORE_CALLS.fullmatch(text))]
    if len(counts) <= 1:
        return _once(first, others)
    named = (text for text in _once(first, others) if not _MORE_CALLS.fullmatch(text))
    return (*named, f"{sum(counts)} more compiled calls")


def limit(remedy: Remedy, comparison: TextComparison, limit_words: str) -> TextComparison:
    """The comparison with a limit in its text: it is not exact. Empty words limit nothing."""
    if not comparison.has_passed or not limit_words:
        return comparison
    fix_class = _worst(comparison.fix_class, FixClass.EQUAL)
    limits = (*comparison.limits, limit_words)
    words = _words(remedy, fix_class, comparison.exceptions, limits)
    return dataclasses.replace(comparison, fix_class=fix_class, limits=limits, words=words)


def join(remedy: Remedy, first: TextComparison, other: TextComparison) -> TextComparison:
    """Combine a comparison that has passed with that of other calls: what either limits is limited."""
    joined = dataclasses.replace(
        other,
        exceptions=_once(first.exceptions, other.exceptions),
        tried=_once(first.tried, other.tried),
        not_accepted=_once(first.not_accepted, other.not_accepted),
        not_reached=_all_not_reached(first.not_reached, other.not_reached),
        reached=max(first.reached, other.reached),
        left=other.left,
        notes=_once(first.notes, other.notes),
        memory=_once(first.memory, other.memory),
        verifications=(*first.verifications, *other.verifications),
    )
    if not other.has_passed:
        return joined
    fix_class = _worst(first.fix_class, other.fix_class)
    limits = _once(first.limits, other.limits)
    if sum(text.startswith(_NOT_COMPARED) for text in limits) > 1:
        kept = [text for text in limits if not text.startswith(_NOT_COMPARED)]
        limits = (*kept, _not_compared(joined.not_reached))
    words = _words(remedy, fix_class, joined.exceptions, limits)
    return dataclasses.replace(joined, fix_class=fix_class, limits=limits, words=words)


def _once(first: tuple[_Entry, ...], others: tuple[_Entry, ...]) -> tuple[_Entry, ...]:
    return tuple(dict.fromkeys((*first, *others)))


def _comparison(remedy: Remedy, report: Report, verdict: Verdict) -> TextComparison:
    verification = report.verification or Verification()
    fix_class = _earned(remedy, report, verdict) if verdict.passed else None
    return TextComparison(
        VerdictKind.SAME if verdict.passed else refusal_kind(remedy, report),
        verdict.words if fix_class is None else _words(remedy, fix_class, verdict.exceptions),
        fix_class,
        verdict.exceptions,
        tried=tuple(dict.fromkeys(entry.values for entry in verification.comparisons)),
        not_accepted=verification.not_accepted,
        not_reached=verification.not_reached,
        reached=verification.reached,
        left=verification.left,
        notes=verification.notes,
        memory=memory_notes(report),
        verifications=(verification,),
    )


def _earned(remedy: Remedy, report: Report, verdict: Verdict) -> FixClass:
    """The class that the calls show: a change that may do other things and does not is as good as any other."""
    shown = FixClass.EQUAL if verdict.rounds or verdict.exceptions else FixClass.EXACT
    if remedy.fix_class is FixClass.CHANGES and not cases_verdict(_strict(remedy), report).passed:
        shown = FixClass.CHANGES
    return _worst(remedy.best_class or remedy.fix_class, shown)


def _strict(remedy: Remedy) -> Remedy:
    return dataclasses.replace(remedy, fix_class=FixClass.EQUAL, changes="")


def _worst(*classes: FixClass | None) -> FixClass:
    order = list(FixClass)
    return max((known for known in classes if known is not None), key=order.index)


def _words(
    remedy: Remedy, fix_class: FixClass, exceptions: tuple[CaseException, ...], limits: tuple[str, ...] = ()
) -> str:
    words = result_words(remedy if fix_class is FixClass.CHANGES else _strict(remedy), exceptions)
    return f"{words}, but {'; '.join(limits)}" if limits else words

"""Whether a remedy may be offered: the findings of the old and the new text, and the comparison of their calls.

Invariant: a remedy passes only if the finding is gone (or counts fewer recompilations), no new one came except those
that progress uncovers, and each call that was compared differs in nothing but what the class of the remedy allows.
Whatever is unknown refuses it, with the reason.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.report import Aspect, CallComparison, CaseFamily, Difference, Report
from fuselight.shared.report.verification import OTHER_ORDER
from fuselight_server.base.remedies import UNVERIFIED
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.verification.case_policy import (
    NEW_TENSOR,
    NO_INPUT,
    CaseException,
    exception_of,
    exception_words,
)
from fuselight_server.fixes.verification.finding_changes import finding_changes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight_server.base.finding import Finding
    from fuselight_server.fixes.verification.progress import CompileProgress

COMPILED_ONLY = "in compiled calls"
"""In `Remedy.changes`: eager calls must do the same as before."""
ORDER_ONLY = "the order of what is printed"
"""`Remedy.changes` if compiled calls print the same lines. A warning after the graph shows another source line."""
EAGER_TOO = "in eager calls, too"
"""In `Remedy.changes`: eager calls may print something else."""
_VALUES = frozenset({Aspect.OUTPUT, Aspect.GRADIENT, Aspect.STATE, Aspect.RANDOM})
_ALLOWED = (
    ("random", _VALUES),
    ("print", frozenset({Aspect.PRINTED})),
    ("log", frozenset({Aspect.PRINTED})),
    ("raise", frozenset({Aspect.EXCEPTION})),
)
"""A word of `Remedy.changes`, and what it allows to differ."""
_SAME = {
    FixClass.EXACT: "same results",
    FixClass.EQUAL: "same results",
}


_INEXACT = frozenset({Aspect.MEMORY, Aspect.STRIDES})
"""What values do not show: a fix that changes it is equal."""
_IN_CALL = frozenset({"call", "trace"})
"""Phases in which only a call that does not end reaches the limit of a run: between calls, the worker ends itself."""


@dataclass(frozen=True)
class Verdict:
    """The result of a verification."""

    passed: bool
    words: str
    """`same results`, or why it is refused."""
    exceptions: tuple[CaseException, ...] = ()
    """Cases in which results differ, which the title names."""
    rounds: bool = False
    """Whether a call in eager mode differs by rounding, memory or strides, so that the fix is not exact."""
    next: tuple[Finding, ...] = ()
    """Findings that it uncovers, as more of the program is compiled."""


def remedy_verdict(
    remedy: Remedy,
    finding: Finding,
    *,
    before: Iterable[Finding],
    after: Iterable[Finding],
    progress: CompileProgress,
    is_tried: bool = False,
) -> Verdict:
    """The verdict on a remedy of `finding`.

    `before`, `after`: findings of the old and the new text. `progress`: their reports, the new one with the comparison.
    `is_tried`: as in `finding_changes`.
    """
    report = progress.compared
    changes = finding_changes(
        *(finding, before, after, progress),
        moves_break=remedy.moves_break,
        is_tried=is_tried,
    )
    why = _failure(report) or _unverified(report) or changes.why or _difference(remedy, report)
    return dataclasses.replace(_verdict(remedy, why, report), next=() if why else changes.next)


def calls_verdict(remedy: Remedy, report: Report) -> Verdict:
    """The verdict on the calls alone, for a further target that the remedy changes."""
    return _verdict(remedy, _failure(report) or _unverified(report) or _difference(remedy, report), report)


class VerdictKind(enum.Enum):
    """How a changed text relates to the text before the change, for one target."""

    SAME = "same"
    """Each call that was compared gives the same, as far as the class of the change asks."""
    DIFFERS = "differs"
    FAILS = "fails"
    """The changed text does not run to its end."""
    UNVERIFIED = "unverified"
    """Nothing can be compared."""
    UNCONCERNED = "unconcerned"
    """The target runs nothing that the change touches."""


def refusal_kind(remedy: Remedy, report: Report) -> VerdictKind:
    """What the comparison of calls that refuses a change shows; `report` is that of the new text."""
    if _failure(report):
        return VerdictKind.FAILS
    return VerdictKind.DIFFERS if _difference(remedy, report) else VerdictKind.UNVERIFIED


def cases_verdict(remedy: Remedy, report: Report) -> Verdict:
    """The verdict on the further calls of a remedy that passed those of the inputs."""
    failures = [
        failure for failure in report.failures if failure.kind != "timeout" or failure.phase in _IN_CALL
    ]
    why = f"with other inputs, the changed text fails: {failures[0].message}" if failures else ""
    if report.verification is not None and report.verification.refused:
        why = why or f"with other inputs, it cannot be verified: {report.verification.refused}"
    return _verdict(remedy, why or _difference(remedy, report), report)


def result_words(remedy: Remedy, exceptions: Iterable[CaseException]) -> str:
    """What a fix that passed promises: `same results, except for float16 inputs`."""
    words = _SAME.get(remedy.fix_class) or f"changes behavior: {remedy.changes}"
    excepted = exception_words(exceptions)
    return f"{words}, {excepted}" if excepted else words


def _verdict(remedy: Remedy, why: str, report: Report) -> Verdict:
    if why:
        return Verdict(passed=False, words=why)
    exceptions: dict[CaseException, None] = {}
    rounds = False
    for comparison in report.verification.comparisons if report.verification else ():
        for difference in comparison.differences:
            if difference.aspect is Aspect.MEMORY and difference.text.endswith(NO_INPUT):
                exceptions[CaseException(NEW_TENSOR, "")] = None
            elif difference.rounding or difference.aspect in _INEXACT:
                rounds |= not comparison.compiled
            elif not _is_allowed(remedy, difference, comparison):
                excepted = exception_of(remedy, difference, comparison)
                exceptions.update({excepted: None} if excepted is not None else {})
    words = result_words(remedy, exceptions)
    return Verdict(passed=True, words=words, exceptions=tuple(exceptions), rounds=rounds)


def memory_notes(report: Report) -> tuple[str, ...]:
    """Which outputs share their memory with something else than before, or have other strides."""
    comparisons = report.verification.comparisons if report.verification else ()
    texts = (
        difference.text
        for comparison in comparisons
        for difference in comparison.differences
        if difference.aspect in _INEXACT
    )
    return tuple(dict.fromkeys(texts))


def changed_compiles(report: Report, first: int) -> int:
    """How often the calls from number `first` on compiled code again."""
    again = (recompilation for recompilation in report.recompiles if recompilation.compile_id is not None)
    return sum(recompilation.call is not None and recompilation.call >= first for recompilation in again)


def changes_verdict(remedy: Remedy, old: Report, new: Report, first: int) -> Verdict:
    """The verdict on a remedy for calls that changed, from number `first` on: fewer compiles, and the same results."""
    why = _failure(new) or _unverified(new) or _difference(remedy, new)
    before, after = changed_compiles(old, first), changed_compiles(new, first)
    if not why and after >= before:
        why = f"the changed call still compiles ({before} → {after})"
    if not why and len(new.breaks) > len(old.breaks):
        why = "it causes a graph break"
    if why:
        return Verdict(passed=False, words=why)
    return Verdict(passed=True, words=f"{before} → {after} compiles, same results")


def _failure(report: Report) -> str:
    """Why the new text did not run to its end."""
    if not report.failures:
        return ""
    failure = report.failures[0]
    return f"the changed text fails: {failure.message}"


def _unverified(report: Report) -> str:
    verification = report.verification
    if verification is None:
        return "nothing was compared"
    if verification.refused:
        return f"{UNVERIFIED}{verification.refused}"
    modes = {comparison.compiled for comparison in verification.comparisons}
    return "" if len(modes) > 1 else f"{UNVERIFIED}no call was compared"


def _difference(remedy: Remedy, report: Report) -> str:
    """The first difference that the class of the remedy does not allow."""
    comparisons = report.verification.comparisons if report.verification else ()
    for comparison in comparisons:
        for difference in comparison.differences:
            if (
                not _is_allowed(remedy, difference, comparison)
                and exception_of(remedy, difference, comparison) is None
            ):
                mode = "compiled" if comparison.compiled else "eager"
                return (
                    f"{difference.text} ({mode}, {comparison.values}){_random_words(difference, comparison)}"
                )
    return ""


def _random_words(difference: Difference, comparison: CallComparison) -> str:
    """Why values differ where the call leaves a random number generator in another state; else empty."""
    if difference.aspect not in _VALUES - {Aspect.RANDOM}:
        return ""
    drawn = (difference.text for difference in comparison.differences if difference.aspect is Aspect.RANDOM)
    return "".join(f": it draws other random numbers, as {text}" for text in drawn)


def _is_allowed(remedy: Remedy, difference: Difference, comparison: CallComparison) -> bool:
    """Whether the class of a change permits a difference.

    Memory and rounding in a further call lower the class instead of refusing the change. A change that only delays
    what is printed may change the order of the lines and no text: a value that is changed in place until then is
    printed with its later contents.
    """
    is_further = (
        comparison.family is not CaseFamily.RECORDED
    )  # such a call makes the fix equal, and does not refuse it
    if difference.aspect is Aspect.STRIDES:
        return True
    if difference.aspect is Aspect.MEMORY:
        return remedy.fix_class is not FixClass.EXACT or is_further
    if difference.rounding:  # compiled code may round in another order
        return remedy.fix_class is not FixClass.EXACT or comparison.compiled or is_further
    if remedy.fix_class is not FixClass.CHANGES:
        return False
    is_printed = difference.aspect is Aspect.PRINTED
    # Eager calls print and compute what they did; what is printed after the graph may have changed in place until then.
    is_eager_kept = (is_printed and EAGER_TOO not in remedy.changes) or COMPILED_ONLY in remedy.changes
    is_other_text = is_printed and remedy.changes == ORDER_ONLY and difference.text != OTHER_ORDER
    if is_other_text or (is_eager_kept and not comparison.compiled):
        return False
    return any(word in remedy.changes and difference.aspect in allowed for word, allowed in _ALLOWED)

"""What to do about the recompilations of one finding: about all of its values, and about what failed later only."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from fuselight.shared.report import CallCure, GuardCause, GuardFailure, Recompile
from fuselight_server.base.remedies import FindingRemedy, RemedyState, advice
from fuselight_server.explain.findings.advice.advice import best_first
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import Root, nearest
from fuselight_server.explain.findings.recompilations.expected_versions import IN_THIS_RUN
from fuselight_server.explain.findings.recompilations.own_state import (
    family_of,
)
from fuselight_server.explain.findings.recompilations.recompilation_groups import argument_of, read_place
from fuselight_server.explain.findings.recompilations.remedies import cures_of, later_remedies, remedies_of

_MAX_EXPECTED = 2
_NAME = re.compile("`[^`]+`")


def remedies_of_group(
    context: Context, group: list[Root], failure: GuardFailure | None
) -> tuple[FindingRemedy, ...]:
    """What to do about the recompilations of a group: about each value of one argument, else about the first."""
    first = _remedies(context, group[0], failure)
    others = [_remedies(context, root, other) for root, other in _of_other_values(context, group)]
    if not others:
        texts = {remedy.text for remedy in first}
        later = (remedy for remedy in _of_later(context, group) if remedy.text not in texts)
        return _with_few_expectations(context, (*first, *later))
    return _with_few_expectations(context, best_first(dict.fromkeys((*first, *itertools.chain(*others)))))


def _with_few_expectations(context: Context, remedies: Iterable[FindingRemedy]) -> tuple[FindingRemedy, ...]:
    """The remedies with few of those that say what to expect, and what the run had only where no other says it.

    None of them where a change leaves only the first compile.
    """
    remedies = tuple(remedies)
    expected = [item for item in remedies if item.state is RemedyState.ADVICE and not item.is_step]
    known = [item for item in expected if not item.text.startswith(IN_THIS_RUN)]
    trials = (context.trials[item.cure] for item in remedies if item.state is RemedyState.TRIED and item.cure)
    steps = [item for item in remedies if item.is_step and item.state is not RemedyState.NOT_TRIED]
    named = {name for item in steps if item.state is RemedyState.ADVICE for name in _NAME.findall(item.text)}
    of_each = {frozenset(_NAME.findall(item.text)): item for item in reversed(known)}
    others = [
        item for names, item in of_each.items() if item.text.startswith("Or ") or named.isdisjoint(names)
    ][::-1]
    kept = [] if any(trial.leaves_one for trial in trials) else others[:_MAX_EXPECTED]
    is_open = not known and all(item.text.startswith("Or ") for item in steps)
    kept = kept or expected[:is_open]
    return tuple(item for item in remedies if item not in expected or item in kept)


def cures_of_group(context: Context, group: list[Root], failure: GuardFailure | None) -> tuple[CallCure, ...]:
    """The changes to try: those for each value of one argument, or those for the first recompilation."""
    pairs = ((group[0], failure), *_of_other_values(context, group))
    cures = (cure for root, item in pairs for cure in cures_of(context, root.recompile, item, root.explained))
    return tuple(dict.fromkeys(cures))


def _of_other_values(context: Context, group: list[Root]) -> list[tuple[Root, GuardFailure]]:
    """What else changed in a group, each with its first recompilation: values of one argument, or state of the code.

    State has another change as well: an attribute that was None, and counts from then on.
    """
    shown = [(root, read_place(context, root.recompile)[1]) for root in group]
    first = shown[0][1]
    is_state = bool(family_of(context, group[0].recompile))
    if first is None or not (is_state or argument_of(context, group[0].recompile, first)):
        return []
    others: dict[object, tuple[Root, GuardFailure]] = {}
    for root, failure in shown[1:]:
        if failure is not None and failure.cause is not GuardCause.RELATION:
            others.setdefault((failure.source, failure.cause), (root, failure))
    others.pop((first.source, first.cause), None)
    return [pair for pair in others.values() if is_state or pair[1].source != first.source]


def _of_later(context: Context, group: list[Root]) -> tuple[FindingRemedy, ...]:
    """What to do about the first guard that failed in later recompilations only: it needs a change of its own."""
    first = next(iter(only_later(group)), None)
    return later_remedies(context, *first) if first is not None else ()


def only_later(group: list[Root]) -> list[tuple[Recompile, GuardFailure]]:
    """The failed guards of later recompilations on what did not differ in the first: each keeps the cause alive.

    As the length of a list that grows in each call, and was empty at the first compile.
    """
    known = {failure.source for failure in nearest(group[0].recompile)}
    out: dict[str, tuple[Recompile, GuardFailure]] = {}
    for root in group[1:]:
        for failure in nearest(root.recompile):
            if failure.source and failure.source not in known and failure not in root.explained:
                out.setdefault(failure.source, (root.recompile, failure))
    return list(out.values())


def _remedies(context: Context, root: Root, failure: GuardFailure | None) -> tuple[FindingRemedy, ...]:
    if failure is None:
        return advice((_no_guard_advice(root.recompile),))
    return remedies_of(context, root.recompile, failure, root.explained)


def _no_guard_advice(recompilation: Recompile) -> str:
    text = " ".join(recompilation.reasons)
    if "backend" in text or "mode" in text:
        return "Compile once, with one backend, mode and set of options, and keep the result"
    return "Call it the same way each time, or expect one compile per way"

"""Changes that may help only together: the union of those that alone are without harm and without a gain.

Invariant: what harms alone is in no union of several findings, and a union is left with the changes that it needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from fuselight.shared.report import CallCure, CureGoal, CureKind, CureTrial
from fuselight_server.base.finding import Finding
from fuselight_server.base.remedies import RemedyState
from fuselight_server.explain.findings.advice.trial_verdict import is_harmless

_MAX_PARTS = 6
"""Changes of one union of which each is left out in a run, as others may do without it; of more, each kind is."""


def smaller(parts: Sequence[CallCure]) -> list[list[CallCure]]:
    """The unions without one of the changes, or without one kind of them; of a pair, each change alone."""
    left_out: Iterable[set[CallCure]] = [{part} for part in parts]
    if len(parts) > _MAX_PARTS:
        kinds = dict.fromkeys(part.kind for part in parts)
        left_out = [{part for part in parts if part.kind is kind} for kind in kinds]
    rests = ([part for part in parts if part not in without] for without in left_out)
    return [rest for rest in rests if rest]


def joint_cures(
    findings: Sequence[Finding], trials: Iterable[CureTrial], uncovered: Iterable[CallCure] = ()
) -> Iterator[list[CallCure]]:
    """The unions to try: for each function with a finding that no change helps, and for all such graph breaks.

    The changes of a union have their own words. Where each change of a finding leaves compiles, all of them are tried
    together. `uncovered`: what may help against the breaks that single changes have moved to. It was not tried alone.
    """
    known = {trial.cure: trial for trial in trials}
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        for key in dict.fromkeys(_group(cure) for cure in finding.cures):
            groups.setdefault(key, []).append(finding)
    seen: set[frozenset[CallCure]] = {frozenset(cure.changes) for cure in known}
    for key, group in groups.items():
        if key == CureGoal.LIMITED:
            continue  # a higher limit serves all recompilations
        still_open = [finding for finding in group if not _is_cured(finding)]
        more = tuple(uncovered) if key == CureGoal.BREAKS and still_open else ()
        everyone = [*dict.fromkeys((*still_open, *group))] if still_open else []
        attempts: list[tuple[list[Finding], Callable[[CureTrial], bool]]] = [
            ([*still_open], is_harmless),
            (everyone, is_harmless),
            *(([finding], _is_made) for finding in group if _leaves_compiles(finding, known)),
        ]
        for (members, fits), of_calls in itertools.product(attempts, (True, False)):
            tried = {cure: trial for cure, trial in known.items() if fits(trial)}
            parts = _union(members, tried, key, more, of_calls=of_calls)
            if len(parts) > 1 and frozenset(parts) not in seen:
                seen.add(frozenset(parts))
                yield parts


def _group(cure: CallCure) -> object:
    """What is counted: a setting holds for all code, and may move the break of one function to that of another."""
    return cure.goal if cure.goal in _OF_ALL else (cure.goal, cure.path, cure.line)


_OF_ALL = frozenset({CureGoal.BREAKS, CureGoal.LIMITED})


def _is_cured(finding: Finding) -> bool:
    return any(remedy.state is RemedyState.TRIED for remedy in finding.remedies)


def _leaves_compiles(finding: Finding, trials: Mapping[CallCure, CureTrial]) -> bool:
    """Whether no change of the finding leaves only the first compile."""
    return not any(
        _group(cure) in _OF_ALL or trials[cure].leaves_one for cure in finding.cures if cure in trials
    )


def _is_made(trial: CureTrial) -> bool:
    """Whether the change was made: of the values of one call, one alone may harm, as the others stay numbers."""
    return trial.is_made


def _union(
    findings: Iterable[Finding],
    known: Collection[CallCure],
    key: object,
    more: Iterable[CallCure],
    *,
    of_calls: bool,
) -> list[CallCure]:
    """The known changes of what the findings are about: in the calls, else by settings where there is one."""
    parts: dict[object, CallCure] = {}
    for cure in dict.fromkeys(cure for finding in findings for cure in finding.cures):
        if not _is_single(cure) or _group(cure) != key or cure not in known:
            continue
        if key == CureGoal.BREAKS or (cure.subjects if of_calls else cure.kind is not CureKind.MARK):
            parts.setdefault(_change(cure), cure)
    parts |= {_change(cure): cure for cure in more}
    if _STATIC in parts:  # a function is compiled with one value of `dynamic`
        parts.pop(_DYNAMIC, None)
    return [cure for cure in parts.values() if not _is_in_another(cure, parts.values())]


_DYNAMIC, _STATIC = (CureKind.DYNAMIC, "True"), (CureKind.DYNAMIC, "None")


def _change(cure: CallCure) -> object:
    """What a cure changes, wherever it is for: a setting, or values of calls."""
    return (cure.kind, cure.value) if not cure.subjects else (cure.kind, cure.subjects)


def _is_single(cure: CallCure) -> bool:
    return not cure.also and len(cure.settings) <= 1


def _is_in_another(cure: CallCure, others: Iterable[CallCure]) -> bool:
    """Whether another change marks the same sizes, and more."""
    return cure.kind is CureKind.MARK and any(
        other.kind is CureKind.MARK
        and (cure.outer_path, cure.outer_line) == (other.outer_path, other.outer_line)
        and {*cure.subjects} < {*other.subjects}
        for other in others
    )


def uncovered_cures(shown: Iterable[Finding], known: Iterable[Finding]) -> tuple[CallCure, ...]:
    """What may help against the graph breaks of a trial's run, and not against those of the run without a change."""
    changes = {_change(cure) for finding in known for cure in finding.cures}
    return tuple(
        cure
        for finding in shown
        for cure in finding.cures
        if _group(cure) == CureGoal.BREAKS and _is_single(cure) and _change(cure) not in changes
    )

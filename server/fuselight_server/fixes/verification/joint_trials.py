"""Changes that may help only together: the union of those that alone are without harm and without a gain.

Invariant: what harms alone is in no union, and a union is left with the changes that it needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fuselight.shared.report import CallCure, CureGoal, CureKind, CureTrial
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_list
from fuselight_server.base.remedies import FindingRemedy, RemedyState
from fuselight_server.explain.findings.advice.trial_verdict import is_harmless

_MAX_PARTS = 6
"""Changes of one union: each needs a run that shows whether the others do without it."""


@dataclass(frozen=True)
class JointCure:
    """Several changes of one function's calls, or several settings, each with a sentence."""

    parts: tuple[FindingRemedy, ...]

    @property
    def cure(self) -> CallCure:
        """All of them as one change."""
        first, *rest = self._cures()
        return replace(first, also=tuple(rest))

    @property
    def text(self) -> str:
        """What to do, as a sentence without a full stop."""
        texts = (part.text for part in self.parts)
        return format_list(
            [text if number == 0 else f"{text[0].lower()}{text[1:]}" for number, text in enumerate(texts)]
        )

    @property
    def cost(self) -> str:
        """What they cost."""
        return ". ".join(dict.fromkeys(part.cost for part in self.parts if part.cost))

    def smaller(self) -> list[JointCure]:
        """The unions without one of its changes; of a pair, each change alone."""
        parts = self.parts if len(self.parts) > 1 else ()
        return [JointCure(tuple(part for part in parts if part is not left_out)) for left_out in parts]

    def _cures(self) -> list[CallCure]:
        return [part.cure for part in self.parts if part.cure is not None]


def joint_cures(
    findings: Sequence[Finding], trials: Iterable[CureTrial], uncovered: Iterable[FindingRemedy] = ()
) -> Iterator[JointCure]:
    """The unions to try: for each function with a finding that no change helps, and for all such graph breaks.

    `uncovered`: what may help against the breaks that single changes have moved to. It was not tried alone.
    """
    known = {trial.cure: trial for trial in trials}
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        for key in dict.fromkeys(_group(cure) for cure in finding.cures):
            groups.setdefault(key, []).append(finding)
    for key, group in groups.items():
        still_open = [finding for finding in group if not _is_cured(finding)]
        if key == CureGoal.LIMITED or not still_open:
            continue  # a higher limit serves all recompilations
        more = tuple(uncovered) if key == CureGoal.BREAKS else ()
        seen: set[frozenset[CallCure]] = {frozenset(cure.changes) for cure in known}
        everyone = dict.fromkeys((*still_open, *group))
        for members, of_calls in itertools.product((still_open, everyone), (True, False)):
            union = _union(members, known, key, more, of_calls=of_calls)
            parts = frozenset(part.cure for part in union.parts if part.cure is not None)
            if 1 < len(parts) <= _MAX_PARTS and parts not in seen:
                seen.add(parts)
                yield union


def cured_together(
    findings: Iterable[Finding], trials: Iterable[CureTrial]
) -> Iterator[tuple[JointCure, CureTrial]]:
    """Three changes or more of one recompilation that help, where none of them does so alone, with their trial."""
    known = {trial.cure: trial for trial in trials}
    remedies = {remedy.cure: remedy for finding in findings for remedy in finding.remedies}
    for trial in known.values():
        parts = trial.cure.changes
        alone = [known[part] for part in parts if part in known]
        is_whole = len(alone) == len(parts) > 2 and all(part in remedies for part in parts)  # noqa: PLR2004 - a pair
        if trial.cures and not trial.text and is_whole and not any(part.cures for part in alone):
            yield JointCure(tuple(remedies[part] for part in parts)), trial


def _group(cure: CallCure) -> object:
    """What is counted: a setting holds for all code, and may move the break of one function to that of another."""
    return cure.goal if cure.goal in _OF_ALL else (cure.goal, cure.path, cure.line)


_OF_ALL = frozenset({CureGoal.BREAKS, CureGoal.LIMITED})


def _is_cured(finding: Finding) -> bool:
    return any(remedy.state is RemedyState.TRIED for remedy in finding.remedies)


def _union(
    findings: Iterable[Finding],
    trials: Mapping[CallCure, CureTrial],
    key: object,
    more: Iterable[FindingRemedy],
    *,
    of_calls: bool,
) -> JointCure:
    """The changes of all values that the findings are about: in the calls, else by settings where there is one."""
    parts: dict[object, FindingRemedy] = {}
    for finding in findings:
        for remedy in finding.remedies:
            cure = remedy.cure
            if cure is None or not _is_single(cure) or _group(cure) != key:
                continue
            if cure not in trials or not is_harmless(trials[cure]):
                continue
            if key == CureGoal.BREAKS or (cure.subjects if of_calls else cure.kind is not CureKind.MARK):
                parts.setdefault(_change(cure), remedy)
    parts |= {_change(remedy.cure): remedy for remedy in more if remedy.cure is not None}
    if _STATIC in parts:  # a function is compiled with one value of `dynamic`
        parts.pop(_DYNAMIC, None)
    return JointCure(tuple(parts.values()))


_DYNAMIC, _STATIC = (CureKind.DYNAMIC, "True"), (CureKind.DYNAMIC, "None")


def _change(cure: CallCure) -> object:
    """What a cure changes, wherever it is for: a setting, or values of calls."""
    return (cure.kind, cure.value) if not cure.subjects else (cure.kind, cure.subjects)


def _is_single(cure: CallCure) -> bool:
    return not cure.also and len(cure.settings) <= 1


def uncovered_remedies(shown: Iterable[Finding], known: Iterable[Finding]) -> tuple[FindingRemedy, ...]:
    """What may help against the graph breaks of a trial's run, and not against those of the run without a change."""
    changes = {_change(cure) for finding in known for cure in finding.cures}
    return tuple(
        remedy
        for finding in shown
        for remedy in finding.remedies
        if remedy.cure is not None
        and _group(remedy.cure) == CureGoal.BREAKS
        and _is_single(remedy.cure)
        and _change(remedy.cure) not in changes
    )

"""A sentence of advice, and the change that tries it.

Invariant: a change that can be tried is never advised before it was: until then it is named as one that was not tried.
One that does not cure is not shown.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fuselight.shared.report import CallCure, CureGoal, CureKind, CureTrial, Location
from fuselight_server.base.formatting import format_list
from fuselight_server.base.remedies import NO_CALL, FindingRemedy, RemedyState, in_order
from fuselight_server.explain.findings.common.text import next_words


@dataclass(frozen=True)
class TriedAdvice:
    """One change that may cure a recompilation."""

    text: str
    """An imperative sentence without a full stop, as ``Pass `limit` as a tensor``."""
    cure: CallCure
    cost: str = ""
    """What the change costs besides the edit; a sentence without a full stop."""
    whose: str = ""
    """The function whose compiles are counted, where several are compiled."""
    needs_trial: bool = False
    """Whether it is not named where no call could be changed so: it mostly makes a program worse."""
    is_doubtful: bool = False
    """Whether the source or the run speaks against it: it is named only after a trial that shows that it cures."""


def rounding(values: Iterable[str]) -> str:
    """What floats lose as tensors of torch's default dtype, in words; empty where none of the values loses digits."""
    rounded = next(filter(_is_rounded, values), None)
    if rounded is None:
        return ""
    return f"A float32 tensor rounds its values, such as `{rounded}`; a float64 tensor keeps them"


def _is_rounded(value: str) -> bool:
    """Whether a number is a float that float32 does not have."""
    try:
        number = float(value)
        single = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return True
    except ValueError:
        return False
    return not value.lstrip("-").isdecimal() and single != number and not math.isnan(number)


def tried_remedies(
    candidates: Iterable[TriedAdvice], trials: Mapping[CallCure, CureTrial]
) -> tuple[FindingRemedy, ...]:
    """The candidates with what is known of them: those that cure, the fewest compiles first, else those not tried.

    Those that do not cure come last. Several changes at once are listed only if they were tried, and not if they cure
    and save no more than one of them alone.
    """
    candidates = tuple(candidates)
    remedies = [_remedy(item, trials.get(item.cure), trials) for item in candidates]
    cures = [
        remedy
        for remedy in remedies
        if remedy.state is RemedyState.TRIED and not _is_enough_alone(remedy.cure, trials)
    ]
    untried = [
        remedy
        for item, remedy in zip(candidates, remedies, strict=True)
        if remedy.state is RemedyState.NOT_TRIED
        and not (item.cure.also or item.is_doubtful)
        and not (item.needs_trial and remedy.why == NO_CALL)
    ]
    refused = [remedy for remedy in remedies if remedy.state is RemedyState.REFUSED]
    return (*(in_order(cures) or untried), *refused)


def worded(candidates: Iterable[TriedAdvice]) -> tuple[CallCure, ...]:
    """The changes, each once, with their words."""
    return tuple(dict.fromkeys(replace(item.cure, text=item.text, cost=item.cost) for item in candidates))


def together(cures: Sequence[CallCure]) -> CallCure:
    """Several changes as one, the numbers that become tensors in one sentence."""
    first, *others = cures
    tensors = [match for cure in cures if (match := _AS_TENSOR.fullmatch(cure.text))]
    steps = [cure.text for cure in cures if not _AS_TENSOR.fullmatch(cure.text)]
    if tensors:
        verbs = {match["verb"] + match["whose"] for match in tensors}
        verb, whose = (tensors[0]["verb"], tensors[0]["whose"]) if len(verbs) == 1 else ("Keep", "")
        names = format_list(list(dict.fromkeys(match["name"] for match in tensors)))
        steps.insert(0, f"{verb} {names}{whose} as {'a tensor' if len(tensors) == 1 else 'tensors'}")
    costs = {_NAMES.sub("", cure.cost): cure.cost for cure in reversed(cures) if cure.cost}
    text = format_list(list(_joined(sorted(dict.fromkeys(steps), key=_is_early))))
    text = f"{text}{_EARLY if any(map(_is_early, steps)) else ''}"
    return replace(first, also=tuple(others), text=text, cost=". ".join(reversed(costs.values())))


def _joined(steps: Iterable[str]) -> Iterator[str]:
    """The parts of a sentence of steps, of which those before the first call are last, and name a verb once."""
    before = ""
    for step in steps:
        verb, _, rest = step.removesuffix(_EARLY).partition(" ")
        is_repeated = _is_early(before) and before.startswith(f"{verb} ")
        yield rest if is_repeated else f"{verb.lower() if before else verb} {rest}"
        before = step


def _is_early(step: str) -> bool:
    return step.endswith(_EARLY)


_EARLY = " before the first call"
_AS_TENSOR = re.compile(
    r"(?P<verb>Pass|Keep) (?P<name>`[^`]+`|this value)(?P<whose> to `[^`]+`|) as a tensor"
)
_NAMES = re.compile("`[^`]+`")


def with_joint_changes(
    remedies: Iterable[FindingRemedy],
    cures: Collection[CallCure],
    trials: Mapping[CallCure, CureTrial],
    at: Location | None = None,
) -> tuple[FindingRemedy, ...]:
    """The remedies of a finding with the changes that help only together, or leave fewer compiles together.

    `cures`: the changes of the finding itself, as are those tried for its line `at`: a change may move a break there.
    Those for other findings stand beside them where nothing helps alone.
    Left out then are what was not tried, and what to expect where nothing helps.
    """
    remedies = tuple(remedies)
    line = (at.path, at.line) if at is not None else None
    own = {
        _change(part)
        for cure in (*cures, *trials)
        for part in cure.changes
        if cure in cures or (part.path, part.line) == line
    }
    tried = [cure for cure in map(_tried_cure, remedies) if cure is not None]
    alone = [trials[cure].after for cure in tried if cure in trials]
    joint = [
        trial
        for trial in trials.values()
        if trial.cure.also
        and trial.cures
        and trial.cure not in cures
        and not own.isdisjoint(map(_change, trial.cure.changes))
        and (not alone or (own.issuperset(map(_change, trial.cure.changes)) and trial.after < min(alone)))
        and not any(
            {*other.cure.changes} < {*trial.cure.changes} and other.saves_as_much_as(trial)
            for other in trials.values()
        )
    ]
    if not joint:
        return remedies
    parts = {part for trial in joint for part in trial.cure.changes}
    shown = (
        _remedy(TriedAdvice(trial.cure.text, trial.cure, trial.cure.cost), trial, trials) for trial in joint
    )
    is_of_break = any(trial.cure.goal is CureGoal.BREAKS for trial in joint)
    named = {name for part in parts for name in part.settings}
    others = (
        remedy
        for remedy in remedies
        if remedy.state is RemedyState.REFUSED
        or (remedy.cure in tried and remedy.cure not in parts)
        or (is_of_break and not remedy.is_pending and not any(name in remedy.text for name in named))
    )
    return (*in_order(shown), *others)


def _tried_cure(remedy: FindingRemedy) -> CallCure | None:
    return remedy.cure if remedy.state is RemedyState.TRIED else None


def _change(cure: CallCure) -> object:
    """What a cure changes: a setting is one change, whichever line it is for."""
    return (cure.kind, cure.value) if cure.kind is CureKind.SETTING else cure


def best_first(remedies: Iterable[FindingRemedy]) -> list[FindingRemedy]:
    """The remedies, of those that were tried and cure the best ones first."""
    remedies = list(remedies)
    in_turn = iter(in_order(remedy for remedy in remedies if remedy.state is RemedyState.TRIED))
    return [next(in_turn) if remedy.state is RemedyState.TRIED else remedy for remedy in remedies]


def _left(trial: CureTrial) -> tuple[int, ...]:
    """What is left with a change: breaks, compiles of the function, all compiles, code outside of graphs.

    What takes away a `dynamic=False` comes before all else: it is the cause.
    """
    return (int(not _is_of_static(trial.cure)), trial.breaks, trial.after, trial.compiles, -trial.operators)


def _is_of_static(cure: CallCure) -> bool:
    return (cure.kind, cure.value) == (CureKind.DYNAMIC, "None")


def _after(cure: CallCure | None, trials: Mapping[CallCure, CureTrial]) -> int:
    return trials[cure].after if cure is not None else 0


def _is_enough_alone(cure: CallCure | None, trials: Mapping[CallCure, CureTrial]) -> bool:
    """Whether one of several changes, or of several settings, saves as much as all of them."""
    return cure is not None and any(
        trial.cures and trial.after <= _after(cure, trials) and _is_part(trial.cure, cure)
        for trial in trials.values()
    )


def _is_part(cure: CallCure, whole: CallCure) -> bool:
    if whole.kind is not CureKind.SETTING:
        return {*cure.changes} < {*whole.changes}
    if cure.kind is not CureKind.SETTING:  # another way, and no part of this one
        return False
    is_of_same = (cure.path, cure.line, cure.goal) == (whole.path, whole.line, whole.goal)
    return is_of_same and cure.settings.items() < whole.settings.items()


ONLY_TOGETHER = "none of them helps alone"
"""What is said of several changes of which each was tried alone, without a gain."""


def _remedy(
    advice: TriedAdvice, trial: CureTrial | None, trials: Mapping[CallCure, CureTrial]
) -> FindingRemedy:
    cure = advice.cure
    alone = [trials.get(part) for part in cure.changes] if cure.also else []
    # One that leaves fewer breaks, and others on its line, helps alone against its own.
    is_needed = bool(alone) and not any(
        known is None or known.cures or known.after < known.before for known in alone
    )
    kind = "+".join(_kind(part) for part in cure.changes)
    whose = f" of {advice.whose}" if advice.whose else ""
    state, why, counts = RemedyState.NOT_TRIED, "", ""
    if trial is not None and not trial.is_made:
        why = NO_CALL
    elif trial is not None:
        state = RemedyState.TRIED if trial.cures else RemedyState.REFUSED
        uncovered = next_words((item.gb_id, item.path, item.line) for item in trial.next)
        why = trial.refused or ", ".join(filter(None, (ONLY_TOGETHER if is_needed else "", uncovered)))
        after = trial.breaks if trial.next else trial.after
        is_freed = trial.frees_limit and cure.goal is CureGoal.COMPILES
        freed = ", and then no call in eager mode" if is_freed else ""
        counts = f"{trial.before} → {after} {cure.goal.value}{whose}{freed}"
        if trial.next and after >= trial.before:
            counts = "the graph then breaks later"
    return FindingRemedy(
        *(advice.text, state, kind, why, counts, advice.cost),
        cure=cure,
        values=tuple(_values(cure)),
        left=_left(trial) if trial is not None else (),
    )


def _kind(cure: CallCure) -> str:
    return "+".join(cure.settings) if cure.kind is CureKind.SETTING else cure.kind.value


def _values(cure: CallCure) -> Iterator[str]:
    """What a cure changes, in the words of the fix that makes the same change; nothing for a setting that is on."""
    for value in cure.settings.values() if cure.kind is CureKind.SETTING else (cure.value,):
        names = map(str, value if isinstance(value, list) else [value])
        yield from (name.rpartition(".")[2] for name in names if name not in {"", "True"})
    yield from (subject for part in cure.changes for subject in part.subjects)

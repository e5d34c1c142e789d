"""Settings of torch that may cure wrong results, each tried by a run of the program.

Invariant: a setting counts as a cure of a call only if a run with nothing else changed has compared the call and found
it as in eager mode. That it does not cure may also be known from a run that ends after the stage that is wrong: it
generates no code. What there is no time for is not tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from fuselight.shared.report import (
    STAGE_BACKENDS,
    ComparedCall,
    Report,
    ResultComparison,
    Stage,
    TriedSetting,
)
from fuselight_server.explain.findings.common.result_words import replaced_at
from fuselight_server.fixes.verification.accuracy_runs import AccuracyRuns, repeated_calls

_DYNAMO, _FUNCTORCH, _INDUCTOR = "torch._dynamo.config", "torch._functorch.config", "torch._inductor.config"
FALLBACK_RANDOM = {f"{_INDUCTOR}.fallback_random": "True"}
"""With it compiled code draws the random numbers of eager mode."""
SETTINGS: dict[Stage, tuple[dict[str, str], ...]] = {
    Stage.CAPTURE: (
        {f"{_DYNAMO}.skip_nnmodule_hook_guards": "False"},
        {f"{_DYNAMO}.guard_nn_modules_using_dict_tags": "False"},
        {f"{_DYNAMO}.skip_tensor_guards_with_matching_dict_tags": "False"},
        {f"{_DYNAMO}.skip_no_tensor_aliasing_guards_on_parameters": "False"},
        {f"{_DYNAMO}.automatic_dynamic_shapes": "False"},
        {f"{_DYNAMO}.specialize_float": "True"},
    ),
    Stage.FUNCTIONALIZATION: ({f"{_FUNCTORCH}.view_replay_for_aliased_outputs": "False"},),
    Stage.DECOMPOSITION: ({f"{_FUNCTORCH}.cse": "False"},),
    Stage.CODE: (
        {f"{_FUNCTORCH}.enable_autograd_cache": "False"},
        {f"{_INDUCTOR}.fx_graph_cache": "False"},
        {f"{_INDUCTOR}.pattern_matcher": "False"},
        {f"{_INDUCTOR}.max_fusion_size": "1"},
        {f"{_INDUCTOR}.layout_optimization": "False"},
        {f"{_INDUCTOR}.emulate_precision_casts": "True"},
        {f"{_INDUCTOR}.allow_buffer_reuse": "False"},
        {f"{_INDUCTOR}.inplace_buffers": "False"},
        {f"{_INDUCTOR}.epilogue_fusion": "False"},
        {f"{_INDUCTOR}.split_reductions": "False"},
    ),
}
"""What is tried for each stage, the most likely and the cheapest first. Settings of one entry are tried together, and
each alone if that cures. All count as cures if none does alone."""
_UNKNOWN = "settings"
"""The stage of a problem with a setting that the program's torch does not have."""
Verdict: TypeAlias = "tuple[bool, float | None]"
"""Whether a call is cured, and the ratio of times."""
_TIMED = 2
"""Further calls of a function that are made for its time."""
_MIN_SECONDS = 1e-3
"""Shortest time of a call of which a ratio is said: shorter ones are mostly the cost of the comparison."""


async def try_settings(
    runs: AccuracyRuns, results: ResultComparison, stages: Mapping[int, Stage], most: int | None
) -> dict[int, list[TriedSetting]]:
    """The settings that were tried for each call, by its index: until one cures, `most` entries of each stage.

    The number and the order do not depend on how long runs take: two machines try the same. None: all entries. What the
    program itself sets is left out first.
    """
    tried: dict[int, list[TriedSetting]] = {index: [] for index in stages}
    trials = _Trials(runs, results)
    for stage, known in SETTINGS.items():
        own = dict.fromkeys(replaced_at(results, stage), "")
        groups = ((own, *known) if own else known)[:most]
        of_stage = {call.index: call for call in results.calls if stages.get(call.index) is stage}
        for group in groups:
            left = {index: call for index, call in of_stage.items() if not _is_cured(tried[index])}
            if left:
                await _try_group(trials, stage, group, left, tried)
    return tried


def _is_cured(tried: Iterable[TriedSetting]) -> bool:
    return any(setting.cures for setting in tried)


async def _try_group(
    trials: _Trials,
    stage: Stage,
    group: Mapping[str, str],
    calls: Mapping[int, ComparedCall],
    tried: dict[int, list[TriedSetting]],
) -> None:
    """Try settings together; each alone for the calls that this cures."""
    together = await trials.verdicts(stage, group, calls)
    cured = {index: calls[index] for index, (cures, _) in together.items() if cures}
    for index, (cures, ratio) in together.items():
        if not cures or len(group) == 1:
            tried[index] += [TriedSetting(name, value, cures, ratio) for name, value in group.items()]
    if len(group) == 1:
        return
    for name, value in group.items():
        left = {index: call for index, call in cured.items() if not _is_cured(tried[index])}
        alone = await trials.verdicts(stage, {name: value}, left) if left else {}
        for index, (cures, ratio) in alone.items():
            tried[index].append(TriedSetting(name, value, cures, ratio))
    for index in cured:
        if not _is_cured(tried[index]):  # as a scalar and a vector printer of one operation
            others = [setting for setting in tried[index] if setting.name not in group]
            ratio = together[index][1]
            tried[index] = [
                *others,
                *(TriedSetting(*each, cures=True, ratio=ratio) for each in group.items()),
            ]


class _Trials:
    """Runs of one program with settings."""

    def __init__(self, runs: AccuracyRuns, results: ResultComparison) -> None:
        self._runs, self._results = runs, results

    async def verdicts(
        self, stage: Stage, settings: Mapping[str, str], calls: Mapping[int, ComparedCall]
    ) -> dict[int, Verdict]:
        """Whether the settings cure each call that runs compare, and the ratio of times."""
        backend = STAGE_BACKENDS.get(stage)
        known: dict[int, Verdict] = {}
        if backend is not None:
            known = await self._run(backend, settings, calls)
            calls = {index: call for index, call in calls.items() if index in known and known[index][0]}
            known = {index: verdict for index, verdict in known.items() if index not in calls}
        return {**known, **(await self._run("", settings, calls) if calls else {})}

    async def _run(
        self, backend: str, settings: Mapping[str, str], calls: Mapping[int, ComparedCall]
    ) -> dict[int, Verdict]:
        words = ", ".join(
            f"{name.rpartition('.')[2]} = {value}" if value else f"the default of {name}"
            for name, value in settings.items()
        )
        if backend:
            words = f'{words} with backend "{backend}"'
        timed = [] if backend else [index for call in calls.values() for index in self._timed_after(call)]
        report = await self._runs.report(
            f"trying {words}", calls={*calls, *timed}, backend=backend, settings=settings
        )
        if report.results is None or _is_unknown(report, settings):
            return {}
        verdicts: dict[int, Verdict] = {}
        for index, call in repeated_calls(report.results, calls).items():
            if call.is_wrong or call.is_as_eager:
                ratio = self._ratio(call, report.results) if call.is_as_eager and not backend else None
                verdicts[index] = call.is_as_eager, ratio
        return verdicts

    def _timed_after(self, call: ComparedCall) -> list[int]:
        """Later calls of the function of which the time is known."""
        later = (each.index for each in self._results.calls if each.index > call.index and _is_of(each, call))
        return list(later)[:_TIMED]

    def _ratio(self, call: ComparedCall, changed: ResultComparison) -> float | None:
        """The time of the function's later calls, with the settings, to that without them.

        A cured call may be the one that compiles.
        """
        known = [each for each in self._results.calls if each.index > call.index and _is_of(each, call)]
        again = {each.index: each.compiled_seconds for each in changed.calls if _is_of(each, call)}
        pairs = [(each.compiled_seconds, again[each.index]) for each in known if each.index in again]
        if not pairs:
            return None
        before, after = (min(seconds) for seconds in zip(*pairs, strict=True))
        return after / before if before >= _MIN_SECONDS else None


def _is_of(call: ComparedCall, other: ComparedCall) -> bool:
    return (call.name, call.location) == (other.name, other.location)


def _is_unknown(report: Report, settings: Mapping[str, str]) -> bool:
    """Whether the program's torch lacks one of the settings."""
    return any(problem.stage == _UNKNOWN and problem.what in settings for problem in report.problems)

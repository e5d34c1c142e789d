"""Runs that explain compiled calls which differ from eager mode: the stage, the first line, the settings that cure.

Invariant: a call counts as wrong only by a run in which torch.compile gets what the source gives it. What a further run
did not compare is a problem of the report, and never a guess.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from fuselight.shared.protocol import AccuracyRequest, RunRequest
from fuselight.shared.report import (
    STAGE_BACKENDS,
    ComparedCall,
    Problem,
    RandomDraws,
    Report,
    ResultCause,
    ResultComparison,
    Stage,
    TriedSetting,
)
from fuselight_server.base.formatting import format_count, format_target
from fuselight_server.explain.findings.common.result_words import wrong_calls
from fuselight_server.fixes.verification.accuracy_runs import RESULTS, AccuracyRuns, repeated_calls
from fuselight_server.fixes.verification.region_settings import with_region_edits
from fuselight_server.fixes.verification.setting_trials import FALLBACK_RANDOM, try_settings

_MAX_WRONG = 8
"""Wrong calls that further runs explain."""
_WITHOUT_CACHES = {
    "torch._inductor.config.fx_graph_cache": "False",
    "torch._functorch.config.enable_autograd_cache": "False",
}
"""With them each graph is lowered, so that it is known which operators a buffer stands for."""
_ONLY_DRAW = "It is the only line of the call that draws random numbers."
_MAX_LOCATED = 3
"""Functions of which the first line that differs is searched."""


async def compare_results(
    request: RunRequest,
    run: Callable[[AccuracyRequest, str], Awaitable[Report]],
    *,
    locate_seconds: float,
    tries: int | None,
    kernels: bool = False,
) -> Report:
    """Run the program as it is with its calls compared; further runs explain the calls that are wrong.

    `kernels`: another run judges the kernels of calls that are right. A call that differs from another configuration is
    not explained further: stages are those of one compile next to eager mode.

    `run` gives the report of a request, with progress that begins with the given words. `locate_seconds`: for the
    search of the first line in each function that is wrong; 0 for no search. `tries`: how many settings are tried
    for a stage, None for all.
    """
    runs = AccuracyRuns(request, run)
    report = await runs.report("comparing with eager mode")
    if report.results is None:
        return report
    results = await _with_random_decided(runs, report.results)
    drawn = [call for call in wrong_calls(results) if call.draws is not None and call.draws.why]
    wrong = [call for call in wrong_calls(results) if call not in drawn][:_MAX_WRONG]
    results = dataclasses.replace(results, causes=tuple(map(_cause_of_draws, drawn)))
    if kernels:
        results = await _with_kernels(runs, results)
    if wrong and not results.against:
        stages = await _stages(runs, wrong)
        results, repeated = await _located(runs, results, wrong, stages, locate_seconds)
        explained = {index: stage for index, stage in stages.items() if index in repeated}
        tried = await try_settings(runs, results, explained, tries)
        results = dataclasses.replace(results, causes=(*results.causes, *_causes(explained, tried)))
    if tries != 0:
        results = await with_region_edits(runs, results, request.overlays)
    return dataclasses.replace(
        report, results=results, problems=tuple(dict.fromkeys((*report.problems, *runs.problems)))
    )


async def _with_kernels(runs: AccuracyRuns, results: ResultComparison) -> ResultComparison:
    """The results, with what the kernels of each function's first right call do on their own inputs."""
    first = {(call.name, call.location): call for call in reversed(results.calls) if call.is_as_eager}
    calls = {call.index: call for call in first.values()}
    if not calls:
        return results
    report = await runs.report("replaying kernels", calls=calls, settings=_WITHOUT_CACHES, kernels=True)
    replays = {index: call.accuracy.replay for index, call in repeated_calls(report.results, calls).items()}
    for index in calls.keys() - {index for index, replay in replays.items() if replay is not None}:
        why = next((failure.message for failure in report.failures), "no generated code was seen")
        runs.problems.append(Problem(RESULTS, f"kernels of call {index + 1}", why))
    return _with_calls(
        results,
        {
            index: dataclasses.replace(
                call, accuracy=dataclasses.replace(call.accuracy, replay=replays.get(index))
            )
            for index, call in calls.items()
        },
    )


async def _with_random_decided(runs: AccuracyRuns, results: ResultComparison) -> ResultComparison:
    """The results, with calls that draw random numbers decided by a run in which compiled code draws eager's."""
    undecided = {
        call.index: call
        for call in results.calls
        if call.is_random and call.accuracy.passed is None and not call.others
    }
    if not undecided:
        return results
    runs.settings = dict(FALLBACK_RANDOM)  # also in the runs that explain these calls
    again = await runs.further("random numbers as in eager mode", undecided)
    decided = {index: call for index, call in again.items() if call.is_wrong or call.is_as_eager}
    if not any(call.is_wrong for call in decided.values()):
        runs.settings = {}
    by_distribution = {
        index: _by_distribution(call, call.draws)
        for index, call in undecided.items()
        if index not in decided and call.draws is not None and call.draws.compared
    }
    return _with_calls(
        results,
        by_distribution
        | {index: _with_random_words(call, undecided[index].draws) for index, call in decided.items()},
    )


def _by_distribution(call: ComparedCall, draws: RandomDraws) -> ComparedCall:
    """The call as in eager mode, as far as distributions show: it draws other numbers with `fallback_random`, too."""
    ((name, _),) = FALLBACK_RANDOM.items()
    why = (
        f"{format_count(draws.compared, 'result')} compared as distributions of calls with other seeds: compiled code "
        f"draws other numbers also with `{name}`, as kernels of attention with dropout do"
    )
    return dataclasses.replace(
        call, accuracy=dataclasses.replace(call.accuracy, passed=True, why=why, compared=draws.compared)
    )


def _with_random_words(call: ComparedCall, draws: RandomDraws | None) -> ComparedCall:
    """The call as it is with eager's random numbers, or wrong if its own have another distribution."""
    ((name, value),) = FALLBACK_RANDOM.items()
    if draws is not None and draws.why and call.is_as_eager:
        accuracy = dataclasses.replace(
            call.accuracy,
            passed=False,
            why=draws.why,
            first=draws.first,
            first_why=_ONLY_DRAW if draws.first else "",
            first_operator=draws.operator,
        )
        return dataclasses.replace(call, accuracy=accuracy, draws=draws)
    note = f"compared with `{name} = {value}`, as the call draws random numbers"
    why = "; ".join(filter(None, (call.accuracy.why, note)))
    return dataclasses.replace(call, accuracy=dataclasses.replace(call.accuracy, why=why))


def _cause_of_draws(call: ComparedCall) -> ResultCause:
    """Of random numbers of another distribution: with those of eager mode, a run has found the call to be right."""
    ((name, value),) = FALLBACK_RANDOM.items()
    return ResultCause(call.index, Stage.CODE, (TriedSetting(name, value, cures=True),))


def _with_calls(results: ResultComparison, calls: Mapping[int, ComparedCall]) -> ResultComparison:
    return dataclasses.replace(results, calls=tuple(calls.get(call.index, call) for call in results.calls))


async def _stages(runs: AccuracyRuns, wrong: Sequence[ComparedCall]) -> dict[int, Stage]:
    """The first stage whose backend is wrong, for each call of which runs show it."""
    stages: dict[int, Stage] = {}
    left = {call.index: call for call in wrong}
    last: dict[int, ComparedCall] = {}
    for stage, backend in STAGE_BACKENDS.items():
        if not left:
            break
        last = await runs.further(f'backend "{backend}"', left, backend=backend)
        stages.update({index: stage for index, call in last.items() if call.is_wrong})
        left = {index: call for index, call in left.items() if index not in stages}
    for index, call in left.items():
        if index in last and last[index].is_as_eager:
            stages[index] = Stage.CODE
        else:
            why = f"no run with another backend could compare the call of `{format_target(call.name)}`"
            runs.problems.append(Problem(RESULTS, f"stage of call {index + 1}", why))
    return stages


async def _located(
    runs: AccuracyRuns,
    results: ResultComparison,
    wrong: Sequence[ComparedCall],
    stages: Mapping[int, Stage],
    seconds: float,
) -> tuple[ResultComparison, set[int]]:
    """The results with the first line that differs of each wrong function, and the calls that are wrong again.

    Calls that the backend of a stage showed to be wrong are wrong again; others are only after a second run as it is.
    """
    groups: dict[tuple[object, ...], dict[int, ComparedCall]] = {}
    for call in wrong:
        if call.index in stages:
            key = call.name, call.location, stages[call.index]
            groups.setdefault(key, {})[call.index] = call
    repeated = {index for index, stage in stages.items() if stage is not Stage.CODE}
    located: dict[int, ComparedCall] = {}
    for number, calls in enumerate(groups.values()):
        stage = stages[min(calls)]
        searched = seconds if number < _MAX_LOCATED else 0.0
        if stage is not Stage.CODE and not searched:
            continue
        name = format_target(calls[min(calls)].name)
        words = f"first line of {name} that differs" if searched else f"calling {name} again"
        again = await runs.further(
            words, calls, backend=STAGE_BACKENDS.get(stage, ""), locate_seconds=searched
        )
        for index, call in again.items():
            if call.is_wrong:
                repeated.add(index)
                located[index] = _at_first(calls[index], call)
    for index in stages.keys() - repeated:
        why = "the results were as in eager mode when the program ran again"
        runs.problems.append(Problem(RESULTS, f"cause of call {index + 1}", why))
    return _with_calls(results, located), repeated


def _at_first(call: ComparedCall, again: ComparedCall) -> ComparedCall:
    """The call with the first operator that differs in another run."""
    located = again.accuracy
    accuracy = dataclasses.replace(
        call.accuracy,
        first=located.first,
        first_why=located.first_why,
        first_operator=located.first_operator,
        first_graph=located.first_graph,
        first_kernel=located.first_kernel,
        replay=located.replay,
    )
    return dataclasses.replace(call, accuracy=accuracy)


def _causes(
    stages: Mapping[int, Stage], tried: Mapping[int, Sequence[TriedSetting]]
) -> Iterable[ResultCause]:
    for index, stage in sorted(stages.items()):
        cures = [setting.name for setting in tried.get(index, ()) if setting.cures]
        is_cached = bool(cures) and all("cache" in name for name in cures)
        yield ResultCause(index, Stage.CACHES if is_cached else stage, tuple(tried.get(index, ())))

"""What is asked of the worker to explain a wrong call, and what is concluded from the answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fuselight.shared.protocol import AccuracyRequest, CaptureRequest, InputsPlan, Target
from fuselight.shared.report import RandomDraws, Report, ResultComparison, Stage
from fuselight_server.commands.accuracy import (
    ResultsState,
    state_of,
)
from fuselight_server.explain.findings.common.result_words import largest_difference
from fuselight_server.fixes.verification.setting_trials import SETTINGS
from fuselight_server.fixes.verification.wrong_results import compare_results
from tests.support.compared_results import (
    RANDOM,
    WRONG,
    Fault,
    ScriptedProgram,
)
from tests.support.reports import FILE, at

REQUEST = CaptureRequest(
    id=1,
    generation=1,
    target=Target(FILE, "Net", "module", 10, compiled=True),
    inputs=InputsPlan(),
    roots=("/w",),
)
CACHES = ("enable_autograd_cache", "fx_graph_cache")


def explained(program: ScriptedProgram, *, locate: float = 60.0, tries: int | None = None) -> Report:
    return compared(program, tries, locate=locate)


def compared(
    program: ScriptedProgram, tries: int | None, *, locate: float = 60.0, kernels: bool = False
) -> Report:
    shown: list[str] = []

    async def run(request: AccuracyRequest, words: str) -> Report:
        shown.append(words)
        return program.answer(request)

    report_of_program = asyncio.run(
        compare_results(REQUEST, run, locate_seconds=locate, tries=tries, kernels=kernels)
    )
    assert len(set(shown)) == len(program.requests), "each run says what it is for"
    return report_of_program


def results_of(compared: Report) -> ResultComparison:
    assert compared.results is not None
    return compared.results


def runs_of(program: ScriptedProgram) -> list[tuple[str, tuple[int, ...], float]]:
    """The backend, the calls and the search of each run without a setting."""
    return [
        (request.backend, request.calls, request.locate_seconds)
        for request in program.requests
        if not request.settings
    ]


def tried_of(program: ScriptedProgram) -> list[tuple[str, ...]]:
    return [
        tuple(name.rpartition(".")[2] for name in request.settings)
        for request in program.requests
        if request.settings
    ]


def test_a_right_program_runs_once() -> None:
    program = ScriptedProgram()
    answer = explained(program)
    assert [request.calls for request in program.requests] == [()]
    assert state_of(answer) is ResultsState.AS_EAGER
    assert results_of(answer).causes == ()


def test_the_stage_is_the_first_backend_that_is_wrong_and_no_later_one_runs() -> None:
    program = ScriptedProgram({1: Fault(Stage.FUNCTIONALIZATION, line=14)})
    results = results_of(explained(program, tries=0))
    assert [(cause.call, cause.stage) for cause in results.causes] == [(1, Stage.FUNCTIONALIZATION)]
    assert runs_of(program) == [
        ("", (), 0.0),
        ("eager", (1,), 0.0),
        ("aot_eager", (1,), 0.0),
        ("aot_eager", (1,), 60.0),
    ]
    located = results.calls[1].accuracy
    assert (located.first[0].line, located.first_operator) == (14, "torch.flip")
    assert located.tensors == WRONG.tensors, "the errors are those of the program's own backend"


def test_what_no_backend_shows_is_wrong_code_and_is_searched_with_the_programs_own_backend() -> None:
    program = ScriptedProgram({2: Fault(cures=("max_fusion_size",))})
    answer = explained(program)
    (cause,) = results_of(answer).causes
    assert cause.stage is Stage.CODE
    assert runs_of(program)[-1] == ("", (2,), 60.0)
    names = [(setting.name.rpartition(".")[2], setting.cures) for setting in cause.tried]
    assert names == [*((name, False) for name in (*CACHES, "pattern_matcher")), ("max_fusion_size", True)]
    assert tried_of(program)[-1] == ("max_fusion_size",), "no run follows the one that cures"


@pytest.mark.parametrize("cache", CACHES)
def test_the_stage_is_a_cache_where_a_run_without_it_cures(cache: str) -> None:
    (cause,) = results_of(explained(ScriptedProgram({2: Fault(cures=(cache,))}))).causes
    assert cause.stage is Stage.CACHES
    assert [setting.name.rpartition(".")[2] for setting in cause.tried if setting.cures] == [cache]


def test_the_stage_is_a_cache_where_the_program_sets_what_the_cache_may_keep() -> None:
    own = "torch._inductor.config.unsafe_marked_cacheable_functions"
    program = ScriptedProgram({1: Fault(cures=(own.rpartition(".")[2],))}, replaced=(own,))
    (cause,) = results_of(explained(program)).causes
    assert (cause.stage, cause.tried[0].name) == (Stage.CACHES, own)


@pytest.mark.parametrize(
    ("stage", "first"),
    [
        (Stage.CODE, ("custom_partitioner_fn", "post_grad_custom_pre_pass")),
        (Stage.DECOMPOSITION, ("custom_partitioner_fn", "post_grad_custom_pre_pass")),
        (Stage.CAPTURE, ("pre_graph_hook",)),
    ],
)
def test_functions_of_the_program_are_left_out_first(stage: Stage, first: tuple[str, ...]) -> None:
    own = (
        "torch._inductor.config.custom_partitioner_fn",
        "torch._dynamo.config.pre_graph_hook",
        "torch._inductor.config.post_grad_custom_pre_pass",
    )
    program = ScriptedProgram({1: Fault(stage, cures=(first[-1],))}, replaced=own)
    (cause,) = results_of(explained(program, tries=1)).causes
    assert tried_of(program)[0] == first
    assert [setting.name.rpartition(".")[2] for setting in cause.tried if setting.cures] == [first[-1]]


def test_calls_with_faults_of_several_stages_share_their_runs() -> None:
    faults = {0: Fault(Stage.CAPTURE), 1: Fault(Stage.DECOMPOSITION), 2: Fault()}
    program = ScriptedProgram(faults, functions={0: "a", 1: "b", 2: "c"})
    results = results_of(explained(program, tries=0))
    assert {cause.call: cause.stage for cause in results.causes} == {
        index: fault.stage for index, fault in faults.items()
    }
    assert [(backend, calls) for backend, calls, seconds in runs_of(program) if not seconds] == [
        ("", ()),
        ("eager", (0, 1, 2)),
        ("aot_eager", (1, 2)),
        ("aot_eager_decomp_partition", (1, 2)),
    ]
    assert [(backend, calls) for backend, calls, seconds in runs_of(program) if seconds] == [
        ("eager", (0,)),
        ("aot_eager_decomp_partition", (1,)),
        ("", (2,)),
    ]


def test_a_random_call_is_decided_by_a_run_that_draws_as_eager_does() -> None:
    program = ScriptedProgram(random=frozenset({1}))
    answer = explained(program)
    assert [(request.calls, dict(request.settings)) for request in program.requests] == [
        ((), {}),
        ((1,), {RANDOM: "True"}),
    ]
    call = results_of(answer).calls[1]
    assert call.is_as_eager
    assert f"compared with `{RANDOM} = True`" in call.accuracy.why


def test_random_numbers_of_another_distribution_are_wrong_although_eagers_numbers_give_the_same_results() -> (
    None
):
    draws = RandomDraws("output has another distribution: its mean is 0.25", (at(12),), "rand_like")
    program = ScriptedProgram(random=frozenset({1}), draws=draws)
    results = results_of(explained(program))
    assert len(program.requests) == 2, "the setting that cures is known from the run that decides"
    call = results.calls[1]
    assert (call.is_wrong, call.accuracy.why, call.accuracy.first) == (True, draws.why, draws.first)
    (cause,) = results.causes
    assert (cause.call, cause.stage) == (1, Stage.CODE)
    assert [(setting.name, setting.cures) for setting in cause.tried] == [(RANDOM, True)]
    assert largest_difference(call) == "output has another distribution"


def test_random_numbers_of_the_same_distribution_are_right() -> None:
    program = ScriptedProgram(random=frozenset({1}), draws=RandomDraws())
    assert results_of(explained(program)).calls[1].is_as_eager


@pytest.mark.parametrize(
    ("draws", "passed"), [(RandomDraws(compared=3), True), (RandomDraws(), None), (None, None)]
)
def test_numbers_that_no_setting_makes_those_of_eager_mode_are_compared_as_distributions(
    *, draws: RandomDraws | None, passed: bool | None
) -> None:
    both = frozenset({1})
    program = ScriptedProgram(random=both, other_numbers=both, draws=draws)
    verdict = results_of(explained(program)).calls[1].accuracy
    assert verdict.passed is passed
    assert verdict.why.startswith("3 results compared as distributions") is bool(passed)


def test_a_random_call_that_is_wrong_is_explained_with_eagers_random_numbers() -> None:
    program = ScriptedProgram({1: Fault(cures=("pattern_matcher",))}, random=frozenset({1}))
    (cause,) = results_of(explained(program)).causes
    assert all(RANDOM in request.settings for request in program.requests[1:])
    assert [setting.name.rpartition(".")[2] for setting in cause.tried if setting.cures] == [
        "pattern_matcher"
    ]


def test_what_is_not_wrong_again_has_no_cause_and_no_cure() -> None:
    program = ScriptedProgram({0: Fault(times=1)})
    answer = explained(program)
    assert results_of(answer).causes == ()
    assert not tried_of(program)
    assert [problem.what for problem in answer.problems] == ["cause of call 1"]
    assert state_of(answer) is ResultsState.DIFFERS, "the program's own run was wrong"


def test_a_stage_that_no_run_could_compare_is_not_guessed() -> None:
    program = ScriptedProgram({0: Fault()}, broken=("aot_eager_decomp_partition",))
    answer = explained(program)
    assert results_of(answer).causes == ()
    assert [problem.what for problem in answer.problems] == ["stage of call 1"]


def test_without_a_search_wrong_code_is_still_confirmed() -> None:
    program = ScriptedProgram({0: Fault(), 1: Fault(Stage.CAPTURE)}, functions={1: "other"})
    explained(program, locate=0.0, tries=0)
    assert not any(request.locate_seconds for request in program.requests)
    assert runs_of(program)[-1] == ("", (0,), 0.0)
    assert ("eager", (1,), 0.0) not in runs_of(program), "a backend has confirmed it"


def test_a_setting_that_this_torch_lacks_is_not_tried() -> None:
    program = ScriptedProgram({0: Fault(cures=("inplace_buffers",))}, unknown=("pattern_matcher",))
    (cause,) = results_of(explained(program)).causes
    names = [setting.name.rpartition(".")[2] for setting in cause.tried]
    assert "pattern_matcher" not in names
    assert names[-1] == "inplace_buffers"


def test_parts_of_the_compiler_that_cure_only_together_are_all_named() -> None:
    own = tuple(f"torch._inductor.codegen.cpp.{name}.rsqrt" for name in ("CppOverrides", "CppVecOverrides"))
    program = ScriptedProgram({0: Fault(cures=own, cured_jointly=True)}, replaced=own)
    (cause,) = results_of(explained(program, tries=1)).causes
    assert [(setting.name, setting.value, setting.cures) for setting in cause.tried] == [
        (name, "", True) for name in own
    ]


@pytest.mark.parametrize("cure", ["joint_custom_post_pass", ""])
def test_settings_of_one_entry_are_tried_together_and_named_alone(cure: str) -> None:
    names = ("pre_grad_custom_pass", "joint_custom_post_pass", "post_grad_custom_pre_pass")
    own = tuple(f"torch._inductor.config.{name}" for name in names)
    program = ScriptedProgram({0: Fault(cures=(cure,) if cure else ())}, replaced=own)
    (cause,) = results_of(explained(program)).causes
    cures = [setting.name.rpartition(".")[2] for setting in cause.tried if setting.cures]
    assert cures == ([cure] if cure else [])
    together, *after = tried_of(program)
    assert together == names
    if cure:
        assert after == [("pre_grad_custom_pass",), (cure,)]
    else:
        assert set(names) <= {setting.name.rpartition(".")[2] for setting in cause.tried}


def test_a_cure_says_what_it_costs_in_later_calls() -> None:
    program = ScriptedProgram({0: Fault(cures=("pattern_matcher",))}, calls=4, slower=1.5)
    (cause,) = results_of(explained(program)).causes
    assert cause.tried[-1].ratio == pytest.approx(1.5)
    assert all(setting.ratio is None for setting in cause.tried[:-1])
    assert program.requests[-1].calls == (0, 1, 2)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_the_first_settings_of_a_stage_are_tried_in_their_order(most: int) -> None:
    program = ScriptedProgram({0: Fault()})
    (cause,) = results_of(explained(program, tries=most)).causes
    entries = [name for group in SETTINGS[Stage.CODE][:most] for name in group]
    assert [setting.name for setting in cause.tried] == entries
    (cause,) = results_of(explained(ScriptedProgram({0: Fault()}))).causes
    assert len(cause.tried) == sum(len(group) for group in SETTINGS[Stage.CODE]), "all without a limit"


def test_another_function_at_the_same_index_shows_nothing() -> None:
    """A program that compiles something else when it runs again."""
    program = ScriptedProgram({0: Fault(Stage.CAPTURE)})
    first = program.answer

    def answer(request: Any) -> Report:
        program.functions = {0: "Net" if not program.requests else "other"}
        return first(request)

    program.answer = answer  # type: ignore[method-assign]
    other = explained(program)
    assert results_of(other).causes == ()
    assert [problem.what for problem in other.problems] == ["stage of call 1"]


def test_each_request_is_of_the_same_target() -> None:
    program = ScriptedProgram({0: Fault()})
    explained(program)
    assert {type(request) for request in program.requests} == {AccuracyRequest}
    assert {request.target.name for request in program.requests} == {"Net"}


def test_a_setting_of_an_early_stage_is_tried_without_code_and_a_cure_is_confirmed_with_it() -> None:
    cure = "automatic_dynamic_shapes"
    program = ScriptedProgram({1: Fault(Stage.CAPTURE, cures=(cure,))})
    (cause,) = results_of(explained(program)).causes
    tried = [(tuple(request.settings), request.backend) for request in program.requests if request.settings]
    names = [setting.name for setting in cause.tried]
    assert [setting.cures for setting in cause.tried] == [*[False] * (len(names) - 1), True]
    assert names[-1].endswith(cure)
    assert tried == [*(((name,), "eager") for name in names), ((names[-1],), "")]


def test_a_cure_of_the_stage_alone_is_no_cure() -> None:
    """The traced graph is right with the setting, and the generated code is wrong with it."""
    setting = "specialize_float"
    program = ScriptedProgram({1: Fault(Stage.CAPTURE, cures=(setting,))})
    plain = program.answer

    def answer(request: AccuracyRequest) -> Report:
        program.faults = {
            1: Fault() if request.settings and not request.backend else Fault(Stage.CAPTURE, cures=(setting,))
        }
        return plain(request)

    program.answer = answer  # type: ignore[method-assign]
    (cause,) = results_of(explained(program)).causes
    assert cause.tried[-1].name.endswith(setting)
    assert not any(tried.cures for tried in cause.tried)


def test_a_difference_from_another_configuration_has_no_stage() -> None:
    program = ScriptedProgram({0: Fault()}, against="default")
    results = results_of(explained(program))
    assert (results.against, results.causes, len(program.requests)) == ("default", (), 1)


def test_kernels_of_right_calls_are_replayed_in_a_run_of_their_own() -> None:
    program = ScriptedProgram({1: Fault(Stage.CAPTURE)})
    results = results_of(compared(program, 0, locate=0.0, kernels=True))
    (replayed,) = [request for request in program.requests if request.kernels]
    assert (replayed.calls, replayed.backend) == ((0,), ""), "the first right call of each function"
    assert all(any(name.endswith(cache) for name in replayed.settings) for cache in CACHES)
    judged = {call.index: call.accuracy.replay for call in results.calls}
    assert judged[0] is not None
    assert judged[0].judged == 3
    assert judged[2] is None

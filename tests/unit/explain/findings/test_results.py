"""FL801 of compared calls: its line, what differs, the stage, the settings that were tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import (
    Accuracy,
    Aspect,
    ComparedCall,
    Difference,
    KernelReplay,
    NonFinite,
    NonFiniteKind,
    NonFiniteOrigin,
    OperatorFault,
    ResultCause,
    ResultComparison,
    Stage,
    TensorError,
    TriedSetting,
    UnseenChange,
    UnseenKind,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.base.remedies import RemedyState
from fuselight_server.explain.findings import findings, findings_of_results
from fuselight_server.explain.findings.common.result_words import STAGE_NAMES, remarks, results_in_words
from tests.support.compared_results import RIGHT, STATE, UNDECIDED, WRONG, compared_call
from tests.support.reports import LIBRARY, at, report

FUSION = "torch._inductor.config.max_fusion_size"
PATTERNS = "torch._inductor.config.pattern_matcher"
CACHE = "torch._functorch.config.enable_autograd_cache"


def comparison(*calls: ComparedCall, causes: tuple[ResultCause, ...] = ()) -> ResultComparison:
    return ResultComparison(calls, len(calls), causes=causes)


def findings_of(*calls: ComparedCall, causes: tuple[ResultCause, ...] = ()) -> tuple[Finding, ...]:
    given = report(results=comparison(*calls, causes=causes))
    actual = findings_of_results(given)
    assert [each for each in findings(given) if each.code == "FL801"] == list(actual), "in every check, too"
    return actual


def test_right_and_undecided_calls_have_no_finding() -> None:
    assert findings_of(compared_call(0), compared_call(1, UNDECIDED)) == ()
    assert findings_of_results(report()) == ()


def test_a_wrong_call_is_on_the_first_line_that_differs() -> None:
    first = replace(
        WRONG, first=(at(20, function="forward"), at(7, path=LIBRARY)), first_operator="torch.flip"
    )
    (finding,) = findings_of(compared_call(0, first))
    assert (finding.code, finding.severity, finding.span.line) == ("FL801", Severity.ERROR, 20)
    assert finding.title == (
        "results of `Net` differ from eager mode in `torch.flip`: output is off by up to 1.91"
    )
    assert "0.8 from float64, where eager's is 1.2e-07" in finding.message
    assert "the first line whose operators" in finding.message
    assert any(related.span.line == 40 for related in finding.related)
    assert any("Run `forward` in eager mode" in remedy.text for remedy in finding.remedies)


@pytest.mark.parametrize(
    ("check", "step"),
    [
        ("test_schema", "`mutates_args`"),
        ("test_faketensor", "`register_fake`"),
        ("kept_memory", "`.clone()`"),
        ("other", ""),
    ],
)
def test_a_custom_operator_that_is_declared_wrong_is_the_users_to_correct(check: str, step: str) -> None:
    fault = OperatorFault("mylib::scale", check, "Argument x is not defined as mutable but was mutated")
    call = replace(compared_call(0, WRONG), operators=(fault,))
    (finding,) = findings_of(call, causes=(ResultCause(0, Stage.CODE),))
    assert "`mylib::scale` does not do what it is declared to do" in finding.message
    assert ("was mutated (`" in finding.message) is (check != "kept_memory")
    steps = [remedy.text for remedy in finding.remedies]
    assert step in steps[0]
    assert "of `mylib::scale`" in steps[0]
    assert not any("Report it to PyTorch" in text for text in steps)


def test_a_wrong_operator_is_on_its_own_line_and_not_where_its_result_is_used() -> None:
    fault = OperatorFault("mylib::scale", "test_schema", "it was mutated", (at(14), at(7, path=LIBRARY)))
    call = replace(compared_call(0, replace(WRONG, first=(at(20),))), operators=(fault,))
    (finding,) = findings_of(call)
    assert finding.span.line == 14
    assert "the first line whose operators" not in finding.message


@pytest.mark.parametrize(("name", "is_imported"), [(CACHE, False), (PATTERNS, True)])
def test_a_setting_of_a_module_that_torch_does_not_load_says_so(name: str, *, is_imported: bool) -> None:
    causes = (ResultCause(0, Stage.CODE, (TriedSetting(name, "False", cures=True),)),)
    (finding,) = findings_of(compared_call(0, WRONG), causes=causes)
    assert finding.remedies[0].text.startswith(f"Set `{name} = False`")
    assert ("`import torch._functorch.config`" in finding.remedies[0].text) is not is_imported


def test_another_way_than_that_of_an_operator_is_said() -> None:
    why = "Eager mode takes another branch here than compiled code."
    (finding,) = findings_of(compared_call(0, replace(WRONG, first=(at(20),), first_why=why)))
    assert why in finding.message
    assert "the first line whose operators" not in finding.message


def test_without_a_search_it_is_on_the_definition_or_on_the_call() -> None:
    (finding,) = findings_of(compared_call(0, WRONG))
    assert (finding.span.line, finding.title.count(" in `")) == (10, 0)
    assert "the first line whose operators" not in finding.message
    (finding,) = findings_of(compared_call(0, WRONG, location=at(3, path=LIBRARY)))
    assert finding.span.line == 40
    (finding,) = findings_of(compared_call(0, WRONG, location=None, caller=None))
    assert finding.span.line == 10, "of the target"


def test_a_function_of_a_function_is_named_as_a_reader_says_it() -> None:
    (finding,) = findings_of(compared_call(0, WRONG, name="main.<locals>.step"))
    assert finding.title.startswith("results of `step in main` differ")
    assert "<locals>" not in finding.message


def test_wrong_calls_of_one_function_are_one_finding_whatever_their_stages() -> None:
    cure = TriedSetting(PATTERNS, "False", cures=True)
    causes = (ResultCause(0, Stage.CODE), ResultCause(2, Stage.CODE), ResultCause(3, Stage.CAPTURE, (cure,)))
    calls = [compared_call(index, WRONG) for index in (0, 2, 3)]
    calls.append(compared_call(1, WRONG, name="other", location=at(30)))
    actual = findings_of(*calls, causes=causes)
    assert sorted((finding.span.line, finding.count) for finding in actual) == [(10, 3), (30, 1)]
    (own,) = (finding for finding in actual if finding.count == 3)
    assert "Other calls begin to differ in tracing (TorchDynamo)." in own.message
    assert [remedy.text for remedy in own.remedies if remedy.state is RemedyState.TRIED]
    assert "Other calls" not in next(finding for finding in actual if finding is not own).message


def test_wrong_calls_that_differ_first_on_two_lines_are_two_findings() -> None:
    on_20, on_24 = (replace(WRONG, first=(at(line, function="forward"),)) for line in (20, 24))
    calls = (compared_call(0), compared_call(1, on_20), compared_call(2, on_24), compared_call(3, WRONG))
    causes = (ResultCause(1, Stage.CODE), ResultCause(2, Stage.CODE), ResultCause(3, Stage.CAPTURE))
    actual = findings_of(*calls, causes=causes)
    assert sorted((finding.span.line, finding.count) for finding in actual) == [(20, 2), (24, 1)]


def test_a_result_that_another_finding_explains_accuses_no_stage_of_the_compiler() -> None:
    change = UnseenChange(UnseenKind.VARIABLE, "SCALE", "step", at(10), (at(12, function="step"),))
    lines = {
        10: "def step(x):",
        11: "    y = x",
        12: "    z = y * SCALE",
        13: "    return z",
        30: "def other(x):",
    }
    lines |= {31: "    return x"}
    calls = [
        compared_call(0, replace(WRONG, first=(at(13, function="step"),)), name="step"),
        compared_call(1, replace(WRONG, first=(at(31, function="other"),)), name="other", location=at(30)),
    ]
    given = report(
        results=comparison(*calls, causes=(ResultCause(0, Stage.CAPTURE), ResultCause(1, Stage.CODE))),
        unseen=(change,),
    )
    shown = findings(given, read_line=lambda _path, line: lines.get(line))
    wrong = {finding.span.line: finding for finding in shown if finding.code == "FL801"}
    (known,) = (finding for finding in shown if finding.code == "FL202")
    assert wrong[13].hints == (
        f"Correct line {known.span.line} first, and compare again: FL202 has the cause",
    )
    assert known.title in wrong[13].message
    assert "Report it to PyTorch" not in wrong[13].message
    assert "Report it to PyTorch" in wrong[31].message


def test_what_differs_besides_tensors_is_said() -> None:
    (finding,) = findings_of(compared_call(0, RIGHT, others=STATE))
    assert STATE[0].text in finding.title
    assert STATE[0].text in finding.message
    dtype = replace(
        WRONG,
        why="output is i64[4], eager's is bf16[4]; there is no float64 result",
        tensors=(TensorError("output", None, None, None, passed=False),),
    )
    (finding,) = findings_of(compared_call(0, dtype))
    assert finding.title.endswith("eager mode: output is i64[4], eager's is bf16[4]")
    (finding,) = findings_of(compared_call(0, replace(dtype, why="x" * 200)))
    assert finding.title.endswith("eager mode: output")
    assert "x" * 200 in finding.message


@pytest.mark.parametrize("stage", list(Stage))
def test_each_stage_is_named_where_the_results_begin_to_differ_and_in_the_report_to_torch(
    stage: Stage,
) -> None:
    (finding,) = findings_of(compared_call(0, WRONG), causes=(ResultCause(0, stage),))
    assert "The results begin to differ in " in finding.message
    assert any(f"as wrong {STAGE_NAMES[stage]}" in remedy.text for remedy in finding.remedies)
    (unknown,) = findings_of(compared_call(0, WRONG))
    assert "have not shown which stage" in unknown.message
    assert not any("as wrong" in remedy.text for remedy in unknown.remedies)
    assert any("`fuselight repro`" in remedy.text for remedy in finding.remedies) is (
        stage not in {Stage.CAPTURE, Stage.CACHES}
    )


def test_a_missing_guard_is_said_only_if_an_earlier_call_of_the_function_is_right() -> None:
    cause = (ResultCause(1, Stage.CAPTURE),)
    (finding,) = findings_of(compared_call(0), compared_call(1, WRONG), causes=cause)
    assert "a guard that would compile the function again is probably missing" in finding.message
    (finding,) = findings_of(compared_call(0, name="other"), compared_call(1, WRONG), causes=cause)
    assert "guard" not in finding.message
    assert "Its first call is wrong" in finding.message
    (finding,) = findings_of(compared_call(0, UNDECIDED), compared_call(1, WRONG), causes=cause)
    assert "guard" not in finding.message
    assert "Its first call" not in finding.message
    code = (ResultCause(1, Stage.CODE),)
    (finding,) = findings_of(compared_call(0), compared_call(1, WRONG), causes=code)
    assert "guard" not in finding.message


def test_a_setting_is_a_remedy_only_if_it_cures() -> None:
    tried = (TriedSetting(PATTERNS, "False", cures=False), TriedSetting(FUSION, "1", cures=True, ratio=1.4))
    (finding,) = findings_of(compared_call(0, WRONG), causes=(ResultCause(0, Stage.CODE, tried),))
    first, *rest = finding.remedies
    assert (first.state, first.text) == (RemedyState.TRIED, f"Set `{FUSION} = 1`")
    assert first.words().endswith("(tried: results as in eager mode). A call then takes 1.40× the time")
    assert [remedy.text for remedy in rest if remedy.state is RemedyState.REFUSED] == [
        f"Set `{PATTERNS} = False`"
    ]
    advised = finding.message.partition("What to do:")[2]
    assert PATTERNS not in advised
    assert f"still differ with `{PATTERNS} = False`" in finding.message


@pytest.mark.parametrize("cures", [True, False])
def test_a_wrong_function_of_the_program_is_not_reported_to_pytorch(*, cures: bool) -> None:
    name = "torch._inductor.config.post_grad_custom_pre_pass"
    causes = (ResultCause(0, Stage.CODE, (TriedSetting(name, "None", cures=cures),)),)
    results = replace(comparison(compared_call(0, WRONG), causes=causes), replaced=(name,))
    (finding,) = findings_of_results(report(results=results))
    step = f"Correct or remove what your program sets as `{name}`"
    assert (step in finding.message) is cures
    assert ("Report it to PyTorch" in finding.message) is not cures


@pytest.mark.parametrize("cures", [("CppOverrides", "CppVecOverrides"), ()])
def test_printers_of_the_program_are_not_reported_to_pytorch(cures: tuple[str, ...]) -> None:
    own = tuple(f"torch._inductor.codegen.cpp.{name}.rsqrt" for name in ("CppOverrides", "CppVecOverrides"))
    tried = tuple(TriedSetting(name, "", cures=True) for name in own if cures)
    causes = (ResultCause(0, Stage.CODE, tried),)
    (finding,) = findings_of_results(
        report(results=replace(comparison(compared_call(0, WRONG), causes=causes), replaced=own))
    )
    names = f"`{own[0]}` and `{own[1]}`"
    step = (
        "Correct or remove what your program sets as" if cures else "Look first at what your program sets as"
    )
    assert f"{step} {names}" in finding.message
    assert ("With the default of `" in finding.message) is bool(cures)
    assert "Report it to PyTorch" not in finding.message
    assert finding.message.count("Restore") == len(tried[:1])


@pytest.mark.parametrize("compiled", ["nothing", "ValueError: x"])
def test_what_eager_mode_alone_refuses_is_the_users_to_correct(compiled: str) -> None:
    words = f"compiled code raises {compiled}, eager mode raises IndexError: out of range"
    (finding,) = findings_of(compared_call(0, WRONG, others=(Difference(Aspect.EXCEPTION, words),)))
    assert ("Correct what makes eager mode raise" in finding.message) is (compiled == "nothing")
    assert ("the compiler is wrong, not your code" in finding.message) is (compiled != "nothing")


def test_many_settings_without_an_effect_are_cut() -> None:
    tried = tuple(TriedSetting(f"torch._inductor.config.s{number}", "1", cures=False) for number in range(9))
    (finding,) = findings_of(compared_call(0, WRONG), causes=(ResultCause(0, Stage.CODE, tried),))
    assert "and 5 more." in finding.message
    assert len([remedy for remedy in finding.remedies if remedy.state is RemedyState.REFUSED]) == 9


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (ResultComparison(), "not compared: the run made no call of compiled code"),
        (comparison(compared_call(0), compared_call(1)), "as eager (2 calls, 4 values compared)"),
        (
            comparison(compared_call(0), compared_call(1, UNDECIDED)),
            f"as eager (1 call, 2 values compared; 1 call not compared: {UNDECIDED.why})",
        ),
        (
            comparison(compared_call(0), compared_call(1, UNDECIDED), compared_call(2, Accuracy(None))),
            "as eager (1 call, 2 values compared; 2 calls not compared)",
        ),
        (
            ResultComparison((compared_call(0),), 9, "the time for it was over"),
            "as eager (1 call, 2 values compared; 8 calls not compared: the time for it was over)",
        ),
        (comparison(compared_call(0, UNDECIDED)), f"not compared (1 call not compared: {UNDECIDED.why})"),
        (
            comparison(compared_call(0), compared_call(1, WRONG)),
            "1 call differs from eager (2 calls, 4 values compared)",
        ),
        (
            comparison(compared_call(0, WRONG), compared_call(1, WRONG)),
            "2 calls differ from eager (2 calls, 4 values compared)",
        ),
    ],
)
def test_the_summary_never_hides_what_was_not_compared(results: ResultComparison, words: str) -> None:
    assert results_in_words(results) == words


def test_a_line_with_two_calls_is_one_caller() -> None:
    first = replace(WRONG, first=(at(20, function="forward"),))
    calls = (
        replace(compared_call(0, first), caller=replace(at(40, function="step"), column=4)),
        replace(compared_call(1, first), caller=replace(at(40, function="step"), column=19)),
    )
    (finding,) = findings_of(*calls)
    assert [related.message for related in finding.related if related.span.line == 40] == [
        "the call whose results differ (2 calls)"
    ]


ORIGIN = NonFiniteOrigin((at(20),), "div", "0, 0", ("input 0",), at(18))


def test_a_nan_of_eager_mode_is_no_accusation_and_is_on_its_line() -> None:
    value = NonFinite(NonFiniteKind.NAN, "output", 2, 2, 2, ORIGIN)
    calls = [compared_call(index, RIGHT, non_finite=(value,)) for index in (0, 1)]
    (finding,) = findings_of_results(report(results=comparison(*calls)))
    assert (finding.code, finding.severity, finding.span.line, finding.count) == (
        "FL803",
        Severity.INFORMATION,
        20,
        2,
    )
    assert finding.title == "NaN in eager mode: `div` of 0, 0, computed from input 0"
    assert "2 in eager mode, 2 in compiled code, 2 in float64" in finding.message
    assert "compiling keeps it" in finding.message
    assert [related.span.line for related in finding.related if related.span.line == 18] == [18]
    assert "output has NaN (2 in eager mode" in remarks(comparison(*calls))[0]


@pytest.mark.parametrize(
    ("compiled", "words"), [(0, "Compiling removes NaN"), (3, "Compiling adds NaN"), (1, "")]
)
def test_a_nan_that_compiling_adds_or_removes_is_said(compiled: int, words: str) -> None:
    value = NonFinite(NonFiniteKind.NAN, "output", 1, compiled, None, ORIGIN)
    call = compared_call(0, WRONG, non_finite=(value,))
    by_code = {finding.code: finding for finding in findings_of_results(report(results=comparison(call)))}
    assert ("Compiling" in by_code["FL801"].message) is bool(words)
    assert words in by_code["FL801"].message
    assert set(by_code) == {"FL801", "FL803"}


def test_infinities_that_float64_has_too_and_those_of_inputs() -> None:
    same = NonFinite(NonFiniteKind.INFINITY, "output", 2, 2, 2, ORIGIN)
    narrow = replace(same, float64=0)
    assert findings_of_results(report(results=comparison(compared_call(0, RIGHT, non_finite=(same,))))) == ()
    (finding,) = findings_of_results(
        report(results=comparison(compared_call(0, RIGHT, non_finite=(narrow,))))
    )
    assert "the dtype is too narrow" in finding.message
    given = NonFinite(NonFiniteKind.NAN, "output", 1, 1, 1, NonFiniteOrigin((), "", "", ("input 0",)))
    (finding,) = findings_of_results(report(results=comparison(compared_call(0, RIGHT, non_finite=(given,)))))
    assert (finding.span.line, finding.title) == (10, "NaN in eager mode: input 0 has it before the call")


@pytest.mark.parametrize(
    ("replay", "words"),
    [
        (
            KernelReplay("cpp_fused_exp_0", "buf2", 840.2, 1.4, 3, 1, 2),
            "replayed on its own inputs, `buf2` is 840 rounding steps off, and its operators in eager mode 1. Of 6 ",
        ),
        (KernelReplay("cpp_0", "buf2", 0.0, 0.0, 1), "`buf2` has NaN or infinity elsewhere. Of 1 buffer,"),
        (
            KernelReplay("cpp_0", "buf2", judged=1, distribution="share of zeros 0.7, and 0.3 in 32 draws"),
            "`buf2` has random numbers of another distribution: share of zeros 0.7, and 0.3 in 32 draws. Of 1 buffer,",
        ),
        (KernelReplay(judged=2), "No kernel that was judged is wrong on its own inputs"),
        (KernelReplay(unmapped=2), "No kernel was judged"),
    ],
)
def test_a_replay_names_the_kernel_and_what_was_not_judged(replay: KernelReplay, words: str) -> None:
    call = compared_call(0, replace(WRONG, replay=replay))
    (finding,) = findings_of(call, causes=(ResultCause(0, Stage.CODE),))
    assert words in finding.message

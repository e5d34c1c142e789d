"""Folding, locations and costs of graph breaks."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import (
    Compile,
    Culprit,
    Environment,
    Failure,
    Frame,
    Graph,
    Location,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Recompile,
    Symbol,
)
from fuselight_server.base.finding import Severity
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.breaks.break_texts import _STEPS, first_step, title_of
from fuselight_server.explain.findings.common.text import shortened
from tests.support.golden import expect
from tests.support.reports import FILE, LIBRARY, at, broken, report

FORWARD = at(30, (8, 20), function="forward")
HELPER = at(5, (4, 15), function="helper")


@pytest.mark.parametrize("call", ["h.register_hook(keep)", "w.register_post_accumulate_grad_hook(keep)"])
def test_what_breaks_the_graph_in_a_hook_is_the_hooks_to_leave(call: str) -> None:
    (finding,) = findings(
        report(breaks=(broken(FORWARD, HELPER, gb="GB0124"),)),
        read_line=lambda _path, line: call if line == FORWARD.line else "seen.append(grad.sum().item())",
    )
    assert finding.hints[0].startswith("Let the hook only compute with tensors: torch traces it")
    assert not any("outside the compiled code (" in hint for hint in finding.hints)


def test_one_cause_on_one_line_is_one_finding_however_often_it_was_met() -> None:
    # Inlined into forward, then met again in helper's own frame, then in a second compile of forward.
    breaks = (
        broken(FORWARD, HELPER, compile_id="0/0"),
        broken(HELPER, compile_id="1/0", above=(FORWARD,)),
        broken(FORWARD, HELPER, compile_id="0/1"),
    )
    (finding,) = findings(report(breaks=breaks))
    assert (finding.span.path, finding.span.line, finding.span.column, finding.span.end_column) == (
        FILE,
        5,
        4,
        15,
    )
    assert finding.count == 3
    assert [(item.span.line, item.message) for item in finding.related] == [(30, "called from `forward`")]


def test_pythons_own_files_are_on_no_trail() -> None:
    """As contextlib, through which a context manager of the user's is called."""
    own = at(111, path="/usr/lib/python3.11/contextlib.py", function="__init__")
    (finding,) = findings(report(breaks=(broken(FORWARD, own, HELPER),)))
    assert [item.span.line for item in finding.related] == [30]


def test_retries_of_one_compile_are_no_repeats() -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD), broken(FORWARD))))
    assert finding.count == 1


def test_two_causes_on_one_line_are_two() -> None:
    both = findings(report(breaks=(broken(FORWARD), broken(FORWARD, gb="GB0124"))))
    assert [finding.code for finding in both] == ["GB0124", "GB0170"]


def test_two_places_on_one_line_are_two() -> None:
    both = findings(report(breaks=(broken(at(30, (8, 12))), broken(at(30, (16, 20))))))
    assert [finding.span.column for finding in both] == [8, 16]


def test_a_break_in_a_library_shows_on_the_line_that_led_there() -> None:
    inside = at(400, (0, 9), path=LIBRARY, function="attend")
    breaks = (broken(FORWARD, inside), broken(inside, compile_id="1/0", above=(FORWARD,)))
    (finding,) = findings(report(breaks=breaks))
    assert (finding.span.path, finding.span.line) == (FILE, 30)
    assert [(item.span.path, item.message) for item in finding.related] == [
        (LIBRARY, "breaks here, in `attend`")
    ]
    assert "inside a library, at layers.py:400" in finding.message


@pytest.mark.parametrize("path", ["<string>", "<ipython-input-3-ad13>", "<attrs generated init Net>"])
def test_code_without_a_file_is_no_library(path: str) -> None:
    inside = at(4, (0, 9), path=path, function="made")
    breaks = (broken(FORWARD, inside), broken(inside, compile_id="1/0", above=(FORWARD,)))
    (finding,) = findings(report(breaks=breaks))
    assert (finding.span.path, finding.span.line) == (FILE, 30)
    assert f"in code without a file, at {path}:4" in finding.message
    assert "library" not in finding.message


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("    loss = x.sum().item()", ".item()"),
        ("    loss = float(x.sum())", "float()"),
        ("    size = int(x.sum())", "int()"),
        ("    loss = floatify(x.sum())", ".item()"),
    ],
)
def test_a_conversion_has_the_name_that_the_code_has_for_it(line: str, named: str) -> None:
    graph_break = broken(at(21, (11, len(line)), function="forward"), gb="GB0124", hints=())
    (finding,) = findings(report(breaks=(graph_break,)), read_line=lambda _path, _line: line)
    assert finding.title == f"graph break: `{named}` converts a tensor to a Python number"


def test_to_remove_a_disable_is_said_once() -> None:
    torchs = ("Remove the `torch.compiler.disable` call",)
    (finding,) = findings(
        report(breaks=(broken(at(21, (4, 9), function="forward"), gb="GB0098", hints=torchs),))
    )
    assert len(finding.hints) == 1
    assert finding.hints[0].startswith("Remove torch.compiler.disable if the function can be traced")


@pytest.mark.parametrize(
    ("line", "columns", "is_used"),
    [
        ("    logger.info('%s', x)", (10, 15), False),
        ("    meter.update(x.item())", (4, 26), False),
        ("    meter.update(x.item())", (17, 25), True),
        ("    y = meter.update(x)", (8, 23), True),
    ],
)
def test_only_a_call_whose_result_is_used_is_to_pass_its_result_in(
    line: str, columns: tuple[int, int], *, is_used: bool
) -> None:
    lines = {20: "def forward(self, x):", 21: line}
    inside = at(400, (0, 9), path=LIBRARY, function="update")
    graph_break = broken(at(21, columns, function="forward"), inside, gb="GB0291", hints=())
    (finding,) = findings(report(breaks=(graph_break,)), read_line=lambda _path, number: lines.get(number))
    assert ("pass in its result" in finding.hints[0]) is is_used
    assert ("with values that the compiled code returns" in finding.hints[0]) is not is_used


SOURCES = {
    "    y = model.layers[0].generate(x, n=2)": ((8, 40), "generate"),
    "    y = attend(x)": ((8, 17), "attend"),
    "    größe = module.größe_von(x)": ((14, 35), "größe_von"),
    "    return x + weights": ((11, 22), "x + weights"),  # no call: the operator's method is the library's
    "    y = layers[0](x)": ((8, 20), "layers[0](x)"),
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_break_in_a_library_marks_the_name_that_is_called(source: str) -> None:
    columns, marked = SOURCES[source]
    call = at(30, columns, function="forward")
    inside = at(400, (0, 9), path=LIBRARY, function="attend")
    (finding,) = findings(report(breaks=(broken(call, inside),)), read_line=lambda _path, _line: source)
    assert source.encode()[finding.span.column : finding.span.end_column].decode() == marked


def test_a_call_over_several_lines_is_marked_by_its_name_alone() -> None:
    lines = {30: "    y = (model", 31: "        .generate(", 32: "            x,", 33: "    ))"}
    call = Location(FILE, 30, 9, 33, 5, function="forward")
    inside = at(400, (0, 9), path=LIBRARY, function="attend")

    def read(_path: str, line: int) -> str | None:
        return lines.get(line)

    (finding,) = findings(report(breaks=(broken(call, inside),)), read_line=read)
    assert (finding.span.line, finding.span.column, finding.span.end_line, finding.span.end_column) == (
        31,
        9,
        31,
        17,
    )
    closing = Location(FILE, 33, function="forward")
    (finding,) = findings(report(breaks=(broken(closing, inside),)), read_line=read)
    assert (finding.span.line, finding.span.column, finding.span.end_line, finding.span.end_column) == (
        31,
        9,
        31,
        17,
    )


def test_dynamos_placeholders_are_not_shown_as_locations() -> None:
    stand_in = at(
        505, path="/env/lib/python3.11/site-packages/torch/_dynamo/polyfills/__init__.py", function="new"
    )
    (finding,) = findings(report(breaks=(broken(FORWARD, stand_in),)))
    assert finding.span.line == FORWARD.line
    assert finding.related == ()
    assert "library" not in finding.message


def test_the_called_function_is_named_if_torch_names_it() -> None:
    text = (
        "Skip calling function `tokenize` since it was wrapped with `torch.compiler.disable` (reason: None)"
    )
    (finding,) = findings(report(breaks=(broken(FORWARD, gb="GB0098", explanation=text),)))
    assert finding.title == "graph break: calls `tokenize`, which is marked torch.compiler.disable"
    text = "Dynamo does not know how to trace the function `None`"
    (finding,) = findings(report(breaks=(broken(FORWARD, gb="GB0147", explanation=text),)))
    assert finding.title == "graph break: this call cannot be traced"
    text = "Dynamo does not know how to trace the builtin `time.time.` This function is either"
    (finding,) = findings(report(breaks=(broken(FORWARD, gb="GB0007", explanation=text),)))
    assert finding.title == "graph break: `time.time` is not traced by torch.compile"


def test_two_lines_that_lead_to_one_library_line_are_two_findings() -> None:
    inside = at(400, (0, 9), path=LIBRARY)
    both = findings(report(breaks=(broken(FORWARD, inside), broken(at(31, (8, 20)), inside))))
    assert [finding.span.line for finding in both] == [30, 31]


def test_a_library_break_without_a_user_frame_joins_the_one_with_a_line() -> None:
    inside = at(400, (0, 9), path=LIBRARY)
    (finding,) = findings(report(breaks=(broken(inside, compile_id="1/0"), broken(FORWARD, inside))))
    assert (finding.span.line, finding.count) == (30, 2)


def test_without_any_line_of_the_user_it_is_on_the_target() -> None:
    (finding,) = findings(report(breaks=(broken(at(400, path=LIBRARY)),)))
    assert (finding.span.path, finding.span.line) == (FILE, 10)
    assert finding.related[0].span.path == LIBRARY


def test_an_environment_inside_the_workspace_is_not_user_code() -> None:
    inside = at(1, path="/project/.venv/lib/python3.11/site-packages/lib.py")
    (finding,) = findings(report(breaks=(broken(FORWARD, inside),)))
    assert finding.span.line == 30


def test_the_code_is_the_cause_and_the_rest_of_the_chain_is_related() -> None:
    chain = broken(
        FORWARD, ids=("GB0059", "GB7000"), types=("Failed to trace builtin operator", "graph break in loop")
    )
    (finding,) = findings(report(breaks=(chain,)))
    assert (finding.code, finding.gb_ids) == ("GB0059", ("GB7000",))
    assert "torch.compile also hit: graph break in loop" in finding.message


def test_a_break_without_an_id_has_a_fuselight_code() -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD, ids=(None,), types=("old words",)),)))
    assert (finding.code, finding.title) == ("FL107", "graph break: old words")


def test_a_deliberate_break_is_not_a_warning() -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD, gb="GB0025"),)))
    assert finding.severity is Severity.INFORMATION


def compiled(identity: str, frame: int, operators: int | None) -> Compile:
    graph = None if operators is None else Graph(operators=operators)
    outcome = Outcome.EMPTY if graph is None else Outcome.COMPILED
    return Compile(id=identity, frame=frame, outcome=outcome, call=0, graph=graph)


FRAMES = (
    Frame("Net.forward", at(20)),
    Frame("Net.forward", at(20), resumes_at=30),
    Frame("other", at(60)),
)


def test_its_cost_is_counted_in_graphs_of_the_function() -> None:
    compiles = (compiled("0/0", 0, 5), compiled("2/0", 2, 9), compiled("1/0", 1, 3))
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=(broken(FORWARD),)))
    assert finding.cost[0] == (
        "`Net.forward` is split into 2 graphs: 5 operators right before this line, 3 operators right after it"
    )


def test_recompilations_make_no_further_graphs() -> None:
    # As in a program of several calls: the first part and the second one are compiled twice each.
    compiles = (compiled("0/0", 0, 5), compiled("0/1", 0, 6), compiled("1/0", 1, 3), compiled("1/1", 1, 3))
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=(broken(FORWARD),)))
    assert finding.cost[0] == (
        "`Net.forward` is split into 2 graphs: 5 operators right before this line, 3 operators right after it"
    )


def test_a_break_that_no_graph_touches_has_no_number_of_graphs() -> None:
    # As the logging call of one call, where another call has the whole function in one graph.
    compiles = (compiled("0/0", 0, None), compiled("1/0", 1, 3), compiled("0/1", 0, 5))
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=(broken(FORWARD),)))
    assert finding.cost[0] == "a graph of `Net.forward` starts after this line, with 3 operators"


def test_each_of_two_breaks_on_a_line_has_the_graph_that_it_touches() -> None:
    first, second = at(30, (8, 14)), at(30, (8, 20))
    compiles = (compiled("0/0", 0, 5), compiled("1/0", 1, None), compiled("2/0", 1, 7))
    breaks = (broken(first, compile_id="0/0"), broken(second, gb="GB0033", compile_id="1/0"))
    costs = [finding.cost[0] for finding in findings(report(frames=FRAMES, compiles=compiles, breaks=breaks))]
    assert sorted(costs) == [
        "a graph of `Net.forward` ends here, after 5 operators",
        "a graph of `Net.forward` starts after this line, with 7 operators",
    ]


def test_a_break_in_a_function_that_was_inlined_is_beside_the_graphs_of_that_function() -> None:
    outer, inner = at(40, function="forward"), at(30, function="project")
    frames = (
        Frame("Sequential", at(9, path=LIBRARY)),
        Frame("Net.project", at(20)),
        Frame("Net.project", at(20), resumes_at=30),
    )
    breaks = (
        broken(at(12, path=LIBRARY), outer, inner, frame_function="Sequential"),
        broken(inner, compile_id="1/0", frame_function="Net.project"),
    )
    compiles = (compiled("0/0", 0, None), compiled("1/0", 1, 2), compiled("2/0", 2, 4))
    (finding,) = findings(report(frames=frames, compiles=compiles, breaks=breaks))
    assert finding.cost[0] == (
        "`Net.project` is split into 2 graphs: 2 operators right before this line, 4 operators right after it"
    )
    again = (compiled("0/0", 0, None), compiled("1/0", 1, None), compiled("1/1", 1, 4))
    (finding,) = findings(report(frames=frames, compiles=again, breaks=breaks))
    assert finding.cost[0] == "`Net.project`, on the way to this line, is compiled separately"


@pytest.mark.parametrize(
    ("caller", "cost"),
    [
        ((FORWARD,), "no kernel is fused across the call"),
        # Called from another line, or by the function that another line calls: this line runs in eager mode.
        ((at(31, function="forward"),), "this line runs in eager mode, and no kernel is fused across it"),
        (
            (FORWARD, at(70, function="helper")),
            "this line runs in eager mode, and no kernel is fused across it",
        ),
    ],
)
def test_what_the_line_calls_is_not_said_to_run_in_eager_mode(
    caller: tuple[Location, ...], cost: str
) -> None:
    called = dataclasses.replace(compiled("2/0", 2, 9), caller=caller)
    compiles = (
        compiled("0/0", 0, None),
        called,
        dataclasses.replace(compiled("1/0", 1, 3), caller=(FORWARD,)),
    )
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=(broken(FORWARD),)))
    assert finding.cost[-1] == cost
    is_called = caller == (FORWARD,)
    assert ("`other`, which this line calls, is compiled separately" in finding.cost) == is_called


@pytest.mark.parametrize(
    ("path", "config", "called"),
    [
        ("<eval_with_key>.11", {"compiled_autograd": "True"}, "the backward pass, which this line calls"),
        ("<eval_with_key>.11", {}, ""),
        (LIBRARY, {"compiled_autograd": "True"}, "`forward`, which this line calls"),
    ],
)
def test_a_graph_that_torch_wrote_has_no_name_of_a_function(
    path: str, config: dict[str, str], called: str
) -> None:
    """The graph of a backward pass is called `forward`."""
    frames = (*FRAMES[:2], Frame("forward", Location(path, 4)))
    compiles = (compiled("0/0", 0, 3), dataclasses.replace(compiled("2/0", 2, 9), caller=(FORWARD,)))
    environment = Environment(config=config)
    (finding,) = findings(
        report(frames=frames, compiles=compiles, breaks=(broken(FORWARD),), environment=environment)
    )
    calls = [part for part in finding.cost if "which this line calls" in part]
    assert calls == [f"{called}, is compiled separately"] * bool(called)


EAGER = "in eager mode, and no kernel is fused across it"


@pytest.mark.parametrize(
    ("stack", "own", "cost"),
    [
        # As `checkpoint`, which torch calls in eager mode with all that it calls.
        ((HELPER,), (), f"all of `helper` runs {EAGER}"),
        ((at(50, function="block"), HELPER), (), f"all of `block` runs {EAGER}"),
        # As `torch.vmap`, whose own functions torch tries to compile under the name of the user's.
        (
            (at(9, path=LIBRARY, function="wrapped"), HELPER),
            (at(9, path=LIBRARY, function="wrapped"),),
            f"all of `helper` runs {EAGER}",
        ),
        ((at(50, function="<lambda>"),), (), f"all of `<lambda>` runs {EAGER}"),
        # A function that torch compiles by itself after the break, as `forward` of an `autograd.Function`.
        ((HELPER,), (HELPER,), f"this line runs {EAGER}"),
        (
            (at(50, function="block"), HELPER),
            (at(50, function="block"), HELPER),
            f"all of `helper` runs {EAGER}",
        ),
        ((at(31, function="<listcomp>"),), (), f"this line runs {EAGER}"),
        ((at(9, path=LIBRARY, function="wrapped"),), (), f"this line runs {EAGER}"),
    ],
)
def test_a_function_that_torch_never_compiles_runs_in_eager_mode_as_a_whole(
    stack: tuple[Location, ...], own: tuple[Location, ...], cost: str
) -> None:
    breaks = [broken(FORWARD, *stack)]
    if own:
        name = (own[0] if own[0].function != "wrapped" else HELPER).function
        breaks.append(broken(*own, *stack[len(own) :], compile_id="2/0", frame_function=name))
    compiles = (compiled("0/0", 0, 5), compiled("2/0", 2, None), compiled("1/0", 1, 3))
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=tuple(breaks)))
    assert finding.cost[-1] == cost


def test_without_compiles_no_cost_in_graphs_is_claimed() -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD),)))
    assert finding.cost == ("this line runs in eager mode, and no kernel is fused across it",)


def test_a_skipped_frame_costs_all_of_the_function() -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD, frame_skipped=True, operators=4),)))
    assert finding.cost == (
        "all of `Net.forward` runs in eager mode, not only this line",
        "the 4 operators traced before this line run in eager too",
    )


def test_resume_functions_and_addresses_never_appear() -> None:
    text = "Cannot call <function dis at 0x7f69080f99e0> in torch_dynamo_resume_in_forward_at_23"
    (finding,) = findings(report(breaks=(broken(FORWARD, explanation=text),)))
    assert "Cannot call dis in forward." in finding.message


def test_no_finding_has_the_name_that_torch_gives_to_the_rest_of_a_function() -> None:
    name = "torch_dynamo_resume_in_torch_dynamo_resume_in_forward_at_3_at_5"
    place = at(30, function=name)
    facts = report(
        frames=(Frame(name, place),),
        compiles=(
            Compile(
                "0/0",
                0,
                Outcome.COMPILED,
                symbols=(Symbol("s0", name, specialized_to="4", reason=f"in {name}"),),
            ),
        ),
        breaks=(
            broken(
                at(31, function="train"),
                at(9, path=LIBRARY, function=name),
                above=(at(40, function=name),),
                frame_function=name,
                explanation=f"in {name}",
                hints=(f"call {name}",),
                types=(name,),
                context=name,
            ),
        ),
        not_compiled=(
            NotCompiled(NotCompiledKind.SKIPPED, name, place, f"in {name}", stack=(place,), caller=(place,)),
        ),
        recompiles=(
            Recompile(
                name, place, (), compile_id="0/1", caller=(at(50, function=name),), reasons=(f"in {name}",)
            ),
        ),
        failures=(
            Failure(
                Culprit.USER,
                "exception",
                f"in {name}",
                stack=(at(60), at(9, path=LIBRARY, function=name)),
                phase=name,
            ),
        ),
    )
    actual_findings = findings(facts)
    assert len(actual_findings) == 5
    texts = [
        text
        for finding in actual_findings
        for text in (finding.title, finding.message, *(item.message for item in finding.related))
    ]
    assert [text for text in texts if "torch_dynamo" in text] == []


@pytest.mark.parametrize(
    ("gb", "explanation", "context", "title"),
    [
        (
            "GB0007",
            (
                "Dynamo does not know how to trace the builtin `torch._C._distributed_c10d."
                "pybind11_detail_function_record_v1_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1."
                "_all_gather_base.` This function is either a Python builtin (e.g. _warnings.warn) or a third-party "
                "C/C++ Python extension (perhaps created with pybind)."
            ),
            "",
            "`torch.distributed._all_gather_base` is not traced by torch.compile",
        ),
        (
            "GB0007",
            "Dynamo cannot trace optree C/C++ function optree._C.flatten.",
            "",
            "`optree._C.flatten` is not traced by torch.compile",
        ),
        (
            "GB0008",
            (
                "Attempted to inline a function that was previously determined to be marked as intentionally "
                "skipped."
            ),
            "qualname: Cache.clear, skip reason: file",
            "`Cache.clear` is not traced by torch.compile",
        ),
    ],
)
def test_a_function_that_is_not_traced_has_its_readable_name(
    gb: str, explanation: str, context: str, title: str
) -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD, gb=gb, explanation=explanation, context=context),)))
    assert finding.title == f"graph break: {title}"
    assert "pybind11" not in finding.message
    assert not finding.message.partition("\n")[0].endswith("(e.g.")


RECURRENT = (
    "Dynamo determined that a graph break should occur when calling `L['self'].rnn`. Reason: Dynamo does not support "
    "RNN, GRU, or LSTM. Set torch._dynamo.config.allow_rnn=True to enable experimental support."
)


@pytest.mark.parametrize(
    ("gb", "explanation", "title", "step"),
    [
        ("GB0014", "", "RNN, GRU and LSTM modules are not traced", "Call the recurrent module outside"),
        (
            "GB0148",
            RECURRENT,
            "RNN, GRU and LSTM modules are not traced",
            "Call the recurrent module outside",
        ),
        ("GB0148", "calling `f`. Reason: asked.", "`f` requests a graph break", ""),
        (
            "GB0142",
            "Dynamo does not know how to enter a `lock` context manager.",
            "the context manager `lock` cannot be entered in a compiled region",
            "Enter the context manager outside the compiled code, around the call",
        ),
        (
            "GB0142",
            "Dynamo does not know how to enter a `FlopCounterMode` context manager.",
            "the context manager `FlopCounterMode` cannot be entered in a compiled region",
            "Enter the mode outside the compiled code, around a call that is not compiled",
        ),
        (
            "GB9193",
            "Dynamo graph breaks on `time.monotonic()` so that the clock read occurs at the correct point.",
            "`time.monotonic()` is not traced by torch.compile",
            "Read the clock outside the compiled code, around its call",
        ),
        (
            "GB9493",
            "'generator' implements '__iter__' in C and Dynamo has no model for it.",
            "`__iter__` of this object is written in C and cannot be traced",
            "Make a list of it outside the compiled code",
        ),
        (
            "GB9493",
            "'memoryview' implements '__len__' in C and Dynamo has no model for it.",
            "`__len__` of this object is written in C and cannot be traced",
            "",
        ),
    ],
)
def test_a_break_of_torch_2_15_has_a_title_and_a_step(
    gb: str, explanation: str, title: str, step: str
) -> None:
    given = broken(FORWARD, gb=gb, explanation=explanation, hints=("Move the call outside.",))
    (finding,) = findings(report(breaks=(given,)))
    assert finding.title == f"graph break: {title}"
    assert (step or "Move the call outside") in finding.message
    assert ("Move the call outside" in finding.message) == (not step)


def test_a_long_text_ends_after_a_sentence_and_not_after_an_abbreviation() -> None:
    text = f"First {'word ' * 50}ends. The rest (e.g. this) {'goes on ' * 20}"
    assert shortened(text) == f"First {'word ' * 50}ends."


def test_wording() -> None:
    compiles = (compiled("0/0", 0, 5), compiled("1/0", 1, 3))
    (finding,) = findings(report(frames=FRAMES, compiles=compiles, breaks=(broken(FORWARD),)))
    expect(
        f"{finding.title}\n{finding.message}\n{finding.target} | {finding.inputs} | {finding.torch}",
        """\
        graph break: a branch depends on the data of a tensor
        Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`).

        Cost: `Net.forward` is split into 2 graphs: 5 operators right before this line, 3 operators right after it; this line runs in eager mode, and no kernel is fused across it.

        What to do: Compute both sides and select with torch.where (or use torch.cond), or decide outside the compiled code on a Python value that you pass in.
        Net | directive on line 9: Net()(f32[4, 8]) | 2.13.0
        """,  # noqa: E501 - the text is as it is
    )


def test_fuselights_step_comes_before_torchs_hints() -> None:
    hints = (
        "This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through your code.",
        "Avoid calling `resize_`.",
        "Use `torch.empty`.",
        "Please report an issue to PyTorch.",
    )
    (finding,) = findings(report(breaks=(broken(at(30), gb="GB0126", hints=hints),)))
    assert finding.hints == (*first_step("GB0126"), "Use `torch.empty`.")
    assert sum(remedy.is_torchs for remedy in finding.remedies) == 1


def test_reporting_to_pytorch_is_the_last_step() -> None:
    last = ("Please report an issue to PyTorch.",)
    (known,) = findings(report(breaks=(broken(at(30), gb="GB0059", hints=last),)))
    assert [hint for hint in known.hints if "report" in hint] == []
    (unknown,) = findings(report(breaks=(broken(at(30), gb="GB9999", hints=last),)))
    assert unknown.hints[0].startswith("Move the line before or after the compiled code")
    assert [hint for hint in unknown.hints if "report" in hint] == []


EXTENSION = (
    "If it is a Python builtin, please file an issue on GitHub so the PyTorch team can add support for it.",
    "If it is a third-party C/C++ Python extension, please wrap it into a PyTorch-understood custom operator.",
)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("time.time", "Read the clock outside"),
        ("time.perf_counter", "Read the clock outside"),
        ("time.sleep", "Make this call outside"),
        ("posix.getpid", "Make this call outside"),
        ("zlib.crc32", "Make this call outside"),
        ("_socket.gethostname", "Make this call outside"),
    ],
)
def test_a_function_of_python_is_neither_an_extension_nor_a_matter_for_torch(name: str, step: str) -> None:
    explanation = (
        f"Dynamo does not know how to trace the builtin `{name}.` This function is either a Python builtin (e.g. "
        "_warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind)."
    )
    given = broken(at(30), gb="GB0007", explanation=explanation, hints=EXTENSION)
    (finding,) = findings(report(breaks=(given,)))
    (hint,) = finding.hints
    assert hint.startswith(step)
    assert "third-party" not in finding.message
    assert f"`{name}` is a function of Python, which torch.compile does not trace." in finding.message


def test_a_function_of_a_library_in_c_keeps_the_hint_for_extensions() -> None:
    explanation = (
        "Dynamo does not know how to trace the builtin `tokenizers._C.encode.` This function is either ..."
    )
    given = broken(at(30), gb="GB0007", explanation=explanation, hints=EXTENSION)
    (finding,) = findings(report(breaks=(given,)))
    assert [hint.split(",")[0] for hint in finding.hints] == [
        "Make this call outside the compiled code",
        "If it is a third-party C/C++ Python extension",
    ]


@pytest.mark.parametrize("gb", sorted(_STEPS))
def test_each_step_is_for_a_break_with_a_title_and_is_a_sentence_without_its_stop(gb: str) -> None:
    assert title_of(gb, "torch's own words", "") != "torch's own words"
    (step,) = first_step(gb)
    assert step[0].isupper()
    assert step[-1] not in "., "
    assert "{" not in step


def test_a_break_of_torchs_optimizers_gives_no_advice() -> None:
    step = at(30, (4, 14), function="train_step")
    inside = at(79, path="/env/lib/python3.11/site-packages/torch/optim/optimizer.py", function="_use_grad")
    (finding,) = findings(report(breaks=(broken(step, inside, gb="GB0025"),)))
    assert (finding.severity, finding.span.line, finding.hints) == (Severity.INFORMATION, 30, ())
    assert finding.title == "graph break: torch's optimizers break the graph here by design"
    assert "graph_break()" not in finding.message
    (other,) = findings(report(breaks=(broken(step, at(9, path=LIBRARY, function="scan"), gb="GB0025"),)))
    assert other.title == "graph break: requested by `scan` in a library"
    (own,) = findings(report(breaks=(broken(step, gb="GB0025"),)))
    assert own.title == "graph break: requested by torch._dynamo.graph_break()"
    assert own.hints


TRACED = """\
Detected data-dependent branching. Dynamo does not support tracing dynamic control flow.

The branch condition involves a tensor computed as follows:
# File "net.py", line 30, in forward, code: if x.sum() > 0:
    gt = gt(sum_1, 0)
# File "net.py", line 31, in forward, code: y = x
    y = zf2 + 1"""


def test_torchs_own_text_is_three_lines_without_the_code_that_it_traced() -> None:
    symbols = (Symbol("zf2", "scale"), Symbol("s0", "x.size(0)"))
    compiled = Compile("0/0", 0, Outcome.COMPILED, symbols=symbols)
    facts = report(
        compiles=(compiled,), breaks=(broken(FORWARD, gb="GB9999", explanation=TRACED, hints=("A. " * 200,)),)
    )
    (finding,) = findings(facts)
    assert "Dynamo does not support tracing dynamic control flow." in finding.message
    assert not any(text in finding.message for text in ("sum_1", "# File", "computed as follows"))
    assert max(map(len, finding.hints)) <= 300
    facts = report(compiles=(compiled,), breaks=(broken(FORWARD, explanation="Cannot guard on zf2 > 30.0."),))
    (finding,) = findings(facts)
    assert "Cannot guard on scale > 30.0." in finding.message


def test_two_lines_of_a_library_that_one_call_leads_to_are_two_entries_with_their_lines() -> None:
    call = at(12, (8, 20))
    first, second = (at(line, (0, 9), path=LIBRARY, function="attend") for line in (400, 420))
    actual_findings = findings(report(breaks=(broken(call, first), broken(call, second, compile_id="1/0"))))
    assert [finding.title.rpartition(" (at ")[2] for finding in actual_findings] == [
        "layers.py:400)",
        "layers.py:420)",
    ]
    assert len({finding.span for finding in actual_findings}) == 1
    (alone,) = findings(report(breaks=(broken(call, first),)))
    assert "layers.py" not in alone.title


@pytest.mark.parametrize(
    "operator", ["aten.nonzero.default", "aten._unique2.default", "aten.masked_select.default"]
)
def test_a_backend_that_needs_a_shape_says_how_to_keep_it_fixed(operator: str) -> None:
    explanation = f"Backend compiler `inductor` failed with {operator}"
    hints = ("Report an issue to the backend compiler repo.",)
    (finding,) = findings(report(breaks=(broken(at(30), gb="GB0219", explanation=explanation, hints=hints),)))
    assert "a shape from the data of a tensor" in finding.title
    first, *others = finding.hints
    assert "torch.where" in first
    assert all("capture_dynamic_output_shape_ops" in hint for hint in others)


def test_a_backend_that_refuses_an_operator_leaves_a_step_for_the_user() -> None:
    hints = ("Report an issue to the backend compiler repo.",)
    explanation = "Backend compiler `mine` failed with ValueError"
    (finding,) = findings(report(breaks=(broken(at(30), gb="GB0219", explanation=explanation, hints=hints),)))
    (hint,) = finding.hints
    assert hint.startswith("Move this line to a function under torch.compiler.disable")


def test_lines_of_a_library_that_break_in_the_same_line_of_dynamo_are_two_entries() -> None:
    call, dynamo = at(12, (8, 20)), at(7, path="/env/torch/_dynamo/polyfills/__init__.py")
    lines = [at(line, path=LIBRARY, function="attend") for line in (400, 420)]
    actual_findings = findings(report(breaks=tuple(broken(call, line, dynamo) for line in lines)))
    assert [finding.title.rpartition(" (at ")[2] for finding in actual_findings] == [
        "layers.py:400)",
        "layers.py:420)",
    ]


def test_a_backend_that_needs_a_value_says_what_to_index_with() -> None:
    needs = "Backend compiler `inductor` failed with aten._local_scalar_dense.default"
    for explanation, is_known in ((needs, True), ("Backend compiler `mine` failed with ValueError", False)):
        broke = broken(at(30), gb="GB0219", explanation=explanation)
        (finding,) = findings(report(breaks=(broke,)))
        assert ("a number from the data of a tensor" in finding.title) == is_known
        assert any("squeeze(0)" in hint for hint in finding.hints) == is_known

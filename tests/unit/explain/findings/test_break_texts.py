"""Names, titles and steps in the texts of graph breaks."""

from __future__ import annotations

import pytest

from fuselight.shared.report import (
    Compile,
    Culprit,
    Failure,
    Frame,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Recompile,
    Symbol,
)
from fuselight_server.base.finding import Severity
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.breaks.break_texts import _KNOWN, _STEPS, first_step, title_of
from fuselight_server.explain.findings.common.text import sentence, shortened
from tests.support.breaks import FORWARD, FRAMES, compiled
from tests.support.golden import expect
from tests.support.recompilations import untried
from tests.support.reports import LIBRARY, at, broken, report


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
    given = broken(FORWARD, gb=gb, explanation=explanation)
    (finding,) = findings(report(breaks=(given,)))
    assert finding.title == f"graph break: {title}"
    assert (step or "Move the line before or after the compiled code") in finding.message


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

        What to do: Compute both sides and select with torch.where, or decide outside the compiled code on a Python value that you pass in.
        Net | directive on line 9: Net()(f32[4, 8]) | 2.13.0
        """,  # noqa: E501 - the text is as it is
    )


@pytest.mark.parametrize("gb", ["GB0126", "GB0006", "GB0156", "GB9999"])
def test_hints_of_torch_are_not_given_as_nothing_shows_that_they_fit(gb: str) -> None:
    hints = (
        "Ensure the attribute is a standard method or function.",
        "Use `torch.empty`.",
        "Please report it.",
    )
    (finding,) = findings(report(breaks=(broken(at(30), gb=gb, hints=hints),)))
    assert finding.hints == (first_step(gb) or ("Move the line before or after the compiled code",))


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
    assert (
        f"`{name.removeprefix('_')}` is a function of Python, which torch.compile does not trace."
        in finding.message
    )


@pytest.mark.parametrize("method", ["isEnabledFor", "warning"])
def test_a_call_of_a_logger_has_no_words_for_those_who_export(method: str) -> None:
    given = broken(
        at(30),
        gb="GB0291",
        explanation="logging.Logger methods are not supported for non-export cases.",
        context=f"method: <Logger app (INFO)>.{method}, args: [`int`]",
    )
    (finding,) = findings(report(breaks=(given,)))
    assert finding.title.endswith("logging calls are not traced")
    assert "export" not in finding.message
    assert "args:" not in finding.message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("this line means the CPU", "This line means the CPU."),
        ("torch's own code", "Torch's own code."),
        ("f'cuda:{rank}' means the CPU", "f'cuda:{rank}' means the CPU."),
        ("b'cuda' is no device", "b'cuda' is no device."),
        ("x.cuda() means the CPU", "x.cuda() means the CPU."),
    ],
)
def test_a_sentence_begins_with_a_capital_where_it_begins_with_a_word(text: str, shown: str) -> None:
    assert sentence(text) == shown


def test_no_id_has_two_steps() -> None:
    ids = [gb for row, _ in _KNOWN.steps for gb in row]
    assert sorted(ids) == sorted(set(ids))


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
    assert "torch.compile does not support tracing dynamic control flow." in finding.message
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
    assert "torch.where" in finding.hints[0]
    assert all("capture_dynamic_output_shape_ops" in text for text in untried(finding))


@pytest.mark.parametrize(
    ("operator", "differs"),
    [
        (
            "aten.nonzero.default",
            "drops the positions after the n-th, and where there are fewer, it fills up",
        ),
        ("aten.bincount.default", "of a fixed size n, greater than each index, which ends with zeros"),
        ("aten.masked_select.default", "where the code after it can do without their number"),
    ],
)
def test_a_step_with_another_result_says_what_differs(operator: str, differs: str) -> None:
    (step,) = first_step("GB0036", f"Operator `{operator}` has a non-Tensor output")
    assert differs in step


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


@pytest.mark.parametrize(
    ("name", "is_said"), [("print", False), ("open", False), ("<built-in function add>", True)]
)
def test_torchs_own_text_is_left_out_where_the_title_says_it(name: str, *, is_said: bool) -> None:
    explanation = f"Dynamo does not know how to trace builtin operator `{name}` with argument types ['str']"
    (finding,) = findings(report(breaks=(broken(FORWARD, gb="GB0059", explanation=explanation),)))
    assert ("argument types" in finding.message) is is_said
    assert "Dynamo " not in finding.message


@pytest.mark.parametrize(
    ("message", "text"), [("None", ""), ("between the blocks", "Message: between the blocks.")]
)
def test_a_break_that_the_user_asked_for_has_its_message_alone(message: str, text: str) -> None:
    given = broken(
        at(30),
        gb="GB0025",
        explanation=f"User-inserted graph break. Message: {message}",
        context="Called `torch._dynamo.graph_break()` with args `[]`, kwargs `{}`",
        hints=("Remove the `torch._dynamo.graph_break()` call.",),
    )
    (finding,) = findings(report(breaks=(given,)))
    assert "kwargs" not in finding.message
    assert "None" not in finding.message
    assert text in finding.message


@pytest.mark.parametrize(
    ("gb", "hint", "step"),
    [
        (
            "GB0109",
            "Ensure the input tensor to `tolist()` is an integer type (e.g., int8).",
            "Keep the values in",
        ),
        ("GB0190", "Ensure the name argument of getattr() is a string", "Read the attribute outside"),
        ("GB0207", "Use something else as the key.", "Sort outside"),
        ("GB0107", "Use the out-of-place version of this op", "Use torch.randint"),
        (
            "GB0177",
            "Avoid using `tensor.is_inference()` and `torch.is_inference_mode_enabled()`",
            "Move the line",
        ),
        ("GB0258", "Fix the call to collections.deque().", "Move the line"),
        ("GB0246", "Explicitly set the `num_classes` param of the function call", "Pass num_classes"),
    ],
)
def test_a_hint_of_torch_that_does_not_fit_the_case_is_left_out(gb: str, hint: str, step: str) -> None:
    (finding,) = findings(report(breaks=(broken(at(30), gb=gb, explanation="", hints=(hint,)),)))
    assert [text for text in finding.hints if hint[:20] in text] == []
    assert finding.hints[0].startswith(step)


def test_an_attribute_that_cannot_be_set_is_named_by_the_kind_of_its_object() -> None:
    given = broken(
        at(30),
        gb="GB0467",
        explanation="setattr() is not supported on type function.",
        context="setattr(UserFunctionVariable(), ConstantVariable(str: 'last'), ConstantVariable(float: 0.269))",
        hints=(),
    )
    (finding,) = findings(report(breaks=(given,)))
    assert finding.title == "graph break: an attribute of a `function` object is set"
    assert "0.269" not in finding.message


def test_a_change_of_the_shape_of_an_input_is_named_with_the_users_name_for_it() -> None:
    explanation = (
        "Dynamo determined that a graph break should occur when calling `L['x'].unsqueeze_`. Reason: Getting an "
        "inplace view on a graph input is not supported"
    )
    (finding,) = findings(report(breaks=(broken(at(30), gb="GB0148", explanation=explanation, hints=()),)))
    assert finding.title == "graph break: `x.unsqueeze_` changes the shape of an input in place"
    assert finding.hints[0].startswith("Call the method without the final underscore")
    assert "L[" not in finding.message


@pytest.mark.parametrize(
    ("name", "step"), [("range", "Make a fixed number of iterations"), ("print", "Move this call outside")]
)
def test_a_loop_over_a_number_of_a_tensor_is_no_call_to_leave_out(name: str, step: str) -> None:
    explanation = (
        f"Dynamo does not know how to trace builtin operator `{name}` with argument types ['Tensor']"
    )
    (finding,) = findings(report(breaks=(broken(at(30), gb="GB0059", explanation=explanation),)))
    assert finding.hints[0].startswith(step)

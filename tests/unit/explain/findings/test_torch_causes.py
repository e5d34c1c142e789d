"""The part of torch's text that is about this program, in its own names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import Break, Culprit, CureTrial, Failure, NotCompiled, NotCompiledKind
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.breaks.torch_causes import details, in_words
from tests.support.reports import at, broken, report

CONTEXTS = {
    "raised exception AttributeError(\"'Tensor' object has no attribute 'frobnicate'\")": (
        "the exception is AttributeError: 'Tensor' object has no attribute 'frobnicate'"
    ),
    "raised exception KeyError('width')": "the exception is KeyError: width",
    "raised exception ValueError()": "the exception is ValueError",
    "Attempted to mutate ListVariable(length=0)": "Attempted to mutate a list",
    "Attempted to mutate CellVariable()": "Attempted to mutate a variable of the enclosing function",
    "Attempted to mutate UserDefinedObjectVariable(Counter)": "Attempted to mutate a `Counter` object",
    "module_name: missing.part, fromlist: None, level=0": "module_name: missing.part, fromlist: None, level=0",
    "Key width": "Key width",
    "tensor dtype: torch.float32; grad dtype: torch.float16": (
        "tensor dtype: torch.float32; grad dtype: torch.float16"
    ),
    "LazyVariableTracker(realized: ConstantVariable(int: 4))": "`4`",
    "Input mutation detected at [l_x_] in\n graph():\n    %l_x_ : placeholder": "Input mutation detected at [x]",
    "call_method TensorVariable() item () {}": "",
    "var_getattr TensorVariable() grad_fn": "",
    "value: <bound method Net.forward of Net()>": "",
    "builtin print [<class 'torch._dynamo.variables.constant.ConstantVariable'>] False": "",
}


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_context_for_developers_in_words(context: str) -> None:
    assert in_words(context) == CONTEXTS[context]


def test_a_context_is_added_where_the_explanation_names_nothing_of_the_program() -> None:
    context = "Attempted to mutate ListVariable(length=0)"
    general = "Mutating a variable from outside the scope of this HOP is not supported."
    assert details(general, context) == "torch.compile reports: Attempted to mutate a list"
    assert details("Attribute 'count' was changed from 0 to 1.", context) == ""
    assert details(general, "") == ""


ARGUMENTS = [
    (
        "return x + torch.rand(4, generator=source)",
        "torch.rand(4, generator=source)",
        "ConstantVariable(int: 4) LazyVariableTracker(realized: UserDefinedObjectVariable(Generator))",
        "`source` (a `Generator` object) cannot be part of a graph",
    ),
    (
        "return x.bernoulli(0.5, generator=self.source)",
        "x.bernoulli(0.5, generator=self.source)",
        "TensorVariable() ConstantVariable(float: 0.5) UserDefinedObjectVariable(Generator)",
        "`self.source` (a `Generator` object) cannot be part of a graph",
    ),
    (
        "return torch.add(x, scale)",
        "torch.add(x, scale)",
        "LazyVariableTracker(realized: TensorVariable()) UserDefinedObjectVariable(Scale)",
        "`scale` (a `Scale` object) cannot be part of a graph",
    ),
    (
        "return x + scale",
        "x + scale",
        "TensorVariable() UserDefinedObjectVariable(Scale)",
        "a `Scale` object cannot be part of a graph",
    ),
    (
        "return torch.randn(x.shape, generator=source)",
        "torch.randn(x.shape, generator=source)",
        "SizeVariable(length=1) UserDefinedObjectVariable(Generator)",  # whose first argument has no words
        "an argument of this call cannot be part of a graph",
    ),
    (
        "return f(x, y)",
        "f(x, y)",
        "TensorVariable() TensorVariable()",
        "an argument of this call cannot be part of a graph",
    ),
]


@pytest.mark.parametrize(("line", "marked", "passed", "title"), ARGUMENTS)
def test_an_argument_that_no_graph_can_have_is_named(line: str, marked: str, passed: str, title: str) -> None:
    start = 4 + line.index(marked)
    broke = at(7, (start, start + len(marked)))
    graph_break = Break(
        "0/0",
        ("GB0055",),
        ("Failed to convert args/kwargs to proxy",),
        (broke,),
        explanation="Missing `as_proxy()` implementation for some arg/kwarg.",
        context=f"call_function args: {passed}",
    )
    (finding,) = findings(
        report(breaks=(graph_break,)), read_line=lambda _path, number: f"    {line}" if number == 7 else ""
    )
    assert finding.title == f"graph break: {title}"
    assert "as_proxy" not in finding.message
    assert finding.hints
    assert ("generator" in finding.hints[0]) is ("Generator" in passed)


MUTATED = (
    "Attribute 'count' on an outer-scope object was changed from 0 to 1 inside a higher-order op subgraph."
)


def test_a_failure_has_the_specific_part_of_torchs_text() -> None:
    failure = Failure(
        Culprit.USER,
        "fullgraph",
        "HOP: Non-nullified side effect (torch.cond)",
        exception="UncapturedHigherOrderOpError",
        stack=(at(24), replace(at(9), path="/lib/torch/_higher_order_ops/cond.py")),
        gb_id="GB4413",
        explanation=MUTATED,
        context="Attribute 'count' was not restored to its original value",
    )
    (finding,) = findings(report(failures=(failure,)))
    assert "`count` is changed from 0 to 1" in finding.title
    assert MUTATED in finding.message
    assert finding.hints[0].startswith("Change it before or after the call of the operator")


@pytest.mark.parametrize("module", ["GRU(4, 8)", "LSTM(4, 8)"])
@pytest.mark.parametrize("refused", ["", "the line breaks the graph all the same"], ids=["helps", "refused"])
def test_the_setting_for_recurrent_modules_is_advised_after_a_trial_alone(module: str, refused: str) -> None:
    graph_break = Break(
        "0/0",
        ("GB0014",),
        ("Attempted to wrap RNN, GRU, or LSTM",),
        (at(2),),
        explanation="Dynamo does not support RNN, GRU, or LSTM.",
        context=module,
    )
    outside, untried = findings(report(breaks=(graph_break,)))[0].hints
    assert outside.startswith("Call the recurrent module outside the compiled code")
    assert untried == "1 possible change is not tried yet"
    (cure,) = findings(report(breaks=(graph_break,)))[0].cures
    assert cure.settings == {"allow_rnn": True}
    (tried,) = findings(report(breaks=(graph_break,), trials=(CureTrial(cure, 1, 0, refused),)))
    assert ("allow_rnn" in " ".join(tried.hints)) is (not refused)


SYMBOLIC = "TypeError scale(): scale(): argument 'is_causal' must be bool, not SymBool."


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("y = scale(q, is_causal=t > 1)", "t > 1"),
        ("y = scale(q, t > 1)", "condition"),
        ("y = scale(q, is_causal=names == '`')", "condition"),
    ],
)
def test_a_condition_on_a_size_that_varies_is_named_with_what_decides_it(call: str, value: str) -> None:
    """Also as the reason of a function that was skipped. What torch says of eager mode, which ran the line, is not."""
    eager = "Your code may result in an error when running in eager. Please double check."
    lines = {20: "def forward(self, q):", 21: f"    {call}", 22: "    return y"}
    place = at(21, (8, 40), function="forward")
    broke = broken(
        place,
        gb="GB0112",
        explanation="TypeError when making fake tensor call",
        context=SYMBOLIC,
        hints=(eager,),
    )
    skipped = NotCompiled(
        NotCompiledKind.SKIPPED, "Net.forward", at(20), "no signature", gb_id="GB0112", stack=(place,)
    )
    both = findings(
        report(breaks=(broke,), not_compiled=(skipped,)), read_line=lambda _path, line: lines.get(line)
    )
    graph_break, not_compiled = sorted(both, key=lambda finding: finding.code, reverse=True)
    assert graph_break.title == "graph break: `is_causal` depends on a size or a number that varies"
    (step,) = graph_break.hints
    assert step.startswith(f"Write `True if {value} else False` for `is_causal`")
    assert "`is_causal` depends on a size or a number that varies" in not_compiled.message


def test_what_torch_says_of_eager_mode_is_no_step() -> None:
    eager = "Your code may result in an error when running in eager. Please double check."
    for gb in ("GB0021", "GB0112"):
        (finding,) = findings(report(breaks=(broken(at(21), gb=gb, explanation="a text", hints=(eager,)),)))
        assert finding.hints
        assert not any("in eager" in hint for hint in finding.hints)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("table = torch.tensor([a.data_ptr() for a in xs])", "Call data_ptr() outside the compiled code"),
        ("table = torch.tensor([a.tag for a in xs])", "Pass what the operator needs of the object"),
    ],
)
def test_addresses_of_tensors_are_read_outside(line: str, step: str) -> None:
    broken = Break("", ("GB0055",), ("",), (at(22),), context="call_function args: ListVariable(length=2) ")
    (finding,) = findings(report(breaks=(broken,)), read_line=lambda _path, _number: line)
    assert finding.hints[0].startswith(step)

"""The text of small programs: it is Python, says what differs, and holds no value, name or path of the user's."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from fuselight.shared.report import RecordedNode, ScriptOutcome, ScriptState, TensorTraits
from fuselight_server.repro.issue import ConfirmedProgram, issue_of
from fuselight_server.repro.model import Fill, Observed, SmallProgram
from fuselight_server.repro.text import operators_of, script_of

FLOATS = TensorTraits("float32", (4, 6), (6, 1), low=-2.0, high=3.0, requires_grad=True)
NODES = (
    RecordedNode("v_2_", "torch.acosh(v_1_)", ("v_1_",)),
    RecordedNode("v_3_", "v_2_[0] = 1.0", ("v_2_",), is_statement=True),
    RecordedNode("v_4_", "v_2_.add_(1)", ("v_2_",)),
    RecordedNode("v_5_", "torch._C._nn.gelu(v_2_)", ("v_2_",)),
)
PROGRAM = SmallProgram(
    NODES, ("v_5_",), {"v_1_": FLOATS, "v_5_": FLOATS}, versions="torch 2.13.0, Python 3.11"
)


def body(program: SmallProgram, function: str) -> str:
    """The lines of one function of the text."""
    tree = ast.parse(script_of(program))
    (definition,) = (
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function
    )
    return ast.unparse(definition)


def test_the_function_has_short_names_and_returns_its_last_line() -> None:
    assert body(PROGRAM, "f").splitlines() == [
        "def f(x0):",
        "    y0 = torch.acosh(x0)",
        "    y0[0] = 1.0",
        "    y0.add_(1)",
        "    return torch._C._nn.gelu(y0)",
    ]
    assert operators_of(PROGRAM) == ("torch.acosh", ".add_", "torch.nn.functional.gelu")


@pytest.mark.parametrize("observed", list(Observed))
def test_each_kind_of_fault_is_python_that_imports_torch_alone(observed: Observed) -> None:
    program = replace(PROGRAM, observed=observed, grad=observed is Observed.GRADIENTS)
    tree = ast.parse(script_of(program))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported == {"sys", "torch"}
    assert script_of(program).count("\n") <= 40
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))


def test_what_is_compared_is_returned_by_the_call() -> None:
    assert "return function(x0)" in body(PROGRAM, "call")
    assert "return [x0]" in body(replace(PROGRAM, observed=Observed.ARGUMENTS), "call")
    assert "result.zero_()" in body(replace(PROGRAM, observed=Observed.MEMORY), "call")
    gradients = body(replace(PROGRAM, observed=Observed.GRADIENTS, grad=True), "call")
    assert ".requires_grad_()" in gradients
    assert ".backward()" in gradients
    assert "return [x.grad for x in (x0,)" in gradients


@pytest.mark.parametrize(
    ("traits", "fill", "expected"),
    [
        (FLOATS, Fill.UNIFORM, "torch.rand((4, 6)) * 5 - 2"),
        (FLOATS, Fill.GRID, "torch.linspace(-2, 3, 24).reshape((4, 6))"),
        (FLOATS, Fill.NORMAL, "torch.randn((4, 6))"),
        (replace(FLOATS, low=1.0, high=1e4), Fill.LOGARITHMIC, "torch.logspace(0, 4, 24).reshape((4, 6))"),
        (replace(FLOATS, low=2.0, high=2.0), Fill.UNIFORM, "torch.full((4, 6), 2.0)"),
        (
            TensorTraits("int64", (3,), (1,), low=-1.0, high=5.0),
            Fill.UNIFORM,
            "torch.randint(-1, 6, (3,))",
        ),
        (
            TensorTraits("int64", (3,), (1,), low=0.0, high=2.0, is_counting=True),
            Fill.UNIFORM,
            "torch.arange(3)",
        ),
        (TensorTraits("bool", (3,), (1,), low=0.0, high=1.0), Fill.UNIFORM, "torch.rand((3,)) > 0.5"),
        (
            TensorTraits("bfloat16", (), (), low=0.0, high=1.0),
            Fill.UNIFORM,
            "torch.rand((), dtype=torch.bfloat16) * 1",
        ),
        (replace(FLOATS, values="[1.0, 2.0]"), Fill.VALUES, "torch.tensor([1.0, 2.0], dtype=torch.float32)"),
    ],
)
def test_inputs_are_drawn_from_what_is_known_of_them(traits: TensorTraits, fill: Fill, expected: str) -> None:
    program = replace(PROGRAM, traits={"v_1_": traits, "v_5_": traits}, fills={"v_1_": fill})
    assert f"x0 = {expected}\n" in script_of(program)


def test_strides_and_special_values_are_kept() -> None:
    traits = replace(FLOATS, stride=(1, 4), nan=True, infinite=True)
    text = script_of(replace(PROGRAM, traits={"v_1_": traits}, strided=True))
    assert "torch.empty_strided((4, 6), (1, 4), dtype=torch.float32).copy_(" in text
    assert text.count('= float("nan")') == text.count('= float("inf")') == 1
    ast.parse(text)


def test_settings_are_set_by_their_module() -> None:
    text = script_of(replace(PROGRAM, settings={"torch._inductor.config.max_fusion_size": "1"}))
    assert "import torch._inductor.config\n" in text
    assert "torch._inductor.config.max_fusion_size = 1\n" in text


def test_the_issue_says_what_is_expected_and_what_happens() -> None:
    fault = ScriptOutcome(ScriptState.FAULT, "Mismatched elements: 3 / 24", printed="eager\ntensor([1.])")
    issue = issue_of(ConfirmedProgram(PROGRAM, fault, "code generation (TorchInductor)"))
    assert issue.startswith(
        "# torch.compile: compiled code returns other results than eager mode: torch.acosh"
    )
    for part in (
        "## Expected",
        "## Actual",
        "Mismatched elements",
        "## Versions",
        "torch 2.13.0",
        "```python",
    ):
        assert part in issue
    assert script_of(PROGRAM).rstrip() in issue

"""Advice for a branch that breaks the graph: by what the branch does, what it depends on, and whose code it is in."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import pytest

from fuselight.shared.report import (
    Break,
    Compile,
    Culprit,
    Failure,
    Frame,
    Graph,
    Location,
    NotCompiled,
    NotCompiledKind,
    Outcome,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from tests.support.reports import FILE, at, broken, report

COND = "Use `torch.cond` to express dynamic control flow."
CLAMP = "For the common pattern `if tensor_cond: x = transform(x)` (e.g. clamping inf/nan values), make it branchless."
OPERATORS = "Note: Python `or`/`and` between tensor expressions triggers implicit bool conversion."
TORCHS = (CLAMP, OPERATORS, COND)
FIRST = 20
"""The line of the `def`."""


def body_of(source: str) -> dict[int, str]:
    text = "def forward(self, x, keep=0.5):\n" + textwrap.indent(textwrap.dedent(source).strip("\n"), "    ")
    return {FIRST + number: f"{line}\n" for number, line in enumerate(text.split("\n"))}


def finding_of(source: str, condition: str, **changes: Any) -> Finding:
    """The finding of a break on `condition`, which stands once in the body of a function."""
    lines = body_of(source)
    (line,) = (number for number, text in lines.items() if condition in text)
    column = lines[line].index(condition)
    place = at(line, (column, column + len(condition)), function="forward")
    graph_break: Break = broken(place, hints=TORCHS, **changes)
    (finding,) = findings(report(breaks=(graph_break,)), read_line=lambda _path, number: lines.get(number))
    return finding


BRANCHES = {
    "raise": (
        """
        loss = x.mean()
        if loss.isinf():
            raise ValueError("diverged")
        return loss
        """,
        "loss.isinf()",
        'torch._assert_async(~loss.isinf(), "diverged")',
    ),
    "raise on a comparison": (
        """
        if x.max() > 50:
            self.log("large")
            raise RuntimeError(f"large: {x.max()}")
        return x
        """,
        "x.max() > 50",
        'torch._assert_async(~(x.max() > 50), "message")',
    ),
    "raise unless": (
        """
        if not x.isfinite().all():
            raise ValueError("bad")
        """,
        "x.isfinite().all()",
        'torch._assert_async(x.isfinite().all(), "bad")',
    ),
    "raise otherwise": (
        """
        if x.isfinite().all():
            y = x + 1
        else:
            raise ValueError("bad")
        """,
        "x.isfinite().all()",
        'torch._assert_async(x.isfinite().all(), "bad")',
    ),
    "assert": (
        "assert x.min() >= 0, self.text\nreturn x",
        "x.min() >= 0",
        'torch._assert_async(x.min() >= 0, "message")',
    ),
    "break": (
        """
        for _ in range(9):
            x = x / 2
            if x.norm() < 1:
                break
        """,
        "x.norm() < 1",
        "fixed number of iterations",
    ),
    "return in a loop": (
        """
        for layer in self.layers:
            x = layer(x)
            if x.amax() > 4:
                return x
        return x
        """,
        "x.amax() > 4",
        "fixed number of iterations",
    ),
    "continue": (
        """
        for part in x.unbind():
            if part.sum() == 0:
                continue
            total = total + part
        """,
        "part.sum() == 0",
        "mask of 0 and 1",
    ),
    "while": (
        "while x.norm() > 1:\n    x = x / 2\nreturn x",
        "x.norm() > 1",
        "outside the compiled code and compile its body",
    ),
    "filter": ("return [part for part in x if part.any()]", "part.any()", "Keep all elements and mask"),
    "flag": ("if x.isinf().any():\n    self.amp = False\nreturn x", "x.isinf().any()", "Return the condition"),
    "flag with a value": (
        "if x.isinf().any():\n    self.amp = False\n    x = x * 2\nreturn x", "x.isinf().any()", "Return the condition"
    ),
    "counter": (
        "if x.isinf().any():\n    self.skipped += 1\n    x = x * 0\nreturn x", "x.isinf().any()", "Return the condition"
    ),
    "nothing": ("if x.isnan().any():\n    return None\nreturn x", "x.isnan().any()", "Return the condition"),
    "a dict with a flag": (
        """
        if x.amax() < 0:
            return {"x": x, "cache": None, "done": True}
        return {"x": x, "cache": y, "done": False}
        """,
        "x.amax() < 0",
        "Return the condition",
    ),
    "a pair with a flag": ("if x.sum() < 0:\n    return x, True\nreturn x + 1, False", "x.sum() < 0", "Return the"),
    "an object": (
        "if x.sum() < 0:\n    return Output(x, state=(x, None))\nreturn Output(x)",
        "x.sum() < 0",
        "Return the condition",
    ),
    "an entry": ("if x.isnan().any():\n    state['bad'] = True\nreturn x", "x.isnan().any()", "Return the condition"),
    "a text": ("kind = 'a'\nif x.sum() < 0:\n    kind = 'b'\nreturn f(x, kind)", "x.sum() < 0", "Return the condition"),
    "call": ("if x.isnan().any():\n    print('nan')\nreturn x", "x.isnan().any()", "Return the condition"),
    "operand": ("return bool(x.any() and x.sum() > 3)", "x.any() and x.sum() > 3", "Combine the conditions with `&`"),
}  # fmt: skip
NO_SELECT = ("torch.where", "torch.cond", "clamping", "Note: Python")


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_that_selects_no_value_is_not_advised_to_select(name: str) -> None:
    source, condition, advised = BRANCHES[name]
    finding = finding_of(source, condition)
    assert advised in finding.hints[0]
    assert not any(text in hint for hint in finding.hints for text in NO_SELECT), finding.hints
    assert finding.title == "graph break: a branch depends on the data of a tensor"


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        ("if x.sum() > 0:\n    x = x.clamp(max=3)\nreturn x", "x.sum() > 0"),
        ("return x + 1 if x.sum() > 0 else x", "x.sum() > 0"),
        ("if x.any() or x.min() < 1:\n    return x + 1\nreturn x", "x.any()"),
    ],
)
def test_a_branch_that_selects_has_no_hint_of_torch(source: str, condition: str) -> None:
    (hint,) = finding_of(source, condition).hints
    assert hint.startswith("Compute both sides and select with torch.where")


@pytest.mark.parametrize("first", ["self.hits.append(x)", "logger.warning('large', x)"])
def test_a_call_next_to_values_is_made_outside(first: str) -> None:
    """torch.cond and torch.where make no call of Python on one side."""
    finding = finding_of(f"if x.sum() > 0:\n    {first}\n    x = x * 2\nreturn x", "x.sum() > 0")
    name = first.partition("(")[0]
    assert finding.hints == (
        f"Select the values with torch.where, return the condition, and call `{name}` by it outside the compiled code",
    )


@pytest.mark.parametrize(
    ("body", "advised"),
    [
        ("x.mul_(2)", "`x.mul_(torch.where(x.sum() > 0, 2, 1))`"),
        ("for part in x:\n        part.sub_(keep)", "`part.sub_(torch.where(x.sum() > 0, keep, 0))`"),
        ("x.clamp_(max=1)", "`x.copy_(torch.where(x.sum() > 0, changed, x))`"),
        ("x.mul_(2)\nelse:\n    x.mul_(3)", "`x.copy_(torch.where(x.sum() > 0, changed, x))`"),
    ],
)
def test_a_change_in_place_is_made_in_each_call(body: str, advised: str) -> None:
    finding = finding_of(f"if x.sum() > 0:\n    {body}\nreturn x", "x.sum() > 0")
    assert finding.hints[0] == f"Make the change in each call, by what torch.where selects, as {advised}"
    assert len(finding.hints) == 2


@pytest.mark.parametrize("body", ["x[0] = 0", "kept[:, 1] *= 2", "x.add_(1)\n    kept[0] = x"])
def test_what_gets_an_item_may_be_an_array_that_no_select_changes(body: str) -> None:
    """`kept` may be what `.numpy()` returns, a list or a dict."""
    (hint,) = finding_of(f"if x.sum() > 0:\n    {body}\nreturn x", "x.sum() > 0").hints
    assert hint == "Decide outside the compiled code on a Python value that you pass in"


DRAWN = "  random_value_0: graph input (random_value_0)\n"


@pytest.mark.parametrize(
    ("source", "condition", "gb", "explanation"),
    [
        ("if random.uniform(0, 1) < keep:\n    x = x * 2\nreturn x", "random.uniform(0, 1) < keep", "GB0170", DRAWN),
        ("p = self.rng.gauss(0, 1)\nif p > keep:\n    x = x * 2\nreturn x", "p > keep", "GB0170", DRAWN),
        ("if np.random.rand() < keep:\n    x = x * 2\nreturn x", "np.random.rand()", "GB0033", ""),
        ("p = numpy.random.uniform()\nif p < keep:\n    x = x * 2\nreturn x", "p < keep", "GB0124", ""),
        ("for _ in x:\n    if rng.random() > keep:\n        continue", "rng.random() > keep", "GB0170", ""),
    ],
)  # fmt: skip
def test_a_branch_on_a_random_number_is_not_said_to_depend_on_a_tensor(
    source: str, condition: str, gb: str, explanation: str
) -> None:
    finding = finding_of(source, condition, gb=gb, explanation=explanation)
    assert finding.title == "graph break: a branch depends on a random number"
    assert "tensor" not in finding.message.partition("What to do")[0]
    assert "outside the compiled code" in finding.hints[0]
    assert COND not in finding.hints


def test_a_number_that_torch_draws_is_the_data_of_a_tensor() -> None:
    finding = finding_of("if torch.rand(1) < keep:\n    x = x * 2\nreturn x", "torch.rand(1) < keep")
    assert finding.title.endswith("the data of a tensor")


def test_the_function_that_is_skipped_for_it_and_the_error_say_it_too() -> None:
    lines = body_of("for _ in x:\n    if random.random() < keep:\n        continue")
    place = at(22, (11, 33), function="forward")
    left = NotCompiled(
        NotCompiledKind.SKIPPED, "Net.forward", at(20), "branching", stack=(place,), gb_id="GB0170"
    )
    failure = Failure(Culprit.USER, "fullgraph", "branching", "Drop it.", stack=(place,), gb_id="GB0170")
    for facts in (report(not_compiled=(left,)), report(failures=(failure,))):
        (finding,) = findings(facts, read_line=lambda _path, number: lines.get(number))
        assert "depends on a random number" in f"{finding.title} {finding.message}"
        assert "torch.where" not in finding.message


TORCH = "/env/lib/python3.11/site-packages/torch"


@pytest.mark.parametrize(
    ("path", "function", "advised"),
    [
        ("nn/init.py", "_no_grad_trunc_normal_", "Draw the values outside"),
        ("distributions/distribution.py", "__init__", "validate_args=False"),
        ("nn/utils/clip_grad.py", "clip_grad_norm_", "error_if_nonfinite=False"),
        ("amp/grad_scaler.py", "step", "scaler.step()"),
        ("other.py", "any", "Make this call outside the compiled code"),
    ],
)
def test_a_branch_in_a_library_says_what_to_call_instead(path: str, function: str, advised: str) -> None:
    inside = Location(f"{TORCH}/{path}", 90, function=function)
    call = at(30, (8, 20), function="forward")
    failure = Failure(
        Culprit.USER, "fullgraph", "branching", "Drop it.", stack=(call, inside), gb_id="GB0170"
    )
    for facts in (report(breaks=(broken(call, inside, hints=TORCHS),)), report(failures=(failure,))):
        (finding,) = findings(facts)
        assert advised in finding.hints[0]
        assert not any(text in finding.message for text in NO_SELECT)


GENERIC = (
    "Avoid calling `Logger.set_runtime_stats_and_log` in your code.",
    "Please file an issue to PyTorch.",
    "Apply `@torch._dynamo.dont_skip_tracing` to the function `f` to force tracing into the function.",
)


@pytest.mark.parametrize(
    ("place", "explanation", "title", "advised"),
    [
        ("nn/parallel/distributed.py:_pre_forward", "method `set_runtime_stats_and_log` of class `Logger`",
         "code of DistributedDataParallel is not traced", ""),
        ("other.py:__init__", f"function `DistributedDataParallel._inside_ddp_forward` in `{TORCH}/_compile.py`",
         "code of DistributedDataParallel is not traced", ""),
        ("nn/parallel/distributed.py:_distributed_broadcast_coalesced", "the builtin `_broadcast_coalesced.`",
         "DistributedDataParallel broadcasts the buffers here", "broadcast_buffers=False"),
        ("functools.py:__get__", "Dynamo does not know how to enter a `RLock` context manager.",
         "`functools.cached_property` takes a lock", "before the first call"),
        ("functools.py:__get__", "Cannot trace it.", "this method cannot be traced", "outside the compiled code"),
        ("other.py:wrapper", "Cannot trace it.", "this method cannot be traced", "outside the compiled code"),
    ],
)  # fmt: skip
def test_a_break_in_a_library_has_no_advice_for_the_library_code(
    place: str, explanation: str, title: str, advised: str
) -> None:
    path, _, function = place.partition(":")
    inside = Location(f"{TORCH}/{path}", 90, function=function)
    graph_break = broken(at(30, (8, 20)), inside, gb="GB0156", hints=GENERIC, explanation=explanation)
    (finding,) = findings(report(breaks=(graph_break,)))
    assert finding.title.partition(": ")[2].startswith(title)
    assert finding.severity is (Severity.WARNING if advised else Severity.INFORMATION)
    assert not set(finding.hints) & set(GENERIC)
    assert any(advised in hint for hint in finding.hints) == bool(advised)


@pytest.mark.parametrize("graph", [None, Graph(1)])
def test_a_module_that_only_ddp_keeps_from_being_compiled_is_a_warning(graph: Graph | None) -> None:
    """`torch.compile(DistributedDataParallel(nn.Sequential(...)))` compiles nothing."""
    inside = Location(f"{TORCH}/nn/parallel/distributed.py", 90, function="_pre_forward")
    broke = broken(at(30, (8, 20)), inside, gb="GB0156", explanation="method `_rebuild_buckets`")
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("1/0", 0, Outcome.COMPILED, graph=graph))
    frames = (Frame("f", at(30)),)
    (finding,) = findings(report(breaks=(broke,), compiles=compiles, frames=frames))
    assert finding.severity is (Severity.WARNING if graph is None else Severity.INFORMATION)
    assert ("before it is wrapped" in finding.message) == (graph is None)


@pytest.mark.parametrize("is_bound", [False, True])
def test_the_step_that_a_scheduler_wraps_is_information(*, is_bound: bool) -> None:
    """Of `torch.compile(optimizer.step)`, torch itself calls the wrapper: the line is in the code above."""
    path = f"{TORCH}/optim/lr_scheduler.py"
    text = (
        f"Dynamo developers have marked that the function `Adam.step` in file `{path}` should not be traced."
    )
    line = at(30, (4, 20), function="update")
    inner = Location(f"{TORCH}/_dynamo/external_utils.py", 69, function="inner")
    graph_break = broken(inner if is_bound else line, gb="GB0007", hints=GENERIC, explanation=text)
    (finding,) = findings(report(breaks=(replace(graph_break, above=(line,) if is_bound else ()),)))
    assert (finding.severity, finding.hints, finding.span.path) == (Severity.INFORMATION, (), FILE)
    assert "scheduler wraps `optimizer.step`" in finding.title
    assert "compiled separately" in finding.message


@pytest.mark.parametrize(
    ("operator", "advised"),
    [
        ("aten.bincount.default", "scatter_add_"),
        ("aten._unique2.default", "Call it outside"),
        ("aten.unique_consecutive.default", "Call it outside"),
        ("aten.repeat_interleave.Tensor", "output_size="),
        ("aten.nonzero.default", "torch.nonzero_static"),
        ("aten.masked_select.default", "use a mask or torch.where"),
    ],
)
def test_an_operator_with_a_shape_that_depends_on_data_has_a_cure_of_its_own(
    operator: str, advised: str
) -> None:
    text = f"Operator `{operator}`'s output shape depends on input Tensor data."
    (finding,) = findings(report(breaks=(broken(at(30), gb="GB0036", explanation=text, hints=()),)))
    assert advised in finding.hints[0]


def test_a_class_in_compiled_code_belongs_at_module_level() -> None:
    rules = (
        "It may be possible to write Dynamo tracing rules for this code. Please report an issue to PyTorch."
    )
    (finding,) = findings(report(breaks=(broken(at(30), gb="GB8977", hints=(rules,)),)))
    assert finding.hints == (
        "Define the class at module level: it is then created once, and torch traces only its use",
    )


def test_torchs_texts_are_whole_sentences_with_readable_names() -> None:
    name = "pybind11_detail_function_record_v1_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1"
    message = (
        f"Dynamo does not know how to trace the builtin `torch._C.{name}.gather_all.` This function is either a Python "
        "builtin (e.g. _warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind). "
        + "And more. "
        * 20
    )
    (finding,) = findings(report(breaks=(broken(at(30), gb="GB0007", explanation=message),)))
    assert finding.title == "graph break: `torch._C.gather_all` is not traced by torch.compile"
    assert "pybind11_detail" not in finding.message
    assert "(e.g.\n" not in finding.message
    assert "(e.g. _warnings.warn) or a third-party" in finding.message


@pytest.mark.parametrize(
    ("statement", "held"),
    [
        ("assert not x.isnan().any(), 'nan'", "~x.isnan().any()"),
        ("assert not (x > 3), 'nan'", "~(x > 3)"),
        ("assert x.isfinite().all(), 'nan'", "x.isfinite().all()"),
        ("if not x.isfinite().all():\n    raise ValueError('nan')", "x.isfinite().all()"),
        ("if x.isnan().any():\n    raise ValueError('nan')", "~x.isnan().any()"),
        ("assert not (x.any() and keep), 'nan'", "condition"),
        ("assert (not x.any()) == keep, 'nan'", "condition"),
    ],
)
def test_an_assert_of_the_graph_gets_a_tensor_and_no_bool(statement: str, held: str) -> None:
    condition = statement.partition("assert ")[2].partition(", '")[0] or statement[3:].partition(":")[0]
    finding = finding_of(f"{statement}\nreturn x", condition)
    assert f'torch._assert_async({held}, "nan")' in finding.hints[0]

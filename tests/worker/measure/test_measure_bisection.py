"""The first line that differs, found by compiling parts with deliberately wrong backends."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.capture.inductor import Compilation
from fuselight.measure.accuracy import bisection, partial_compile, reference, rules
from fuselight.measure.accuracy.results import CallResults, of_call
from fuselight.shared.devices import find
from fuselight.shared.report import Accuracy
from tests.support import compared_calls
from tests.support.compared_calls import INFERENCE, Build, X, accuracy_of, builder, compiled, eager

pytestmark = [
    pytest.mark.torch,
    # Dynamo asks an activation for its gradient, where a graph begins with one.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]
SOURCES = {
    path: Path(path).read_text(encoding="utf-8").splitlines() for path in (__file__, compared_calls.__file__)
}


def place_of(comment: str) -> tuple[str, int]:
    """Path, and 1-based line, of the line that ends in a comment: in this file, or in that of the model."""
    (pair,) = [
        (path, number)
        for path, lines in SOURCES.items()
        for number, line in enumerate(lines, 1)
        if line.endswith(f"  # {comment}")
    ]
    return pair


def line_of(comment: str) -> str:
    """That place as a sentence names it."""
    path, line = place_of(comment)
    return f"{Path(path).name}:{line}"


def wrong_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 1.2


def wrong_gradient(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + (x - x.detach()) * 0.3


def wrong_for_20(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * (1.2 if x.shape[0] == 20 else 1.0)


def wrong(
    comment: str, replacement: Callable[..., Any] = wrong_relu, *, together_with: str = ""
) -> partial_compile.Backend:
    """A backend that replaces torch.relu on one line with another function.

    `together_with`: only where what it compiles has a call of that method as well.
    """

    path, line = place_of(comment)

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        del inputs
        methods = {node.target for node in gm.graph.nodes if node.op == "call_method"}
        for node in gm.graph.nodes:
            here = node.target is torch.relu and f'"{path}", line {line},' in node.meta["stack_trace"]
            if here and (not together_with or together_with in methods):
                node.target = replacement
        gm.recompile()
        forward: Callable[..., Any] = gm.forward
        return forward

    return backend


def place(accuracy: Accuracy) -> tuple[str, int]:
    """The innermost location of the found line."""
    return accuracy.first[-1].path, accuracy.first[-1].line


def bisected(
    build: Build, backend: partial_compile.Backend, **limits: Any
) -> tuple[Accuracy, bisection.First]:
    """What is found of a backend that is wrong."""
    expected = eager(build)
    double, _ = reference.float64_results(build)
    compare = functools.partial(
        lambda value: rules.compare_results(value, expected, double, training=build().options.train)
    )
    first = bisection.find_first(functools.partial(compiled, build), backend, compare, **limits)
    return bisection.with_first(compare(compiled(build, backend)), first), first


class Small(torch.nn.Module):
    """Two graphs of a few operators: each trial compiles both again."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x))  # relu before a break
        torch._dynamo.graph_break()
        out = torch.relu(hidden.sin() + 1.5)  # relu before a sum
        return out + hidden.sum()


SMALL, SMALL_TRAINING = builder(Small, X), builder(Small, X, train=True)


def test_a_wrong_gradient_of_a_correct_output_is_found() -> None:
    accuracy, first = bisected(SMALL_TRAINING, wrong("relu before a break", wrong_gradient))
    assert accuracy.passed is False
    assert {tensor.what.partition(" ")[0] for tensor in accuracy.tensors if not tensor.passed} == {"gradient"}
    assert (first.operator, place(accuracy)) == ("torch.relu", place_of("relu before a break"))


def test_the_line_after_a_break_is_found_and_which_call_of_it() -> None:
    accuracy, first = bisected(INFERENCE, wrong("relu in a loop", wrong_for_20))
    assert accuracy.passed is False
    assert (accuracy.first_operator, accuracy.first_graph) == ("torch.relu", "1/0")
    assert place(accuracy) == place_of("relu in a loop")
    assert f"at {line_of('relu in a loop')} (call 2 of 3 there)" in accuracy.why
    assert first.words.endswith("of graph 2 of 2, compiled by itself as well")
    assert first.trials < 15


def test_an_operator_that_is_wrong_only_with_others_is_reported_with_them() -> None:
    accuracy, _ = bisected(SMALL_TRAINING, wrong("relu before a sum", together_with="sum"))
    assert "compiled by itself it is right, the smallest stretch that differs is where the" in accuracy.why
    assert f"from torch.relu at {line_of('relu before a sum')} to sum at" in accuracy.why


def short(x: torch.Tensor) -> torch.Tensor:
    x = x.sin() + 0.5
    x = torch.relu(x)  # relu in the middle
    return x.cos() * 2


def test_the_end_of_the_trials_is_reported() -> None:
    build, backend = builder(lambda: short, X), wrong("relu in the middle")
    full = bisected(build, backend)[1]
    assert full.words.endswith("compiled by itself as well")
    for trials in (3, full.trials - 2):
        first_difference = bisected(build, backend, trials=trials)[1]
        assert first_difference.trials == trials
        assert first_difference.words.startswith("the first line that differs is the ")
        assert first_difference.words.endswith(
            f"the bisection ended after {trials} trials, at its limit of {trials} trials"
        )
        assert not first_difference.stack
    first_difference = bisected(build, backend, seconds=100.0, first_seconds=795.0)[1]
    assert first_difference.words == (
        "the first line that differs is not known: the bisection ended after 0 trials, "
        "at its limit of 100 s, as the next one would take some 795 s"
    )
    first_difference = bisected(build, backend, trials=full.trials - 1)[1]
    assert (first_difference.stack, first_difference.operator) == (full.stack, full.operator)
    assert first_difference.words.endswith("there was no time to compile it by itself")
    assert bisected(build, backend, seconds=0.0)[1].trials == 0


def test_a_stretch_that_does_not_compile_alone_is_omitted() -> None:
    inner = wrong("relu before a sum")

    def choosy(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        names = {str(node.target) for node in gm.graph.nodes}
        if "sin" in names and "sum" not in names:
            raise ValueError("only as a whole")
        return inner(gm, inputs)

    accuracy, first = bisected(SMALL, choosy)
    assert accuracy.passed is False
    assert not first.stack
    assert "parts of it alone raised BackendCompilerFailed: " in first.words


def normalized(x: torch.Tensor, eps: float) -> torch.Tensor:
    x = torch.relu(x - 0.5)  # relu before a float
    return torch.nn.functional.layer_norm(x, (8,), eps=eps) + x


@pytest.mark.corpora
def test_a_graph_that_is_captured_twice_is_one_graph() -> None:
    """Where a dynamic float has to be fixed to its value, the backend has Dynamo capture the frame again."""
    build = builder(lambda: normalized, X, 0.1)
    captures: list[int] = []

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        captures.append(len(gm.graph.nodes))
        wrong("relu before a float")(gm, inputs)
        return AOT_EAGER(gm, inputs)

    def run(tried: partial_compile.Backend) -> CallResults:
        prepared = build()
        return of_call(prepared, torch.compile(prepared.function, backend=tried, dynamic=True))

    compare = functools.partial(rules.compare_results, eager=eager(build), float64=None, training=False)
    first = bisection.find_first(run, backend, compare, trials=1)
    assert len(captures) == 2, "nothing was captured twice: this tests nothing"
    first = bisection.find_first(run, backend, compare)
    line = line_of("relu before a float")
    assert first.words == (
        f"the first operator that differs is torch.relu at {line}, compiled by itself as well"
    )


def test_a_wrong_capture_is_not_blamed_on_the_backend() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_compiling() else x

    first = bisected(builder(lambda: function, torch.ones(3)), cutting_nothing)[1]
    assert "the capture is wrong" in first.words


def test_a_target_with_state_is_not_bisected() -> None:
    kept: list[torch.Tensor] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return x * len(kept)

    first = bisected(builder(lambda: function, torch.ones(3)), cutting_nothing)[1]
    assert "the target keeps state between calls" in first.words


def test_a_failure_that_cannot_be_reproduced_is_reported() -> None:
    first = bisected(SMALL, cutting_nothing)[1]
    assert (first.words, first.trials) == (
        "the first line that differs is not known: another call of it was right",
        1,
    )


def cutting_nothing(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend that is right."""
    del inputs
    forward: Callable[..., Any] = gm.forward
    return forward


class Regions(torch.nn.Module):
    """Values that may not cross a cut, and regions that may contain a cut."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 4)
        self.last = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x).relu_()
        left, right = hidden.chunk(2, 1)
        with torch.no_grad():
            left = left.exp() * 2
        with torch.autocast("cpu"):
            out = self.last(hidden).tanh()
        result: torch.Tensor = out.float() + left.sum() * right.sum()
        return result


def test_every_stretch_compiled_by_itself_computes_the_same() -> None:
    """Autocast, no_grad and gradients are as they were captured, wherever the cuts are."""
    build = builder(Regions, X, train=True)
    expected = eager(build)
    cuts: tuple[int, ...] = ()
    for index in range(20):

        def backend(
            gm: torch.fx.GraphModule, inputs: Sequence[Any], index: int = index
        ) -> Callable[..., Any]:
            nonlocal cuts
            cuts = partial_compile.read_captured(gm).cuts
            return partial_compile.compile_stretch(gm, inputs, AOT_EAGER, cuts[index], cuts[index + 1])

        torch.compiler.reset()
        accuracy = rules.compare_results(compiled(build, backend), expected, None, training=True)
        assert accuracy.passed is True, (cuts[index], accuracy.why)
        if index + 2 == len(cuts):
            break
    assert len(cuts) > 10
    assert index + 2 == len(cuts)


AOT_EAGER: partial_compile.Backend = torch._dynamo.lookup_backend("aot_eager")


def rounding_late(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compute in float32 and round at the end, as a fused kernel does."""
    del inputs

    def run(*given: torch.Tensor) -> list[torch.Tensor]:
        return [value.bfloat16() for value in gm(*(tensor.float() for tensor in given))]

    return run


def scores(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax((x * 3).exp().log1p() / 7, -1) * x


def test_the_rounding_of_bfloat16_passes_and_an_error_does_not() -> None:
    build = builder(lambda: scores, torch.arange(4096).mul(0.7).sin().reshape(64, 64).bfloat16())
    accuracy = accuracy_of(build, rounding_late)
    error = accuracy.tensors[0].relative
    assert (accuracy.passed, accuracy.against, accuracy.tolerance) == (True, "float64", 1e-4)
    assert error is not None
    assert error > 1e-3, "no rounding: this tests nothing"
    exact, _ = reference.float64_results(build)
    expected = eager(build)
    off = replace(expected.values[0], tensor=expected.values[0].tensor * 1.05)
    wrong_result = rules.compare_results(replace(expected, values=(off,)), expected, exact, training=False)
    assert wrong_result.passed is False
    assert "root mean square error" in wrong_result.why


def positive_part(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)  # inductor's relu


def test_a_wrong_kernel_of_inductor_is_named() -> None:
    """With the bug that torch builds into its relu for tests of its own."""
    compilation = Compilation(find("cpu"), options={"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"})
    build = builder(lambda: positive_part, torch.linspace(-4, 4, 64))
    torch.compiler.reset()
    compare = functools.partial(rules.compare_results, eager=eager(build), float64=None, training=False)
    # Or an earlier run's graph comes without kernels. In a new cache directory, C++ headers are compiled again.
    with torch._inductor.config.patch(fx_graph_cache=False):
        verdict_ = compare(compiled(build, compilation))
        assert verdict_.passed is False
        generated = tuple(compilation.graphs)
        first = bisection.find_first(functools.partial(compiled, build), compilation.unrecorded, compare)
    accuracy = bisection.with_first(verdict_, first, generated)
    assert len(accuracy.first) == 1
    assert place(accuracy) == place_of("inductor's relu")
    assert (accuracy.first_operator, accuracy.first_graph) == ("torch.relu", generated[0].compile_id)
    assert accuracy.first_kernel == generated[0].kernels[0].name
    assert first.words.endswith("torch.relu at " + line_of("inductor's relu"))

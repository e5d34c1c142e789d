"""What a call gave, whether it is right, and the first line that is not: with backends that are wrong on purpose."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from fuselight.devices import find
from fuselight.inductor import Compilation
from fuselight.inputs import Options
from fuselight.measure import accuracy, bisection, cutting, reference, results
from fuselight.measure.results import Results, of_call
from fuselight.report import Accuracy, Work
from fuselight.target.calls import Prepared

pytestmark = [
    pytest.mark.torch,
    # Dynamo asks an activation for its gradient, where a graph begins with one.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]

Build = Callable[[], Prepared]
SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()


def line_of(comment: str) -> int:
    """1-based line of this file that ends in a comment."""
    return next(number for number, line in enumerate(SOURCE, 1) if line.endswith(f"  # {comment}"))


def builder(function: Callable[[], Any], *inputs: Any, train: bool = False) -> Build:
    """`function` makes what is called; tensors among the inputs are copied for each build."""

    def build() -> Prepared:
        torch.manual_seed(0)
        copies = tuple(one.clone() if isinstance(one, torch.Tensor) else one for one in inputs)
        return Prepared(function(), copies, {}, Options(train=train))

    return build


def eager(build: Build, work: Work | None = None) -> Results:
    prepared = build()
    return of_call(prepared, prepared.function, work)


def compiled(build: Build, backend: Any, work: Work | None = None) -> Results:
    prepared = build()
    return of_call(prepared, torch.compile(prepared.function, backend=backend), work)


def judged(build: Build, backend: Any, work: Work | None = None) -> Accuracy:
    """The verdict on a backend, with a float64 reference where there is one."""
    torch.compiler.reset()
    double, why = reference.float64_results(build, work)
    training = build().options.train or work is not None
    return accuracy.judge(
        compiled(build, backend, work), eager(build, work), double, training=training, no_float64=why
    )


def returned(value: Any) -> Results:
    """The results of a function that returns this."""
    prepared = Prepared(lambda: value, (), {})
    return of_call(prepared, prepared.function)


def verdict(ours: Any, theirs: Any, double: Any = None) -> Accuracy:
    exact = None if double is None else returned(double)
    return accuracy.judge(returned(ours), returned(theirs), exact, training=False)


# What a call gave


@dataclass
class Output:
    loss: torch.Tensor
    hidden: tuple[torch.Tensor, ...]
    cache: object = None


class Pair(NamedTuple):
    first: torch.Tensor
    second: float


class Tagged(torch.Tensor):
    """A subclass of Tensor."""


def test_outputs_are_named_as_a_user_reaches_them() -> None:
    one = torch.ones(2)
    found = returned(
        [
            Output(one, (one, one), cache=object()),
            {"logits": one, "two words": 3, 7: True},
            Pair(one, 0.5),
            None,
            "text",
            torch.eye(2).to_sparse(),
            one.as_subclass(Tagged),
            1 << 80,
        ]
    )
    assert [(value.name, value.dtype) for value in found.values] == [
        ("output[0].loss", "torch.float32"),
        ("output[0].hidden[0]", "torch.float32"),
        ("output[0].hidden[1]", "torch.float32"),
        ("output[1].logits", "torch.float32"),
        ("output[1]['two words']", "int"),
        ("output[1][7]", "bool"),
        ("output[2][0]", "torch.float32"),
        ("output[2][1]", "float"),
        ("output[5]", "torch.float32"),
    ]
    assert [word.split(":")[0] for word in found.skipped] == ["output[0].cache", "output[6]", "output[7]"]
    assert found.skipped[1] == "output[6]: a Tagged, a subclass of Tensor"


def test_they_are_the_same_in_another_process(tmp_path: Path) -> None:
    found = replace(
        returned((torch.tensor([1 + 2j, math.nan]), torch.ones(3, dtype=torch.bfloat16), 2.5)),
        skipped=("x: y",),
        device="cuda",
    )
    found.save(str(tmp_path / "results.pt"))
    read = results.load(str(tmp_path / "results.pt"))
    assert (read.skipped, read.device) == (found.skipped, found.device)
    for one, two in zip(read.values, found.values, strict=True):
        assert (one.name, one.dtype, one.shape) == (two.name, two.dtype, two.shape)
        assert torch.equal(one.tensor.nan_to_num(), two.tensor.nan_to_num())


def test_of_a_large_tensor_a_sample_is_kept_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_ELEMENTS", 64)
    large = torch.arange(1000.0)
    wrong = large.clone()
    kept = returned(large).values[0]
    wrong[int(kept.tensor[5])] = -1
    assert (kept.sampled, kept.shape, kept.tensor.numel()) == (True, (1000,), 64)
    right = verdict(large.clone(), large, large.double())
    assert (right.passed, right.why) == (True, "of output a sample was compared (64 of 1000 elements)")
    assert verdict(wrong, large, large.double()).passed is False


def test_all_of_many_tensors_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_ALL_ELEMENTS", 100)
    found = returned([torch.ones(90), torch.ones(90), torch.ones(4)])
    assert sum(value.tensor.numel() for value in found.values) <= 100
    assert [value.sampled for value in found.values] == [True, True, False]


# Whether it is right


def test_a_function_that_returns_nothing_is_not_compared() -> None:
    for value in (None, "text", object()):
        found = verdict(value, value)
        assert found.passed is None
        assert found.why.startswith("the function returns no tensor")
    assert "(output: a object)" in verdict(object(), object()).why


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        (torch.ones(2), torch.ones(2, 1), "output is torch.float32[2], eager's is torch.float32[2, 1]"),
        (torch.ones(2).half(), torch.ones(2), "output is torch.float16[2], eager's is torch.float32[2]"),
        ((torch.ones(2),), (torch.ones(2), torch.ones(2)), "eager gives output[1], and this does not"),
        ({"a": torch.ones(2), "b": 1}, {"a": torch.ones(2)}, "this gives output.b, and eager does not"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "output differs (beyond the tolerance of 0.0001"),
        (torch.tensor([True]), torch.tensor([False]), "output differs (beyond the tolerance of 0.0001"),
        (3, 4, "output differs (beyond the tolerance of 0.0001"),
        (torch.ones(9), -torch.ones(9), "output differs (below 0.99; cosine similarity -1, largest error 2"),
        (torch.tensor([1.0, math.nan]), torch.ones(2), "output differs (NaN where eager has a number"),
        (torch.tensor([1.0, math.inf]), torch.ones(2), "output differs (infinity where eager has a number"),
        (torch.tensor([math.inf]), torch.tensor([-math.inf]), "output differs (another infinity, or NaN"),
        (torch.ones(2), torch.tensor([1.0, math.nan]), "output differs (a number where eager has NaN"),
    ],
)
def test_a_failure_is_told_in_words(ours: Any, theirs: Any, words: str) -> None:
    found = verdict(ours, theirs)
    assert found.passed is False
    assert found.why.startswith(words)


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([1.0, math.nan, math.inf, -math.inf]),
        torch.tensor([math.nan]),
        torch.tensor([]),
        torch.tensor([1 + 2j, 3j]),
        torch.ones(3).to(torch.float8_e4m3fn),
        torch.tensor([1, 2], dtype=torch.uint16),
        torch.tensor([1.0, 2.0], dtype=torch.float64),
        torch.zeros(4),
    ],
    ids=str,
)
def test_what_is_equal_is_right(value: torch.Tensor) -> None:
    found = verdict(value.clone(), value)
    assert (found.passed, found.compared) == (True, 1)


def test_a_nan_in_its_place_excuses_no_other_element() -> None:
    ours, theirs = torch.full((50,), 2.0), torch.full((50,), 1.0)
    ours[0] = theirs[0] = math.nan
    assert verdict(ours, theirs, theirs.double()).passed is False


def test_a_better_result_than_eagers_is_right() -> None:
    ours, theirs = torch.tensor([1.0, 2.0]).half(), torch.tensor([1.0, math.inf]).half()
    assert verdict(ours, theirs, torch.tensor([1.0, 2.0], dtype=torch.float64)).passed is True
    assert verdict(ours, theirs, torch.tensor([1.0, 3.0], dtype=torch.float64)).passed is False


def test_errors_are_against_float64_and_the_worst_comes_first() -> None:
    exact = [torch.tensor([1.0, 0.0, 4.0], dtype=torch.float64)] * 30
    theirs = [one.float() for one in exact]
    ours = [one.float() for one in exact]
    ours[7] = torch.tensor([1.0, 0.5, 3.0])
    found = verdict(ours, theirs, exact)
    worst = found.tensors[0]
    assert (found.passed, found.against, found.compared, len(found.tensors)) == (False, "float64", 30, 20)
    assert (worst.what, worst.passed, worst.absolute, worst.relative) == ("output[7]", False, 1.0, 0.25)
    assert worst.cosine == pytest.approx(13 / math.sqrt(17 * 10.25))
    assert all(one.passed for one in found.tensors[1:])


@pytest.mark.parametrize(
    ("dtypes", "training", "device", "tolerance"),
    [
        ([torch.float32], False, "cpu", 1e-4),
        ([torch.float32], True, "cpu", 1e-4),
        ([torch.float32], True, "cuda", 1e-3),
        ([torch.bfloat16], False, "cuda", 1e-4),
        ([torch.bfloat16, torch.float32], False, "cpu", 1e-3),
        ([torch.float16], False, "cuda", 1e-3),
    ],
)
def test_tolerances_are_those_of_torchs_benchmarks(
    dtypes: Sequence[torch.dtype],
    training: bool,  # noqa: FBT001
    device: str,
    tolerance: float,
) -> None:
    found = replace(returned([torch.ones(1, dtype=dtype) for dtype in dtypes]), device=device)
    assert accuracy.tolerance_of(found, training=training) == tolerance


# Whole calls


class Net(torch.nn.Module):
    """Two graphs, a loop, a region without gradients and one under autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.last = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.first(x)))  # first relu
        torch._dynamo.graph_break()
        for _ in range(3):
            hidden = torch.relu(torch.cat([hidden, hidden]) - 0.1)  # relu in a loop
        left, right = (hidden * 1).chunk(2, 1)
        with torch.no_grad():
            left = left * 2
        with torch.autocast("cpu"):
            out = self.last(hidden)
        out = torch.relu(out.float().sin() + 1.5)  # last relu
        return out + left.sum() + right.sum()


X = torch.linspace(-2, 2, 40).reshape(5, 8)
INFERENCE, TRAINING = builder(Net, X), builder(Net, X, train=True)


def wrong_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 1.2


def wrong_gradient(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + (x - x.detach()) * 0.3


def wrong_for_20(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * (1.2 if x.shape[0] == 20 else 1.0)


def wrong(
    comment: str, replacement: Callable[..., Any] = wrong_relu, *, together_with: str = ""
) -> cutting.Backend:
    """A backend that has another function in the place of torch.relu on one line.

    `together_with`: only where what it compiles has a call of that method as well.
    """

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        del inputs
        methods = {node.target for node in gm.graph.nodes if node.op == "call_method"}
        for node in gm.graph.nodes:
            here = node.target is torch.relu and f"line {line_of(comment)}," in node.meta["stack_trace"]
            if here and (not together_with or together_with in methods):
                node.target = replacement
        gm.recompile()
        forward: Callable[..., Any] = gm.forward
        return forward

    return backend


def bisected(build: Build, backend: cutting.Backend, **limits: Any) -> tuple[Accuracy, bisection.First]:
    """What is found of a backend that is wrong."""
    expected = eager(build)
    double, _ = reference.float64_results(build)
    judge = functools.partial(
        lambda found: accuracy.judge(found, expected, double, training=build().options.train)
    )
    first = bisection.find_first(functools.partial(compiled, build), backend, judge, **limits)
    return bisection.with_first(judge(compiled(build, backend)), first), first


def test_what_a_training_step_gives_is_all_compared() -> None:
    found = eager(TRAINING, Work.TRAINING_STEP)
    names = [value.name for value in found.values]
    parameters = ["first.weight", "first.bias", "norm.weight", "norm.bias", "last.weight", "last.bias"]
    assert names == [
        "output",
        *(f"gradient of {name}" for name in parameters),
        *(f"parameter {name}, changed in place" for name in parameters),
        *(f"buffer norm.{name}, changed in place" for name in ("running_mean", "running_var")),
        "buffer norm.num_batches_tracked, changed in place",
    ]
    verdict_ = judged(TRAINING, "aot_eager", Work.TRAINING_STEP)
    assert (verdict_.passed, verdict_.why, verdict_.against) == (True, "", "float64")
    assert verdict_.compared == len(names)


def test_a_wrong_gradient_of_a_right_output_is_found() -> None:
    found, first = bisected(TRAINING, wrong("first relu", wrong_gradient))
    assert found.passed is False
    assert {one.what.partition(" ")[0] for one in found.tensors if not one.passed} == {"gradient"}
    assert (first.operator, found.first[-1].line) == ("torch.relu", line_of("first relu"))


def test_a_function_is_trained_through_its_inputs() -> None:
    def function(x: torch.Tensor, y: dict[str, torch.Tensor]) -> torch.Tensor:
        return x * y["a"] + y["b"]

    inputs = (torch.ones(3), {"a": torch.ones(3), "b": torch.tensor([1, 2, 3])})
    found = eager(builder(lambda: function, *inputs, train=True))
    assert [value.name for value in found.values] == [
        "output",
        "gradient of input 0",
        "gradient of input 1[0]",
    ]


def in_place(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x


def test_inputs_that_change_and_outputs_that_alias_them() -> None:
    build = builder(lambda: in_place, torch.ones(3))
    assert [value.name for value in eager(build).values] == ["output", "input 0, changed in place"]
    assert judged(build, "aot_eager").passed is True
    assert judged(builder(lambda: lambda x: x[1:], torch.ones(3)), "aot_eager").passed is True


def test_a_change_of_an_input_that_is_lost_is_seen_though_nothing_is_returned() -> None:
    def function(x: torch.Tensor) -> None:
        x.mul_(2)

    def losing(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        del gm, inputs
        return lambda *_: ()

    build = builder(lambda: function, torch.ones(3))
    assert judged(build, "eager").passed is True
    found = judged(build, losing)
    assert (found.passed, found.why) == (False, "eager gives input 0, changed in place, and this does not")


def test_random_numbers_are_noticed_and_state_is_not_taken_for_them() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls: torch.Tensor
            self.register_buffer("calls", torch.zeros(()))
            self.dropout = torch.nn.Dropout(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            out: torch.Tensor = self.dropout(x) + self.calls
            return out

    assert reference.varies(builder(Counting, torch.ones(100), train=True)) == accuracy.RANDOM
    assert not reference.varies(builder(Counting, torch.ones(100)))
    assert reference.varies(builder(lambda: lambda: torch.rand(3))) == accuracy.RANDOM
    found = accuracy.varying(accuracy.RANDOM, training=False)
    assert found.passed is None
    assert "call .eval()" in found.why
    assert "set the dropout to 0" in accuracy.varying(accuracy.RANDOM, training=True).why


def test_what_is_kept_between_calls_is_told_from_random_numbers() -> None:
    kept = []

    def counts(x: torch.Tensor) -> torch.Tensor:
        kept.append(1)
        return x + len(kept)

    assert reference.varies(builder(lambda: counts, torch.ones(3))) == accuracy.STATE
    assert "keeps something" in accuracy.varying(accuracy.STATE, training=False).why


# In float64


def test_another_result_in_float64_excuses_nothing() -> None:
    theirs, ours = torch.ones(8), torch.full((8,), 1.5)
    other = torch.full((8,), 3.0, dtype=torch.float64)
    assert verdict(ours, theirs, other).why.startswith("output differs (another length;")
    right = verdict(theirs.clone(), theirs, other)
    assert (right.passed, right.against) == (True, "eager")
    assert "the call in float64 gives another output, off by 2" in right.why


def test_the_reference_is_all_in_float64() -> None:
    found, why = reference.float64_results(TRAINING)
    assert found is not None
    assert why == ""
    assert {value.tensor.dtype for value in found.values if value.name.startswith("gradient")} == {
        torch.float64
    }
    spectrum, _ = reference.float64_results(
        builder(lambda: torch.fft.ifft, torch.ones(4, dtype=torch.complex64))
    )
    assert spectrum is not None
    assert spectrum.values[0].tensor.dtype == torch.complex128


LAYER = torch.nn.Linear(3, 3).requires_grad_(False)  # noqa: FBT003


def through_a_global(x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = LAYER(x)
    return out


def test_a_module_that_a_function_names_is_doubled_as_well() -> None:
    found, why = reference.float64_results(builder(lambda: through_a_global, torch.ones(3)))
    LAYER.float()
    assert why == ""
    assert found is not None
    assert found.values[0].tensor.dtype == torch.float64


def test_where_there_is_no_reference_it_says_why_and_the_angle_decides() -> None:
    weight = torch.ones(3, 3)
    build = builder(lambda: lambda x: x @ weight, torch.ones(2, 3))
    found, why = reference.float64_results(build)
    assert found is None
    assert why.startswith("the target does not run in float64: RuntimeError: expected")
    verdict_ = judged(build, "eager")
    assert (verdict_.passed, verdict_.against) == (True, "eager")
    assert verdict_.why.startswith("there is no float64 result (the target does not run in float64")
    assert verdict_.why.endswith("compared with eager by cosine similarity (0.99 or more) and length")
    shared = torch.ones(4)
    prepared = Prepared(torch.add, (shared[:2], shared[2:]), {})
    assert reference.float64_results(lambda: prepared) == (
        None,
        "inputs share their memory, and copies in float64 would not",
    )


# The first line that differs


def test_the_line_behind_a_break_is_found_and_which_call_of_it() -> None:
    found, first = bisected(INFERENCE, wrong("relu in a loop", wrong_for_20))
    assert found.passed is False
    assert (found.first_operator, found.first_graph) == ("torch.relu", "1/0")
    assert found.first[-1].path == __file__
    assert found.first[-1].line == line_of("relu in a loop")
    assert f"at {Path(__file__).name}:{line_of('relu in a loop')} (call 2 of 3 there)" in found.why
    assert first.words.endswith("of graph 2 of 2, compiled by itself as well")
    assert first.trials < 15


def test_an_operator_that_is_wrong_only_with_others_is_told_with_them() -> None:
    found, _ = bisected(TRAINING, wrong("last relu", together_with="sum"))
    assert "compiled by itself it is right, the smallest stretch that differs is where the" in found.why
    assert f"from torch.relu at {Path(__file__).name}:{line_of('last relu')} to sum at" in found.why


def short(x: torch.Tensor) -> torch.Tensor:
    x = x.sin() + 0.5
    x = torch.relu(x)  # relu in the middle
    return x.cos() * 2


def test_the_trials_end_and_it_says_so() -> None:
    build, backend = builder(lambda: short, X), wrong("relu in the middle")
    full = bisected(build, backend)[1]
    assert full.words.endswith("compiled by itself as well")
    for trials in (3, full.trials - 2):
        found = bisected(build, backend, trials=trials)[1]
        assert found.trials == trials
        assert found.words.startswith("the first line that differs is the ")
        assert found.words.endswith(f"the bisection ended after {trials} trials, at its limit")
        assert not found.stack
    found = bisected(build, backend, trials=full.trials - 1)[1]
    assert (found.stack, found.operator) == (full.stack, full.operator)
    assert found.words.endswith("there was no time to compile it by itself")
    assert bisected(build, backend, seconds=0.0)[1].trials == 0


def test_a_stretch_that_does_not_compile_by_itself_is_left_out() -> None:
    inner = wrong("last relu")

    def choosy(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        names = {str(node.target) for node in gm.graph.nodes}
        if "sin" in names and "sum" not in names:
            raise ValueError("only as a whole")
        return inner(gm, inputs)

    found, first = bisected(INFERENCE, choosy)
    assert found.passed is False
    assert not first.stack
    assert "parts of it alone raised BackendCompilerFailed: " in first.words


def normalised(x: torch.Tensor, eps: float) -> torch.Tensor:
    x = torch.relu(x - 0.5)  # relu before a float
    return torch.nn.functional.layer_norm(x, (8,), eps=eps) + x


def test_a_graph_that_is_captured_twice_is_one_graph() -> None:
    """Where a dynamic float has to be fixed to its value, the backend has Dynamo capture the frame again."""
    build = builder(lambda: normalised, X, 0.1)
    captures: list[int] = []

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        captures.append(len(gm.graph.nodes))
        wrong("relu before a float")(gm, inputs)
        return AOT_EAGER(gm, inputs)

    def run(tried: cutting.Backend) -> Results:
        prepared = build()
        return of_call(prepared, torch.compile(prepared.function, backend=tried, dynamic=True))

    judge = functools.partial(accuracy.judge, eager=eager(build), float64=None, training=False)
    first = bisection.find_first(run, backend, judge, trials=1)
    assert len(captures) == 2, "nothing was captured twice: this tests nothing"
    first = bisection.find_first(run, backend, judge)
    place = f"{Path(__file__).name}:{line_of('relu before a float')}"
    assert (
        first.words == f"the first operator that differs is torch.relu at {place}, compiled by itself as well"
    )


def test_a_wrong_capture_is_not_blamed_on_the_backend() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_compiling() else x

    first = bisected(builder(lambda: function, torch.ones(3)), cutting_nothing)[1]
    assert "the capture is wrong" in first.words


def test_a_target_that_keeps_something_between_calls_is_not_bisected() -> None:
    kept: list[torch.Tensor] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return x * len(kept)

    first = bisected(builder(lambda: function, torch.ones(3)), cutting_nothing)[1]
    assert "the target keeps something between calls" in first.words


def test_a_failure_that_does_not_come_again_is_told() -> None:
    first = bisected(INFERENCE, cutting_nothing)[1]
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
    """Values that may not cross a cut, and regions that a cut may lie in."""

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
            cuts = cutting.read_captured(gm).cuts
            return cutting.compile_stretch(gm, inputs, AOT_EAGER, cuts[index], cuts[index + 1])

        torch.compiler.reset()
        found = accuracy.judge(compiled(build, backend), expected, None, training=True)
        assert found.passed is True, (cuts[index], found.why)
        if index + 2 == len(cuts):
            break
    assert len(cuts) > 10
    assert index + 2 == len(cuts)


AOT_EAGER: cutting.Backend = torch._dynamo.lookup_backend("aot_eager")


def rounding_late(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compute in float32 and round at the end, as a fused kernel does."""
    del inputs

    def run(*given: torch.Tensor) -> list[torch.Tensor]:
        return [one.bfloat16() for one in gm(*(one.float() for one in given))]

    return run


def scores(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax((x * 3).exp().log1p() / 7, -1) * x


def test_the_rounding_of_bfloat16_passes_and_an_error_does_not() -> None:
    build = builder(lambda: scores, torch.arange(4096).mul(0.7).sin().reshape(64, 64).bfloat16())
    found = judged(build, rounding_late)
    error = found.tensors[0].relative
    assert (found.passed, found.against, found.tolerance) == (True, "float64", 1e-4)
    assert error is not None
    assert error > 1e-3, "no rounding: this tests nothing"
    exact, _ = reference.float64_results(build)
    expected = eager(build)
    off = replace(expected.values[0], tensor=expected.values[0].tensor * 1.05)
    wrong_result = accuracy.judge(replace(expected, values=(off,)), expected, exact, training=False)
    assert wrong_result.passed is False
    assert "root mean square error" in wrong_result.why


def positive_part(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)  # inductor's relu


def test_a_wrong_kernel_of_inductor_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bug that torch builds into its relu for tests of its own."""
    monkeypatch.setenv(
        "TORCHINDUCTOR_CACHE_DIR", str(tmp_path)
    )  # or an earlier run's graph comes without kernels
    compilation = Compilation(find("cpu"), options={"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"})
    build = builder(lambda: positive_part, torch.linspace(-4, 4, 64))
    torch.compiler.reset()
    judge = functools.partial(accuracy.judge, eager=eager(build), float64=None, training=False)
    verdict_ = judge(compiled(build, compilation))
    assert verdict_.passed is False
    generated = tuple(compilation.graphs)
    first = bisection.find_first(functools.partial(compiled, build), compilation.unheard, judge)
    found = bisection.with_first(verdict_, first, generated)
    assert [(place.path, place.line) for place in found.first] == [(__file__, line_of("inductor's relu"))]
    assert (found.first_operator, found.first_graph) == ("torch.relu", generated[0].compile_id)
    assert found.first_kernel == generated[0].kernels[0].name
    assert first.words.endswith(f"torch.relu at {Path(__file__).name}:{found.first[-1].line}")

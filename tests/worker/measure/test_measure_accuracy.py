# ruff: noqa: FBT001 - the columns of a table
"""The results of a call, and whether they are correct."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch._inductor.compile_fx
from torch.nn import functional

from fuselight.capture.calls.calls import Prepared
from fuselight.measure.accuracy import RANDOM, STATE, reference, results, rules
from fuselight.measure.accuracy.held_numbers import as_captured, hold_numbers
from fuselight.measure.accuracy.results import CallResults
from fuselight.shared.inputs import Options
from fuselight.shared.report import Work
from tests.support.compared_calls import TRAINING, accuracy_of, builder, eager, returned, verdict

pytestmark = [
    pytest.mark.torch,
    # Dynamo asks an activation for its gradient, where a graph begins with one.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]


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
    tensor = torch.ones(2)
    call_results = returned(
        [
            Output(tensor, (tensor, tensor), cache=object()),
            {"logits": tensor, "two words": 3, 7: True},
            Pair(tensor, 0.5),
            None,
            "text",
            torch.eye(2).to_sparse(),
            tensor.as_subclass(Tagged),
            1 << 80,
        ]
    )
    assert [(value.name, value.dtype) for value in call_results.values] == [
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
    assert [word.split(":")[0] for word in call_results.skipped] == [
        "output[0].cache",
        "output[6]",
        "output[7]",
    ]
    assert call_results.skipped[1] == "output[6]: a Tagged, a subclass of Tensor"


def test_they_are_the_same_in_another_process(tmp_path: Path) -> None:
    call_results = replace(
        returned((torch.tensor([1 + 2j, math.nan]), torch.ones(3, dtype=torch.bfloat16), 2.5)),
        skipped=("x: y",),
        device="cuda",
    )
    call_results.save(str(tmp_path / "results.pt"))
    read = results.load(str(tmp_path / "results.pt"))
    assert (read.skipped, read.device) == (call_results.skipped, call_results.device)
    for value, two in zip(read.values, call_results.values, strict=True):
        assert (value.name, value.dtype, value.shape) == (two.name, two.dtype, two.shape)
        assert torch.equal(value.tensor.nan_to_num(), two.tensor.nan_to_num())


def test_a_large_tensor_is_sampled_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_ELEMENTS", 64)
    large = torch.arange(1000.0)
    wrong = large.clone()
    kept = returned(large).values[0]
    wrong[int(kept.tensor[5])] = -1
    assert (kept.sampled, kept.shape, kept.tensor.numel()) == (True, (1000,), 64)
    right = verdict(large.clone(), large, large.double())
    assert (right.passed, right.why) == (True, "of output a sample was compared (64 of 1000 elements)")
    assert verdict(wrong, large, large.double()).passed is False


def test_many_tensors_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_ALL_ELEMENTS", 100)
    call_results = returned([torch.ones(90), torch.ones(90), torch.ones(4)])
    assert sum(value.tensor.numel() for value in call_results.values) <= 100
    assert [value.sampled for value in call_results.values] == [True, True, False]


# Whether it is right


def test_a_function_that_returns_nothing_is_not_compared() -> None:
    for value in (None, "text", object()):
        accuracy = verdict(value, value)
        assert accuracy.passed is None
        assert accuracy.why.startswith("the function returns no tensor")
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
def test_a_failure_is_explained(ours: Any, theirs: Any, words: str) -> None:
    accuracy = verdict(ours, theirs)
    assert accuracy.passed is False
    assert accuracy.why.startswith(words)


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
def test_equal_results_pass(value: torch.Tensor) -> None:
    accuracy = verdict(value.clone(), value)
    assert (accuracy.passed, accuracy.compared) == (True, 1)


def test_a_matching_nan_excuses_no_other_element() -> None:
    ours, theirs = torch.full((50,), 2.0), torch.full((50,), 1.0)
    ours[0] = theirs[0] = math.nan
    assert verdict(ours, theirs, theirs.double()).passed is False


def test_a_more_accurate_result_than_eagers_passes() -> None:
    ours, theirs = torch.tensor([1.0, 2.0]).half(), torch.tensor([1.0, math.inf]).half()
    assert verdict(ours, theirs, torch.tensor([1.0, 2.0], dtype=torch.float64)).passed is True
    assert verdict(ours, theirs, torch.tensor([1.0, 3.0], dtype=torch.float64)).passed is False


def test_errors_are_against_float64_and_the_worst_comes_first() -> None:
    exact = [torch.tensor([1.0, 0.0, 4.0], dtype=torch.float64)] * 30
    theirs = [tensor.float() for tensor in exact]
    ours = [tensor.float() for tensor in exact]
    ours[7] = torch.tensor([1.0, 0.5, 3.0])
    accuracy = verdict(ours, theirs, exact)
    worst = accuracy.tensors[0]
    assert (accuracy.passed, accuracy.against, accuracy.compared, len(accuracy.tensors)) == (
        False,
        "float64",
        30,
        20,
    )
    assert (worst.what, worst.passed, worst.absolute, worst.relative) == ("output[7]", False, 1.0, 0.25)
    assert worst.cosine == pytest.approx(13 / math.sqrt(17 * 10.25))
    assert all(tensor.passed for tensor in accuracy.tensors[1:])


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
    dtypes: Sequence[torch.dtype], training: bool, device: str, tolerance: float
) -> None:
    call_results = replace(returned([torch.ones(1, dtype=dtype) for dtype in dtypes]), device=device)
    assert rules.tolerance_of(call_results, training=training) == tolerance


# Whole calls


def test_all_results_of_a_training_step_are_compared() -> None:
    call_results = eager(TRAINING, Work.TRAINING_STEP)
    names = [value.name for value in call_results.values]
    parameters = ["first.weight", "first.bias", "norm.weight", "norm.bias", "last.weight", "last.bias"]
    assert names == [
        "output",
        *(f"gradient of {name}" for name in parameters),
        *(f"parameter {name}, changed in place" for name in parameters),
        *(f"buffer norm.{name}, changed in place" for name in ("running_mean", "running_var")),
        "buffer norm.num_batches_tracked, changed in place",
    ]
    verdict_ = accuracy_of(TRAINING, "aot_eager", Work.TRAINING_STEP)
    assert (verdict_.passed, verdict_.why, verdict_.against) == (True, "", "float64")
    assert verdict_.compared == len(names)


def test_a_function_is_trained_through_its_inputs() -> None:
    def function(x: torch.Tensor, y: dict[str, torch.Tensor]) -> torch.Tensor:
        return x * y["a"] + y["b"]

    inputs = (torch.ones(3), {"a": torch.ones(3), "b": torch.tensor([1, 2, 3])})
    call_results = eager(builder(lambda: function, *inputs, train=True))
    assert [value.name for value in call_results.values] == [
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
    assert accuracy_of(build, "aot_eager").passed is True
    assert accuracy_of(builder(lambda: lambda x: x[1:], torch.ones(3)), "aot_eager").passed is True


def test_a_lost_in_place_change_is_found_without_a_return_value() -> None:
    def function(x: torch.Tensor) -> None:
        x.mul_(2)

    def losing(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        del gm, inputs
        return lambda *_: ()

    build = builder(lambda: function, torch.ones(3))
    assert accuracy_of(build, "eager").passed is True
    accuracy = accuracy_of(build, losing)
    assert (accuracy.passed, accuracy.why) == (
        False,
        "eager gives input 0, changed in place, and this does not",
    )


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

    assert reference.varies(builder(Counting, torch.ones(100), train=True)) == RANDOM
    assert not reference.varies(builder(Counting, torch.ones(100)))
    assert reference.varies(builder(lambda: lambda: torch.rand(3))) == RANDOM
    accuracy = rules.varying(RANDOM)
    assert accuracy.passed is None
    assert "draw the numbers outside" in accuracy.why
    assert "set the dropout to 0" in rules.varying(RANDOM, ["dropout"]).why


class Dropping(torch.nn.Module):
    """A model with every kind of dropout whose random numbers can be held."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(self.first(x).relu(), 0.25)
        x = functional.scaled_dot_product_attention(x, x, x, dropout_p=0.3)
        x = functional.scaled_dot_product_attention(x, x, x, None, 0.3, *[True])
        return functional.dropout(self.last(x) * 2, p=0.5, inplace=True)


@pytest.mark.corpora
def test_numbers_that_are_held_are_the_same_in_eager_and_compiled_code() -> None:
    def call(backend: Callable[..., Any], seed: int = 0) -> CallResults:
        def held(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            hold_numbers(gm)
            function: Callable[..., Any] = backend(gm, inputs)
            return function

        torch.compiler.reset()
        torch.manual_seed(7)
        module = torch.compile(Dropping(), backend=held)
        return results.of_call(
            Prepared(module, (torch.rand(2, 8, 16),), {}, Options(train=True)), module, seed=seed
        )

    eager, other_seed = call(as_captured), call(as_captured, seed=1)
    assert any(bool((value.tensor == 0).any()) for value in eager.values if value.name == "output")
    assert not rules.is_random(eager, other_seed)
    verdict = rules.compare_results(call(torch._inductor.compile_fx.compile_fx), eager, None, training=True)
    assert verdict.passed, verdict.why
    assert verdict.compared == 5, "the output and four gradients"


def test_state_between_calls_is_distinguished_from_random_numbers() -> None:
    kept = []

    def counts(x: torch.Tensor) -> torch.Tensor:
        kept.append(1)
        return x + len(kept)

    assert reference.varies(builder(lambda: counts, torch.ones(3))) == STATE
    assert "keeps state" in rules.varying(STATE).why


# In float64


def test_another_result_in_float64_excuses_nothing() -> None:
    theirs, ours = torch.ones(8), torch.full((8,), 1.5)
    other = torch.full((8,), 3.0, dtype=torch.float64)
    assert verdict(ours, theirs, other).why.startswith("output differs (another length;")
    right = verdict(theirs.clone(), theirs, other)
    assert (right.passed, right.against) == (True, "eager")
    assert "the call in float64 gives another output, off by 2" in right.why


def test_the_reference_is_all_in_float64() -> None:
    call_results, why = reference.float64_results(TRAINING)
    assert call_results is not None
    assert why == ""
    gradients = [value for value in call_results.values if value.name.startswith("gradient")]
    assert {value.tensor.dtype for value in gradients} == {torch.float64}
    complex_call = builder(lambda: torch.fft.ifft, torch.ones(4, dtype=torch.complex64))
    spectrum, _ = reference.float64_results(complex_call)
    assert spectrum is not None
    assert spectrum.values[0].tensor.dtype == torch.complex128


LAYER = torch.nn.Linear(3, 3).requires_grad_(False)  # noqa: FBT003


def through_a_global(x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = LAYER(x)
    return out


def test_a_module_that_a_function_names_is_doubled_as_well() -> None:
    call_results, why = reference.float64_results(builder(lambda: through_a_global, torch.ones(3)))
    LAYER.float()
    assert why == ""
    assert call_results is not None
    assert call_results.values[0].tensor.dtype == torch.float64


def test_without_a_reference_the_cosine_decides_and_the_reason_is_given() -> None:
    weight = torch.ones(3, 3)
    build = builder(lambda: lambda x: x @ weight, torch.ones(2, 3))
    call_results, why = reference.float64_results(build)
    assert call_results is None
    assert why.startswith("the target does not run in float64: RuntimeError: expected")
    verdict_ = accuracy_of(build, "eager")
    assert (verdict_.passed, verdict_.against) == (True, "eager")
    assert verdict_.why.startswith("there is no float64 result (the target does not run in float64")
    assert verdict_.why.endswith("compared with eager by cosine similarity (0.99 or more) and length")
    shared = torch.ones(4)
    prepared = Prepared(torch.add, (shared[:2], shared[2:]), {})
    assert reference.float64_results(lambda: prepared) == (
        None,
        "inputs share their memory, and copies in float64 would not",
    )

"""Which kernels for a multiplication are timed, of those that Inductor offers for an H100."""

from __future__ import annotations

import importlib.util
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.choices.promising_kernels import (
    Gpu,
    Multiplication,
    expected_us,
    promising,
)
from fuselight.adapters.virtual_gpu import autotune_choices
from fuselight.capture.inductor import Generation
from fuselight.shared.devices import find

pytestmark = pytest.mark.torch
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="this environment has no Triton"
)
MAX = 6
H100, SMALL = Gpu(132, 227 * 1024, warp_groups=True), Gpu(20, 99 * 1024, warp_groups=False)


@dataclass
class Offered:
    """The choices of one operator, and those that are worth timing."""

    every: list[Any]
    kept: list[Any]

    def kinds(self, choices: list[Any]) -> Counter[str]:
        return Counter(type(choice).__name__ for choice in choices)


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[Offered]:
    offered_choices: list[Offered] = []
    real: Any = autotune_choices._choosing

    def choosing(observed: Any) -> Callable[..., Any]:
        choose = real(observed)

        def record(select: Any, self: Any, name: str, choices: Any, *args: Any, **named: Any) -> Any:
            every = list(choices)
            offered_choices.append(Offered(every, promising(every, args[0], args[1], MAX)))
            return choose(select, self, name, every, *args, **named)

        return record

    monkeypatch.setattr(autotune_choices, "_choosing", choosing)
    return offered_choices


def generate(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    device = find("h100-sxm")
    assert device is not None
    generation = Generation(device)
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(function, backend=generation, options={"max_autotune_gemm": True})(*inputs)
    assert [graph.failure for graph in generation.graphs] == [None]


def half(*sizes: int) -> torch.Tensor:
    return torch.zeros(*sizes, dtype=torch.bfloat16)


def setting(choice: Any, name: str) -> int:
    match = re.search(rf"\b{name}=(\d+)", str(choice.description))
    assert match, choice.description
    return int(match[1])


OPERATORS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "mm": (torch.mm, (half(64, 4096), half(4096, 1024))),
    "addmm": (torch.addmm, (half(1024), half(512, 512), half(512, 1024))),
    "bmm": (torch.bmm, (half(8, 128, 256), half(8, 256, 128))),
    "float32": (torch.mm, (torch.zeros(256, 512), torch.zeros(512, 256))),
    "convolution": (torch.conv2d, (half(8, 64, 28, 28), half(128, 64, 3, 3))),
    "grouped": (
        lambda images, weight: torch.conv2d(images, weight, groups=4),
        (half(8, 64, 28, 28), half(64, 16, 3, 3)),
    ),
}


@needs_triton
@pytest.mark.filterwarnings("ignore:TensorFloat32")
@pytest.mark.parametrize("name", OPERATORS)
def test_candidates_of_the_library_are_kept_and_some_of_each_template(
    name: str, offered: list[Offered]
) -> None:
    function, inputs = OPERATORS[name]
    generate(function, *inputs)
    (offered_choices,) = offered
    every, kept = offered_choices.kinds(offered_choices.every), offered_choices.kinds(offered_choices.kept)
    assert kept["TritonTemplateCaller"] == MAX < every["TritonTemplateCaller"]
    assert kept["ExternKernelCaller"] == every["ExternKernelCaller"] > 0
    assert [
        choice for choice in offered_choices.every if choice in offered_choices.kept
    ] == offered_choices.kept, "in their order"


@needs_triton
def test_two_of_those_that_split_what_is_summed_are_kept(offered: list[Offered]) -> None:
    generate(torch.mm, half(192, 24576), half(24576, 196))
    (offered_choices,) = offered
    splits = [choice for choice in offered_choices.every if "k_split" in str(choice.description)]
    kept = [setting(choice, "k_split") for choice in offered_choices.kept if choice in splits]
    assert len(kept) == 2 < len(splits)
    assert max(kept) < 24576 // 16, "the sum of the parts takes time, too"


@needs_triton
@pytest.mark.corpora  # what is kept is chosen by `expected_us`, as for the other multiplications
def test_a_thin_multiplication_keeps_kernels_with_many_loads_under_way(offered: list[Offered]) -> None:
    generate(torch.mm, half(64, 4096), half(4096, 4096))
    (offered_choices,) = offered
    kept = [
        choice
        for choice in offered_choices.kept
        if hasattr(choice, "bmreq") and "BLOCK_M" in str(choice.description)
    ]
    assert all(setting(choice, "BLOCK_K") >= 64 for choice in kept)
    assert max(setting(choice, "num_stages") for choice in kept) == max(
        setting(choice, "num_stages")
        for choice in offered_choices.every
        if "num_stages" in str(choice.description)
    )


def us(
    work: Multiplication, rows: int, columns: int, depth: int, stages: int, *, on: Gpu = H100, **more: Any
) -> float:
    tile = {"BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": depth, "num_stages": stages, "num_warps": 4}
    return expected_us(work, {**tile, **more}, on)


THIN, LARGE = Multiplication(1, 64, 4096, 4096, 2), Multiplication(1, 4096, 4096, 4096, 2)


def test_more_loads_under_way_are_faster_where_memory_is_the_limit() -> None:
    assert us(THIN, 64, 64, 64, 5) < us(THIN, 64, 64, 64, 3) < us(THIN, 64, 64, 64, 2)
    assert us(THIN, 64, 32, 128, 5) < us(THIN, 64, 32, 32, 5)


def test_large_tiles_are_faster_where_the_tensor_cores_are_the_limit() -> None:
    assert us(LARGE, 128, 128, 64, 4) < us(LARGE, 64, 64, 64, 4) < us(LARGE, 32, 32, 64, 4)


def test_what_is_fast_depends_on_the_number_of_multiprocessors() -> None:
    work = Multiplication(1, 1024, 1024, 1024, 4)
    assert us(work, 64, 64, 32, 3) < us(work, 128, 128, 32, 3), "64 tiles leave half of an H100 without work"
    assert us(work, 64, 64, 32, 3, on=SMALL) > us(work, 128, 128, 32, 3, on=SMALL)


def test_the_time_grows_with_the_work() -> None:
    for more in (
        Multiplication(8, 4096, 4096, 4096, 2),
        Multiplication(1, 8192, 4096, 4096, 2),
        Multiplication(1, 4096, 8192, 4096, 2),
        Multiplication(1, 4096, 4096, 8192, 2),
        Multiplication(1, 4096, 4096, 4096, 4),
    ):
        assert us(more, 128, 128, 32, 3) > us(LARGE, 128, 128, 32, 3)
    exact = Multiplication(1, 4096, 4096, 4096, 4)
    assert us(exact, 128, 128, 32, 3, ALLOW_TF32="True") < us(exact, 128, 128, 32, 3)


def test_what_needs_too_much_shared_memory_comes_last() -> None:
    assert us(LARGE, 128, 128, 64, 4) < us(LARGE, 128, 128, 128, 4) == math.inf
    assert us(LARGE, 128, 128, 64, 4, on=SMALL) < us(LARGE, 128, 128, 64, 5, on=SMALL) == math.inf
    exact = Multiplication(1, 4096, 4096, 4096, 4)
    assert us(exact, 128, 128, 64, 4) < us(exact, 128, 128, 64, 5) == math.inf


def test_only_float32_is_faster_with_tf32() -> None:
    assert us(LARGE, 128, 128, 64, 4, ALLOW_TF32="True") == us(LARGE, 128, 128, 64, 4)


def test_a_window_is_summed_piece_by_piece() -> None:
    whole = Multiplication(1, 4096, 4096, 9 * 48, 2)
    assert us(replace(whole, pieces=9), 128, 128, 64, 3) > us(whole, 128, 128, 64, 3)
    assert us(replace(whole, pieces=9), 128, 128, 16, 3) == us(whole, 128, 128, 16, 3)


class Operand:
    """An input of an operator, as Inductor's selection has it."""

    def __init__(self, *size: int, dtype: torch.dtype = torch.bfloat16) -> None:
        self.get_size = lambda: list(size)
        self.get_dtype = lambda: dtype


TILE = "BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, num_stages=3, num_warps=4"


@pytest.fixture
def on_an_h100(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuselight.adapters.torch_api.choices.promising_kernels._gpu", lambda _: H100)
    monkeypatch.setattr("fuselight.adapters.torch_api.choices.promising_kernels.lowered_hint", math.prod)


def result(*size: int) -> Any:
    return SimpleNamespace(dtype=torch.bfloat16, device=torch.device("cuda"), size=list(size))


def nine(name: str, description: str = TILE) -> list[Any]:
    return [SimpleNamespace(name=f"triton_{name}_{number}", description=description) for number in range(9)]


@pytest.mark.usefixtures("on_an_h100")
def test_what_has_no_estimate_is_left_to_inductor() -> None:
    choices = [
        SimpleNamespace(name="mm", description=""),
        SimpleNamespace(name="triton_scan_1"),
        SimpleNamespace(name="triton_mm_2", description="BLOCK_M=64, BLOCK_N=64"),
    ]
    assert promising(choices, [Operand(4), Operand(4)], result(4, 4), 0) == choices
    assert promising(choices, [], result(4, 4), 0) == choices


SCALED = [Operand(256, 512), Operand(512, 256)]


@pytest.mark.usefixtures("on_an_h100")
@pytest.mark.parametrize(
    "scales",
    [[Operand(256, 1), Operand(1, 256)], [Operand(256, 4), Operand(4, 2)], [Operand(), Operand()]],
    ids=["rows", "blocks", "whole"],
)
def test_of_a_multiplication_with_scales_all_are_kept(scales: list[Operand]) -> None:
    choices = nine("scaled_mm")
    assert promising(choices, SCALED + scales, result(256, 256), MAX) == choices
    assert promising(choices, SCALED, result(256, 256), MAX) == choices[:MAX]


@pytest.mark.usefixtures("on_an_h100")
def test_gradients_of_convolutions_are_all_kept() -> None:
    nodes, window = [Operand(8, 64, 28, 28), Operand(128, 64, 3, 3)], f"{TILE}, GROUPS=1, KERNEL_H=3"
    for name, count in (("convolution2d", MAX), ("convolution2d_bwd_weight", 9)):
        assert len(promising(nine(name, window), nodes, result(8, 128, 28, 28), MAX)) == count


KERNELS = (
    (16, 32, 32, 1, 2), (128, 32, 32, 2, 4), (32, 32, 64, 5, 8), (32, 64, 32, 5, 8), (128, 64, 32, 5, 4),
    (16, 64, 64, 2, 4), (32, 64, 64, 2, 4), (64, 64, 64, 3, 8), (128, 64, 64, 5, 4), (32, 64, 128, 3, 4),
    (32, 64, 128, 4, 8), (64, 64, 128, 3, 4), (128, 64, 128, 4, 4), (32, 128, 64, 3, 4), (32, 128, 64, 4, 8),
    (32, 128, 128, 2, 8), (32, 128, 128, 3, 4), (64, 128, 128, 3, 4), (64, 128, 128, 5, 8),
)  # fmt: skip
"""BLOCK_K, BLOCK_M, BLOCK_N, stages and warps of the kernels that torch 2.7 to 2.11 offer for half precision."""


@pytest.mark.usefixtures("on_an_h100")
@pytest.mark.parametrize(
    ("m", "n", "k", "fastest"),
    [
        (128, 12288, 4096, (64, 128, 128, 5, 8)),
        (128, 4096, 4096, (128, 64, 64, 5, 4)),
        (128, 22016, 4096, (64, 64, 128, 3, 4)),
        (128, 4096, 11008, (128, 64, 64, 5, 4)),
        (128, 32000, 4096, (64, 128, 128, 5, 8)),
        (64, 12288, 4096, (128, 64, 128, 4, 4)),
        (64, 4096, 4096, (128, 64, 32, 5, 4)),
    ],
)
def test_the_fastest_of_published_autotuning_logs_is_kept(
    m: int, n: int, k: int, fastest: tuple[int, ...]
) -> None:
    """The logs are those of a language model of 7 billion parameters on a GPU with the bandwidth of an H100."""
    names = ("BLOCK_K", "BLOCK_M", "BLOCK_N", "num_stages", "num_warps")
    offered = [kernel for kernel in KERNELS if kernel[1] <= m]
    choices = [
        SimpleNamespace(
            name=f"triton_mm_{number}",
            tile=entry,
            description=", ".join(f"{name}={value}" for name, value in zip(names, entry, strict=True)),
        )
        for number, entry in enumerate(offered)
    ]
    kept = promising(choices, [Operand(m, k), Operand(k, n)], result(m, n), MAX)
    assert fastest in [value.tile for value in kept]
    assert len(kept) == MAX < len(offered)

"""Symbolic numbers in kernels for an absent device: a float of the program, a size in a float.

Each kernel's text is held to the form that the H200's own compile gives it (docs/fidelity.md).
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from fuselight.capture.inductor import Generation
from fuselight.shared.devices import find

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def texts(function: Callable[..., Any], *args: Any) -> list[str]:
    """The wrappers, forward first, of a function that is compiled with dynamic sizes."""
    device = find("h200")
    assert device is not None
    generation = Generation(device)
    torch.compile(function, backend=generation, dynamic=True)(*args)
    assert [graph.failure for graph in generation.graphs] == [None] * len(generation.graphs)
    return [generation.texts[graph.text_key] for graph in generation.graphs if graph.text_key is not None]


def takes(text: str) -> str:
    """The argument types of the kernels of a wrapper."""
    return " ".join(re.findall(r"'signature': \{(.*?)\}", text))


def test_a_float_of_the_program_is_passed_by_value() -> None:
    def shifted(x: torch.Tensor, eps: float) -> torch.Tensor:
        return torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * x

    (text,) = texts(shifted, torch.randn(8, 32), 0.125)
    assert "'fp64'" in takes(text)
    assert "'*fp64'" not in takes(text)


def test_a_float_is_passed_by_value_in_forward_and_backward() -> None:
    def scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
        return (x.sin() * scale).sum()

    forward, backward = texts(scaled, torch.randn(8, 32, requires_grad=True), 0.375)
    for text in (forward, backward):
        assert re.search(r"'in_ptr\d': 'fp", takes(text))
        assert "'*fp64'" not in takes(text)


def test_a_tensor_without_dimensions_is_not_taken_for_a_float() -> None:
    def scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x * scale

    (text,) = texts(scaled, torch.randn(8, 32), torch.tensor(2.0))
    assert "'fp64'" not in takes(text)
    assert takes(text).count("'*fp32'") == 3


def test_a_size_that_a_decomposition_divides_by_is_a_number_in_the_kernel() -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.smooth_l1_loss(x, torch.zeros_like(x))

    _, backward = texts(loss, torch.randn(6, 10, requires_grad=True))
    assert re.search(r"= \(?ks0\*ks1\)?(\.to\(tl\.\w+\))?\n", backward)


def test_a_float_that_becomes_a_size_is_captured_again_as_a_number() -> None:
    def larger(x: torch.Tensor, factor: float) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=factor) + 1

    (text,) = texts(larger, torch.randn(2, 3, 8, 8), 2.0)
    assert "async_compile.triton(" in text


def test_sizes_are_expressed_as_before_decomposition() -> None:
    # ATen multiplies a group's sizes; what the first normalization gives has them as `s` and `s**2 // s`.
    model = torch.nn.Sequential(torch.nn.GroupNorm(4, 8), torch.nn.SiLU(), torch.nn.GroupNorm(4, 8))
    with torch.no_grad():
        (text,) = texts(model, torch.randn(2, 8, 16, 16))
    assert re.search(
        r"= \(?2\*ks(\d)\*(?:ks(?!\1)\d|\(\(ks\1\*ks\1\) // ks\1\))\)?(\.to\(tl\.\w+\))?\n", text
    )

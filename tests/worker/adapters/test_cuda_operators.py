"""Operators that have an implementation for CUDA only, on tensors of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.cuda_operators import cuda_operators_on_cpu

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, tensors are on it"),
]


@pytest.fixture
def library() -> Iterator[Any]:
    make: Any = torch.library.Library
    fragment = make("fuselight_made", "FRAGMENT")
    yield fragment
    fragment._destroy()


def test_an_implementation_for_cuda_is_used_on_the_cpu(library: Any) -> None:
    with cuda_operators_on_cpu():
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CUDA")

        @torch.library.custom_op("fuselight_made::thrice", mutates_args=(), device_types="cuda")
        def thrice(x: torch.Tensor) -> torch.Tensor:
            return x * 3

        x = torch.ones(2)
        assert torch.ops.fuselight_made.twice(x).tolist() == [2, 2]
        assert thrice(x).tolist() == [3, 3]
    with pytest.raises(NotImplementedError):
        torch.ops.fuselight_made.twice(x)


def test_an_implementation_for_the_cpu_comes_first(library: Any) -> None:
    with cuda_operators_on_cpu():
        for name, key in (("before", "CPU"), ("any_device", "CompositeExplicitAutograd")):
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, lambda x: x + 1, key)
            library.impl(name, lambda x: x + 10, "CUDA")
            assert getattr(torch.ops.fuselight_made, name)(torch.zeros(1)).tolist() == [1]
        library.define("later(Tensor x) -> Tensor")
        library.impl("later", lambda x: x + 10, "CUDA")
        library.impl("later", lambda x: x + 1, "CPU", allow_override=False)
        assert torch.ops.fuselight_made.later(torch.zeros(1)).tolist() == [1]

"""Operators that have an implementation for CUDA only, on tensors of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from fuselight.adapters.torch_api.cuda_operators import (
    cuda_operators_on_cpu,
    function_of,
    implementations_on_fake_tensors,
)

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


def test_an_implementation_runs_on_fake_tensors_where_that_is_asked(library: Any) -> None:
    ran: list[tuple[str, bool]] = []
    failures: list[tuple[str, str, str]] = []
    with cuda_operators_on_cpu():

        @torch.library.custom_op("fuselight_made::doubled", mutates_args=())
        def doubled(x: torch.Tensor) -> torch.Tensor:
            ran.append(("doubled", isinstance(x, FakeTensor)))
            return torch.empty(1)

        @torch.library.custom_op("fuselight_made::asks", mutates_args=("x",))
        def asks(x: torch.Tensor) -> None:
            x.mul_(x.sum().item())

        doubled.register_fake(torch.empty_like)

        def plain(x: torch.Tensor) -> torch.Tensor:
            ran.append(("plain", isinstance(x, FakeTensor)))
            return x.clone()

        library.define("plain(Tensor x) -> Tensor")
        library.impl("plain", plain, "CUDA")
        torch.library.register_fake("fuselight_made::plain", torch.empty_like, lib=library)
        with FakeTensorMode():
            x = torch.empty(1 << 40)
            doubled(x)
            assert ran == []

            def failed(operator: str, implementation: Any, error: Exception) -> None:
                failures.append(
                    (operator, function_of(operator, implementation).__name__, type(error).__name__)
                )

            with implementations_on_fake_tensors(failed):
                assert doubled(x).shape == x.shape
                assert torch.ops.fuselight_made.plain(x).shape == x.shape
                asks(x)
            doubled(x)
    assert ran == [("doubled", True), ("plain", True)]
    assert failures == [("fuselight_made::asks", "asks", "DataDependentOutputException")]

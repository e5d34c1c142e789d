"""On a GPU: frozen weights are no inputs of CUDA graphs, so that a call copies none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

from fuselight.capture.calls.present_device import present_device
from fuselight.measure.compile_configuration import configured
from fuselight.replay.preparation import prepared_inductor
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.report import Preparation

pytestmark = [pytest.mark.torch, pytest.mark.gpu]
LAYERS = 12
GRAPHS = {"triton.cudagraphs": True}


class Counted(torch.nn.Module):
    """Layers with weights, and a buffer that each call changes."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(LAYERS)))
        self.register_buffer("calls", torch.zeros(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        tensor: torch.Tensor = torch.relu(self.layers(x)) + self.calls
        return tensor


@pytest.fixture
def model() -> Counted:
    torch.manual_seed(0)
    torch._dynamo.reset()
    return Counted().cuda().eval()


def copies(run: Callable[[], Any]) -> int:
    """Tensors that one call copies on the device, of those that a recorded CUDA graph has as inputs.

    CUDA graph trees copy them with one function, which uses one kernel for many small tensors; a profile has the copies
    of large ones.
    """
    original = torch._foreach_copy_
    by_function = 0

    def counting(to: list[torch.Tensor], *rest: Any, **named: Any) -> None:
        nonlocal by_function
        by_function += len(to)
        original(to, *rest, **named)

    with torch.no_grad():
        for _ in range(4):
            run()
        torch.cuda.synchronize()
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with (
            mock.patch.object(torch, "_foreach_copy_", counting),
            torch.profiler.profile(activities=kinds) as profile,
        ):
            run()
            torch.cuda.synchronize()
    return max(by_function, sum("Memcpy DtoD" in event.name for event in profile.events() or ()))


def test_no_weight_is_copied_and_results_are_those_of_eager(model: Counted) -> None:
    messages: list[str] = []
    x = torch.randn(32, 64, device="cuda")
    backend = prepared_inductor(Preparation(), None, {**GRAPHS, "freezing": True}, say=messages.append)
    run = torch.compile(model, backend=backend)
    assert copies(lambda: run(x)) == 1  # the input
    with torch.no_grad():
        model.calls.zero_()
        value = run(x).clone()
        assert model.calls[0].item() == 1
        model.calls.zero_()
        torch.testing.assert_close(value, model(x))
        assert not messages
        next(model.layers.parameters()).mul_(2)
        model.calls.zero_()
        value = run(x).clone()
        model.calls.zero_()
        torch.testing.assert_close(value, model(x))
    (text,) = messages
    assert "weights have changed" in text
    torch._dynamo.reset()


def test_torch_alone_copies_each_weight(model: Counted) -> None:
    """The reason to freeze in the backend. A torch for which this fails may need it no more."""
    x = torch.randn(32, 64, device="cuda")
    run = torch.compile(model.layers, options={**GRAPHS, "freezing": True})  # without the buffer that changes
    assert copies(lambda: run(x)) >= 2 * LAYERS  # weights and biases
    torch._dynamo.reset()


def test_a_benchmark_of_both_has_no_copies(model: Counted) -> None:
    device = present_device(0)
    assert device is not None
    x = torch.randn(32, 64, device="cuda")
    with configured(parse_configuration("default+triton.cudagraphs=True+freezing=True"), device) as backends:
        run = torch.compile(model)
        assert copies(lambda: run(x)) == 1
    assert backends.cudagraphs
    assert not backends.notes
    (graph,) = backends.graphs
    assert not graph.cudagraph_skips
    torch._dynamo.reset()

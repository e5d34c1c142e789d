"""What a configuration changes of a captured graph: results, gradients and settings stay those of eager mode."""

from __future__ import annotations

import copy
import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from fuselight.replay import layouts
from fuselight.replay.graph_key import tuned_graph
from fuselight.replay.preparation import PreparedBackend, prepared_inductor, tf32_multiplications
from fuselight.shared.report.tuned import Preparation
from tests.support.case_files import marked

pytestmark = pytest.mark.torch


class Pictures(torch.nn.Module):
    """Convolutions, with a weight that is stored in either format and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3)
        self.second = torch.nn.Conv2d(8, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tensor: torch.Tensor = self.second(self.first(x).relu())
        return tensor


class Flattened(Pictures):
    """A view of a convolution's result: it cannot be taken with the channels last."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).view(x.shape[0], -1)


class Recording:
    """A backend that runs each graph as it is and keeps it."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(preparation: Preparation, model: Any) -> tuple[Any, Recording]:
    recording = Recording()
    return torch.compile(model, backend=PreparedBackend(preparation, recording)), recording


def test_weights_and_images_are_channels_last_and_compiled_once() -> None:
    model, x = Pictures(), torch.randn(2, 3, 9, 9)
    expected = model(x)
    run, recording = compiled(Preparation(channels_last=True), model)
    for _ in range(3):
        torch.testing.assert_close(run(x), expected)
    assert run(x).is_contiguous()  # as in eager, whatever code views it
    assert len(recording.graphs) == 1
    assert model.first.weight.is_contiguous(memory_format=torch.channels_last)
    assert recording.graphs[0].code.count(".contiguous(") == 2  # the image, and the result


def test_gradients_are_those_of_contiguous_weights() -> None:
    model, x = Pictures(), torch.randn(2, 3, 9, 9, requires_grad=True)
    other = copy.deepcopy(model)
    other(x).square().sum().backward()
    expected, x.grad = x.grad, None
    run = torch.compile(model, backend=prepared_inductor(Preparation(channels_last=True), None, {}))
    run(x).square().sum().backward()
    torch.testing.assert_close(x.grad, expected)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_a_graph_that_views_a_contiguous_result_stays_as_it_is() -> None:
    model, x = Flattened(), torch.randn(2, 3, 9, 9)
    expected = model(x)
    run, recording = compiled(Preparation(channels_last=True), model)
    torch.testing.assert_close(run(x), expected)
    assert model.first.weight.is_contiguous()
    assert len(recording.graphs) == 1


def test_a_weight_within_a_larger_storage_is_not_moved() -> None:
    model, x = Pictures(), torch.randn(2, 3, 9, 9)
    flat = torch.cat([parameter.detach().flatten() for parameter in model.first.parameters()])
    model.first.weight.data = flat[: model.first.weight.numel()].view_as(model.first.weight)
    run, _ = compiled(Preparation(channels_last=True), model)
    run(x)
    assert model.first.weight.data_ptr() == flat.data_ptr()
    assert model.second.weight.is_contiguous(memory_format=torch.channels_last)


def test_a_converted_model_has_the_key_that_it_had_before() -> None:
    model, x = Pictures(), torch.randn(2, 3, 9, 9)
    keys: list[str] = []

    def reading(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        keys.append(tuned_graph(gm, inputs).key)
        return PreparedBackend(Preparation(channels_last=True), Recording())(gm, inputs)

    torch.compile(model, backend=reading)(x)
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_autocast_computes_in_bfloat16_and_returns_float32() -> None:
    model, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
    expected = model(x)
    run = torch.compile(model, backend=prepared_inductor(Preparation(precision="bf16"), None, {}))
    value = run(x)
    with torch.autocast("cpu", torch.bfloat16):
        reduced = model(x)
    assert value.dtype is torch.float32
    torch.testing.assert_close(value, reduced.float(), rtol=2e-2, atol=2e-2)
    assert not torch.equal(value, expected)
    value.sum().backward()
    assert model.weight.grad is not None
    assert model.weight.grad.dtype is torch.float32


def test_the_programs_own_autocast_is_left_alone() -> None:
    model, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
    run, recording = compiled(Preparation(precision="bf16"), model)
    with torch.autocast("cpu", torch.float16):
        assert run(x).dtype is torch.float16
    assert "autocast" not in recording.graphs[0].code


def test_tf32_is_in_force_during_forward_and_backward_alone() -> None:
    seen: list[str] = []

    @torch.library.custom_op("fuselight_test::look", mutates_args=())
    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_float32_matmul_precision())
        return x.clone()

    look.register_fake(torch.empty_like)
    look.register_autograd(lambda _, grad: look(grad))
    frames: list[object] = []
    backend = prepared_inductor(Preparation(precision="tf32"), None, {})

    def counted(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        frames.append(gm)
        return backend(gm, inputs)

    run = torch.compile(look, backend=counted)  # without a kernel of C++
    x = torch.randn(4, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            run(x).backward(torch.ones(4))
            assert torch.get_float32_matmul_precision() == "highest"
    assert seen == ["high"] * 4
    assert len(frames) == 1
    torch.set_float32_matmul_precision("medium")
    try:
        with tf32_multiplications():
            assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("name", marked(["math", "flash"], {"math"}))
def test_attention_uses_the_implementation_that_was_chosen(name: str) -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    q, k, v = (torch.randn(2, 2, 16, 8, requires_grad=True) for _ in range(3))
    expected = attend(q, k, v)
    texts: list[str] = []

    def seen(graph: torch.fx.Graph) -> None:
        texts.append(str(graph))

    backend = prepared_inductor(Preparation(attention=name), None, {})
    with torch._inductor.config.patch(joint_custom_post_pass=seen):
        tensor = torch.compile(attend, backend=backend)(q, k, v)
    torch.testing.assert_close(tensor, expected)
    torch.autograd.backward(tensor.sum())
    fused = any("_scaled_dot_product_flash_attention_for_cpu" in text for text in texts)
    assert fused == (name == "flash")


def test_no_weight_is_remembered_longer_than_it_lives() -> None:
    torch._dynamo.reset()
    gc.collect()  # models of the tests before
    before = len(layouts._converted)
    model = Pictures()
    run, _ = compiled(Preparation(channels_last=True), model)
    run(torch.randn(2, 3, 9, 9))
    assert len(layouts._converted) == before + 2
    del model, run
    torch._dynamo.reset()
    gc.collect()
    assert len(layouts._converted) == before

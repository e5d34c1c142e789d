"""Dropout, norms, `logsigmoid` and attention of fake tensors keep for the backward what they keep on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException
from torch.nn import functional

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.fake_numbers import assumed_sizes
from fuselight.adapters.torch_api.gpu_forms import gpu_forms
from fuselight.adapters.torch_api.storages import StorageTracker
from fuselight.shared.devices import find
from fuselight.worker.memory.forms import eager_form

pytestmark = pytest.mark.torch


def saved(make: object) -> list[tuple[torch.dtype, int]]:
    """dtype and elements of each tensor that a call saves, besides its input."""
    kept: list[tuple[torch.dtype, int]] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append((tensor.dtype, tensor.numel()))
        return tensor

    with settings.fake_tensors():
        x = torch.randn(8, 32, dtype=torch.bfloat16, requires_grad=True)
        weight = torch.ones(32, dtype=torch.bfloat16, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = make(x, weight)  # type: ignore[operator]
        result.sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape
    return kept


def test_the_mask_of_dropout_has_a_byte_for_each_element() -> None:
    with gpu_forms():
        assert (torch.bool, 256) in saved(lambda x, _: functional.dropout(x, 0.1))
    assert (torch.bool, 256) not in saved(lambda x, _: functional.dropout(x, 0.1))


def test_a_norm_keeps_its_input_and_a_number_for_each_row() -> None:
    with gpu_forms():
        kept = saved(lambda x, weight: functional.rms_norm(x, [32], weight))
        assert sorted(kept, key=str) == [(torch.bfloat16, 256), (torch.bfloat16, 32), (torch.float32, 8)]
        real = functional.rms_norm(torch.ones(2, 4), [4])
    assert torch.equal(real, functional.rms_norm(torch.ones(2, 4), [4])), (
        "values are computed where there are some"
    )


def test_logsigmoid_keeps_its_input_alone() -> None:
    with gpu_forms():
        assert saved(lambda x, _: functional.logsigmoid(x)) == [(torch.bfloat16, 256)]
        real = functional.logsigmoid(torch.ones(2))
    assert torch.equal(real, functional.logsigmoid(torch.ones(2)))
    assert len(saved(lambda x, _: functional.logsigmoid(x))) > 1


def test_attention_with_dropout_keeps_no_scores_in_eager_mode() -> None:
    def attended(x: torch.Tensor, _weight: torch.Tensor) -> torch.Tensor:
        q = x.view(1, 1, 8, 32).expand(1, 2, 8, 32)
        result: torch.Tensor = functional.scaled_dot_product_attention(q, key=q, value=q, dropout_p=0.1)
        return result

    scores = 2 * 8 * 8
    with eager_form(find("h200")):
        assert scores not in {elements for _, elements in saved(attended)}
    with eager_form(find("cpu")):
        assert scores in {elements for _, elements in saved(attended)}


def test_a_tensor_that_is_saved_on_the_cpu_is_not_on_the_gpu() -> None:
    def step() -> int:
        x = torch.randn(256, requires_grad=True)
        with torch.autograd.graph.save_on_cpu():
            y = x.sin().sin()
        kept = sum(storage.bytes for storage in tracker.alive())
        y.sum().backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        return kept

    with settings.fake_tensors():
        tracker: StorageTracker[str] = StorageTracker(lambda: "here")
        with gpu_forms(), tracker:
            offloaded = step()
        tracker = StorageTracker(lambda: "here")
        with tracker:
            kept = step()
    assert (offloaded, kept) == (2 * 1024, 3 * 1024)


def test_real_tensors_are_saved_on_the_cpu_as_before() -> None:
    x = torch.ones(4, requires_grad=True)
    with gpu_forms(), torch.autograd.graph.save_on_cpu():
        y = x.sin()
    y.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.equal(x.grad, torch.ones(4).cos())


@pytest.mark.parametrize(("least", "count"), [(False, 12), (True, 1)])
def test_sizes_that_depend_on_data_are_the_largest_or_one(*, least: bool, count: int) -> None:
    seen: list[None] = []
    with settings.fake_tensors(), assumed_sizes(lambda: seen.append(None), least=least):
        x = torch.randn(3, 4)
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        assert x.nonzero().shape == (count, 2)
        assert x.masked_select(x[0] > 0).shape == x[x > 0].shape == values.shape == counts.shape == (count,)
        assert inverse.shape == (3, 4)
    assert len(seen) == 4
    with settings.fake_tensors(), pytest.raises(DynamicOutputShapeException):
        torch.randn(3).nonzero()

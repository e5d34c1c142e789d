"""Storages are followed from their allocation to their end, and the peak is that of the allocator."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.storages import StorageTracker
from fuselight.adapters.virtual_gpu.replayed import padded_buffers

pytestmark = pytest.mark.torch

KIB = 1 << 10


def tracked(call: Callable[[], Any], **options: Any) -> StorageTracker[str]:
    tracker: StorageTracker[str] = StorageTracker(lambda: "here", **options)
    with tracker:
        call()
    return tracker


def vector(kib: int = 1) -> torch.Tensor:
    return torch.ones(kib * KIB // 4)


def view_and_change_in_place() -> torch.Tensor:
    x = vector(4)
    return x[10:].view(-1).add_(1).t()


def freed_before_the_next() -> torch.Tensor:
    x = vector(4)
    del x
    return vector(4)


def both_alive() -> torch.Tensor:
    x = vector(4)
    y = vector(4)
    return torch.cat([x, y])


def chain() -> torch.Tensor:
    return vector(4).sin().cos().tan()


@pytest.mark.parametrize(
    ("call", "kib"),
    [(view_and_change_in_place, 4), (freed_before_the_next, 4), (both_alive, 16), (chain, 8)],
)
@pytest.mark.parametrize("fake", [False, True])
def test_the_peak_counts_each_storage_while_it_is_alive(
    call: Callable[[], torch.Tensor], kib: int, *, fake: bool
) -> None:
    if fake:
        with settings.fake_tensors():
            tracker = tracked(call)
    else:
        tracker = tracked(call)
    assert tracker.peak.bytes == kib * KIB
    assert tracker.allocated == 0
    assert sum(storage.bytes for storage in tracker.alive_at(tracker.peak.number)) == tracker.peak.bytes


def test_sizes_are_rounded_as_the_allocator_does() -> None:
    tracker = tracked(lambda: torch.ones(3), rounding=512)
    assert tracker.peak.bytes == 512


def test_what_existed_before_is_counted_once_and_named() -> None:
    x = vector(4)
    tracker: StorageTracker[str] = StorageTracker(lambda: "here")
    tracker.note([x, x[3:], x.view(2, -1)], "parameter")
    with tracker:
        y = x * 2
    assert tracker.peak.bytes == 8 * KIB
    assert [(storage.use, storage.is_before) for storage in tracker.alive_at(tracker.peak.number)] == [
        ("parameter", True),
        ("", False),
    ]
    del y
    assert tracker.allocated == 4 * KIB


def test_memory_inside_an_operator_is_a_part_of_the_peak() -> None:
    inside = lambda operator, _arguments, _result: 2 * KIB if "sin" in str(operator) else 0  # noqa: E731
    tracker = tracked(lambda: vector(1).sin(), inside=inside)
    assert (tracker.peak.bytes, tracker.peak.inside) == (4 * KIB, 2 * KIB)


def test_what_the_backward_makes_has_the_line_of_the_forward() -> None:
    lines = iter(["first", "second", "loss"])
    current = next(lines)
    tracker: StorageTracker[str] = StorageTracker(lambda: current)
    x = vector(4).requires_grad_()
    with tracker:
        y = x.sin()
        current = next(lines)
        z = y.exp()
        current = next(lines)
        loss = z.sum()
        loss.backward()  # type: ignore[no-untyped-call]
    places = {storage.place for storage in tracker.storages_of([x.grad] if x.grad is not None else [])}
    assert places == {"first"}


def test_a_layout_without_a_storage_and_an_empty_tensor_are_passed_over() -> None:
    tracker = tracked(lambda: (torch.eye(3).to_sparse(), torch.ones(0)))
    assert tracker.peak.bytes > 0
    assert tracker.unfollowed == {"torch.sparse_coo"}


def allocated_at_most(call: Callable[[], Any]) -> int:
    """The peak of the CPU's allocator above the start, by the profiler's records."""
    gc.collect()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        call()
    records: Any = profile.profiler
    now = peak = 0
    for event in sorted(
        (event for event in records.kineto_results.events() if event.name() == "[memory]"),
        key=lambda event: event.start_ns(),
    ):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(1, 2) / 5.0, -1)
        result: torch.Tensor = self.out(weights @ v)
        return result


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 32)),
    "attention": Attention,
    "two towers": lambda: nn.Sequential(Attention(), nn.SiLU(), Attention()),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_on_fake_tensors_has_the_peak_of_the_allocator(name: str) -> None:
    def step(model: nn.Module, x: torch.Tensor) -> None:
        loss = model(x).square().mean()
        loss.backward()
        del loss
        for parameter in model.parameters():
            parameter.grad = None

    model, x = MODELS[name](), torch.randn(8, 64, 32)
    step(model, x)
    true = allocated_at_most(lambda: step(model, x))
    with settings.fake_tensors():
        model, x = MODELS[name](), torch.randn(8, 64, 32)
        tracker: StorageTracker[str] = StorageTracker(lambda: "here")
        tracker.note([*model.parameters(), x], "before")
        before = tracker.allocated
        with tracker:
            step(model, x)
    assert tracker.peak.bytes - before == pytest.approx(true, rel=0.01)


def test_a_storage_that_changes_its_size_is_counted_as_it_is() -> None:
    """FSDP gathers the parameters of a layer into storages that it empties again."""

    def gathered() -> torch.Tensor:
        x = vector(4)
        x.untyped_storage().resize_(0)
        y = vector(8)
        x.untyped_storage().resize_(16 * KIB)
        return y

    with settings.fake_tensors():
        tracker = tracked(gathered)
    assert tracker.peak.bytes == 8 * KIB
    assert [storage.bytes for storage in tracker.every] == [4 * KIB, 0, 8 * KIB, 16 * KIB]
    assert tracker.allocated == 0


def test_a_tensor_made_of_others_is_followed_by_its_parts() -> None:
    def doubled() -> Any:
        return TwoTensor(vector(4), vector(4)) * 2  # type: ignore[no-untyped-call]

    tracker = tracked(doubled)
    assert (tracker.peak.bytes, tracker.unfollowed) == (16 * KIB, set())


def test_a_weight_that_is_there_twice_is_counted_once() -> None:
    tied = nn.Parameter(vector(4))
    tracker: StorageTracker[str] = StorageTracker(lambda: "here")
    tracker.note([tied, tied.t(), tied.detach()], "parameter")
    assert tracker.allocated == 4 * KIB


def test_a_nested_tensor_is_followed_by_its_values_and_offsets() -> None:
    def nested() -> torch.Tensor:
        parts = [torch.ones(3, 256), torch.ones(5, 256)]
        return torch.nested.nested_tensor(parts, layout=torch.jagged)

    tracker = tracked(nested)
    assert tracker.unfollowed == set()
    assert any(storage.bytes == 8 * KIB for storage in tracker.every)


def test_a_buffer_with_longer_rows_than_its_values_is_padded() -> None:
    text = """
    buf0 = empty_strided_cuda((8, 30), (32, 1), torch.float32)
    buf1 = empty_strided_cuda((8, 30), (30, 1), torch.float32)
    buf2 = empty_strided_cuda((s0, 30), (32, 1), torch.float32)
    buf3 = empty_strided_cuda((), (), torch.float32)
    buf4 = empty_strided_cuda((30, 8), (1, 30), torch.float32)
"""
    assert list(padded_buffers(text)) == ["buf0"]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: nn.functional.cross_entropy(x, torch.zeros(64, dtype=torch.long)),
        lambda x: torch.einsum("ij,kj->ik", x, x.softmax(-1)),
        lambda x: nn.functional.conv1d(x[None], torch.ones(8, 64, 3)).sum(),
    ],
    ids=["loss", "einsum", "convolution"],
)
def test_operators_that_consist_of_others_count_in_parts(
    call: Callable[[torch.Tensor], torch.Tensor], mode: Callable[[], Any]
) -> None:
    """Inference mode gives a dispatch mode `cross_entropy_loss`, whose temporary tensors were not counted."""
    x = torch.ones(64, 256)
    expected = tracked(lambda: call(x))

    def within() -> None:
        with mode():
            call(x)

    known = tracked(within)
    assert known.peak.bytes == expected.peak.bytes > 0
    assert known.operators == expected.operators

"""The memory of one call: of tensors by the allocator, measured and estimated, and resident memory of a CPU's process.

What a GPU's allocator says comes through the functions of `torch.cuda` that are read there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from fuselight.capture.calls.calls import Prepared, call_mode
from fuselight.measure.machine.memory import CallMemory, memory_of
from fuselight.measure.measured_call import Unit
from fuselight.shared.devices import find
from fuselight.shared.inputs import Options
from fuselight.shared.report import Measured, MeasuredConfiguration, MeasuredMemory, Work
from fuselight.worker.memory.peaks import StepRecord
from fuselight.worker.timed.estimated_peaks import BenchmarkStep, with_estimates

pytestmark = pytest.mark.torch
GPU = torch.device("cuda", 1)


@dataclass
class FakeAllocator:
    """The functions of torch.cuda that say what its allocator did; a call adds bytes."""

    allocated: int = 1000
    peak: int = 0
    reserved: int = 6000
    cached: int = 2000
    segments: list[dict[str, Any]] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def call(self) -> None:
        """Allocate 3,000 bytes and free 2,000 of them."""
        self.steps.append("call")
        self.peak = max(self.peak, self.allocated + 3000)
        self.allocated += 1000

    def functions(self) -> dict[str, Any]:
        """By the name in torch.cuda."""
        return {
            "synchronize": lambda _: self.steps.append("wait"),
            "empty_cache": self._empty,
            "reset_peak_memory_stats": lambda _: setattr(self, "peak", self.allocated),
            "memory_allocated": lambda _: self.allocated,
            "max_memory_allocated": lambda _: self.peak,
            "max_memory_reserved": lambda _: self.reserved + self.cached,
            "memory_snapshot": lambda: self.segments,
            "current_device": lambda: 0,
        }

    def _empty(self) -> None:
        self.cached = 0
        self.steps.append("empty")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeAllocator:
    allocator = FakeAllocator()
    for name, function in allocator.functions().items():
        monkeypatch.setattr(torch.cuda, name, function)
    return allocator


def segment(device: int, total: int, allocated: int, **more: Any) -> dict[str, Any]:
    return {"device": device, "total_size": total, "allocated_size": allocated, **more}


def test_a_gpu_has_reserved_memory_and_pieces_apart(gpu: FakeAllocator) -> None:
    gpu.segments = [segment(1, 4000, 1500), segment(1, 2000, 0), segment(0, 900, 100)]
    measured = memory_of(lambda: gpu.call, GPU)
    assert measured == CallMemory(4000, 3000, MeasuredMemory(4000, 1000, (), 6000, 2500))
    assert gpu.steps == ["wait", "empty", "call", "wait"], "what the compile has cached does not count"


def test_a_replayed_graph_has_its_pool_and_no_pieces(gpu: FakeAllocator) -> None:
    gpu.segments = [
        segment(1, 5000, 2000, segment_pool_id=(0, 1)),
        segment(1, 4000, 1500, segment_pool_id=(0, 0)),
        segment(0, 9000, 0, segment_pool_id=(0, 1)),
    ]
    measured = memory_of(lambda: gpu.call, GPU, replayed=True)
    assert measured == CallMemory(7000, None, MeasuredMemory(7000, 4000, (), 6000, None))


@pytest.mark.parametrize("is_replayed", [True, False])
def test_a_snapshot_of_another_release_leaves_out_what_it_lacks(
    gpu: FakeAllocator, *, is_replayed: bool
) -> None:
    gpu.segments = [{"device": 1}]
    measured = memory_of(lambda: gpu.call, GPU, replayed=is_replayed)
    if is_replayed:
        assert measured == CallMemory(None, None)
    else:
        assert measured.tensors == MeasuredMemory(4000, 1000, (), 6000, None)


class Net(nn.Module):
    """A block whose outputs are as large as what it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
        self.register_buffer("scale", torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(nn.functional.gelu(self.up(x))) * self.scale
        return out


def _prepared(*, training: bool) -> Prepared:
    return Prepared(Net(), (torch.randn(512, 64),), {}, Options(train=training))


@pytest.mark.parametrize("work", list(Work))
def test_tensors_of_a_cpu_are_what_the_same_step_is_estimated_to_need(work: Work) -> None:
    prepared = _prepared(training=work is not Work.INFERENCE)
    unit = Unit(prepared, prepared.function, work)
    with unit.mode():
        unit.prepare()()

        def prepare() -> Any:
            unit.drop_gradients()
            return unit.prepare()

        measured = memory_of(prepare, torch.device("cpu"), lasting=unit.lasting_tensors).tensors
        unit.drop_gradients()
    step = BenchmarkStep(prepared, work is not Work.INFERENCE, work=work)
    with call_mode(unit.prepared):
        record = StepRecord.of(step, find("cpu"), (), lambda: None)
        with record.tracker:
            step.make(prepared.function, record)
    estimated = record.peak(find("cpu"))
    assert measured is not None
    assert measured.reserved is None
    assert measured.before == estimated.before
    assert measured.bytes == pytest.approx(estimated.bytes, rel=0.002)
    assert measured.bytes > measured.before


def test_an_output_is_held_until_the_backward_ends() -> None:
    rows = torch.randn(1000, requires_grad=True)
    prepared = Prepared(torch.sin, (rows,), {}, Options(train=True))
    step = BenchmarkStep(prepared, training=True, work=Work.FORWARD_BACKWARD)
    record = StepRecord.of(step, find("cpu"), (), lambda: None)
    with record.tracker:
        step.make(prepared.function, record)
    assert record.peak(find("cpu")).bytes > 4 * rows.numel() * 4, "input, output, cosine, and gradient"


def test_estimates_reach_the_configurations_of_their_names() -> None:
    rows = (
        MeasuredConfiguration("eager"),
        MeasuredConfiguration("default"),
        MeasuredConfiguration("max-autotune"),
    )
    machine: Any = SimpleNamespace()
    known = (
        MeasuredConfiguration("eager", estimated_bytes=10),
        MeasuredConfiguration("default", estimated_bytes=7),
    )
    answer = with_estimates(rows, Measured(Work.INFERENCE, machine, known))
    assert [row.estimated_bytes for row in answer] == [10, 7, None]
    assert with_estimates(rows, None) == rows

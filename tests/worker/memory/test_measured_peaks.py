"""What a step needs on a present device: on this CPU beside the estimate, and of a GPU from recordings."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.allocator_history import (
    AllocatorAction,
    AllocatorHistory,
    AllocatorHistoryError,
    generated_buffers,
    read_snapshot,
    recorded_history,
)
from fuselight.adapters.torch_api.storages import Storage
from fuselight.shared.report import HeldMemory, Location, MeasuredMemory, MemoryPeak, MemoryUse, StepPhase
from fuselight.worker.memory.measured_peaks import measured_peak
from fuselight.worker.memory.origins import StorageOrigin
from fuselight_server.explain.memory.words import measured_in_words, measured_rows
from fuselight_server.jobs.ranks.plain_pickle import PlainLimits, load_plain
from tests.support.live_worker import LiveWorker
from tests.worker.memory.test_estimates import estimated

pytestmark = pytest.mark.torch
RECORDINGS = Path(__file__).parents[2] / "recordings" / "memory" / "h200"
TRUTH: dict[str, Any] = json.loads((RECORDINGS / "truth.json").read_text(encoding="utf-8"))


def recorded(name: str) -> Any:
    data = gzip.decompress((RECORDINGS / f"{name}.pickle.gz").read_bytes())
    return load_plain(data, limits=PlainLimits(nodes=16_000_000, seconds=60.0))


@pytest.mark.parametrize("name", ["clean", "leak", "compiled"])
def test_the_history_of_a_gpu_has_the_peak_of_its_allocator(name: str) -> None:
    history, truth = AllocatorHistory(reserved=0), TRUTH[name]
    read_snapshot(recorded(name), 0, history)
    at_the_end = sum(event.bytes for event in history.events if not event.is_reserve)
    history.allocated = truth["allocated"] - at_the_end  # what earlier jobs of the process had left
    measured = measured_peak(history, (), lambda frames: Location(*frames[0]) if frames else None)
    assert measured.bytes == truth["peak"]
    assert sum(row.bytes for row in measured.held) == measured.bytes
    assert measured.between_tensors == truth["inactive_split"]
    assert measured.reserved is not None


def test_a_tensor_of_the_program_keeps_its_use_and_its_line() -> None:
    events = [
        AllocatorAction(64, 1024, is_reserve=True),
        AllocatorAction(64, 512, (("m.py", 3),)),
        AllocatorAction(64, -512),
        AllocatorAction(64, 1024, (("m.py", 4),)),
        AllocatorAction(16, -256),
        AllocatorAction(2048, 128, (("m.py", 5),)),
        AllocatorAction(2048, -128),
    ]
    place = StorageOrigin(Location("m.py", 4), "")
    storages = [
        Storage(256, "", None, use="parameter", is_before=True, address=16),
        Storage(1000, "forward", place, use="saved", address=64),
    ]
    history = AllocatorHistory(events, allocated=300, peak=1400, reserved=512)
    measured = measured_peak(history, storages, lambda frames: Location(*frames[0]) if frames else None)
    rows = {(row.use, row.location and row.location.line): row.bytes for row in measured.held}
    assert rows == {
        (MemoryUse.SAVED, 4): 1024,
        (MemoryUse.PARAMETER, None): 256,
        (MemoryUse.OTHER, None): 120,
    }
    assert (measured.bytes, measured.before, measured.reserved) == (1400, 300, 1536)


@pytest.mark.parametrize(
    "snapshot",
    [
        {},
        {"device_traces": [[{"action": "alloc"}]]},
        {"device_traces": [[{"action": "alloc", "addr": None}]]},
    ],
)
def test_a_history_of_another_form_is_an_error(snapshot: Any) -> None:
    with pytest.raises(AllocatorHistoryError, match="another form"):
        read_snapshot(snapshot, 0, AllocatorHistory())


def test_the_profiler_names_each_allocation_of_a_cpu() -> None:
    with recorded_history(torch.device("cpu")) as history:
        kept = torch.ones(1000)
        torch.ones(500).sin_()
    assert history.reserved is None
    assert [abs(event.bytes) for event in history.events if event.address == kept.data_ptr()] == [4000]
    assert sorted(event.bytes for event in history.events if abs(event.bytes) >= 2000) == [-2000, 2000, 4000]


def test_buffers_of_generated_code_are_made_by_the_names_that_are_replaced() -> None:
    buffers: list[torch.Tensor] = []
    owner: Any = torch._C._dynamo.guards
    before = owner._empty_strided_cpu
    with generated_buffers(buffers.append):
        owner._empty_strided_cpu((4,), (1,), torch.float32)
    assert [tensor.shape for tensor in buffers] == [(4,)]
    assert owner._empty_strided_cpu is before


SOURCE = """\
import torch
# fuselight: f(f32[256, 64], f32[64, 128], f32[128, 64], train=True)
def f(x, up, down):
    h = x @ up
    return h @ down
"""


def test_the_estimate_for_a_cpu_is_what_its_allocator_gives(live: LiveWorker) -> None:
    """Products alone: nothing has to be compiled by a C++ compiler."""
    (measured,) = estimated(live, SOURCE, measures=True).memory
    (estimate,) = estimated(live, SOURCE).memory
    assert measured.why_not_measured == ""
    for peak, real in (
        (estimate.eager, measured.measured_eager),
        (estimate.compiled, measured.measured_compiled),
    ):
        assert peak is not None
        assert real is not None
        assert real.bytes == pytest.approx(peak.bytes, rel=0.05)
        assert real.before == peak.before
        assert sum(row.bytes for row in real.held) == real.bytes
        assert 4 in {row.location.line for row in real.held if row.location is not None}
        assert real.reserved is None


def test_words_of_a_measurement() -> None:
    place = Location("m.py", 3)
    rows = (HeldMemory(MemoryUse.SAVED, 3_000_000_000, 1, place),)
    peak = MemoryPeak(3_000_000_000, 0, StepPhase.FORWARD, "", None, rows)
    measured = MeasuredMemory(
        3_100_000_000,
        0,
        (*rows, HeldMemory(MemoryUse.INSIDE, 100_000_000, 1, None)),
        reserved=3_600_000_000,
        between_tensors=200_000_000,
    )
    assert measured_in_words(peak, measured) == (
        "measured 3.1 GB: the estimate is 3.2% lower; reserved 3.6 GB, 500 MB of it not used at the peak; "
        "200 MB in pieces between tensors at the end"
    )
    assert measured_in_words(None, MeasuredMemory(5, 0)) == "measured 5 B"
    assert [(row.use, *sizes) for row, *sizes in measured_rows(peak, measured)] == [
        (MemoryUse.SAVED, 3_000_000_000, 3_000_000_000),
        (MemoryUse.INSIDE, 0, 100_000_000),
    ]

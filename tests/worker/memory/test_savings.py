"""Changes that need less memory: each is tried, and its peak is that of the program that is written so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from fuselight.adapters.torch_api import settings
from fuselight.adapters.virtual_gpu.replayed import ReplayBackend
from fuselight.capture.calls.calls import Prepared
from fuselight.shared.devices import find
from fuselight.shared.report import MemoryPeak, SavingKind
from fuselight.worker.memory import savings
from fuselight.worker.memory.peaks import StepRecord
from fuselight.worker.memory.steps import Step, Unobserved
from fuselight.worker.verify.eager_mode import eager_mode

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:TensorFloat32")]
H200 = find("h200")
FOLDER = str(Path(__file__).parent)


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.down(nn.functional.gelu(self.up(x)))
        return result


class Net(nn.Module):
    def __init__(self, *, recomputes: bool = False, parts: int = 3) -> None:
        super().__init__()
        self.parts, self.recomputes = nn.ModuleList(Part() for _ in range(parts)), recomputes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = checkpoint(part, x, use_reentrant=False) if self.recomputes else part(x)
        return x.square().mean()


def peak_of(step: Step, *, is_compiled: bool) -> MemoryPeak:
    backend = ReplayBackend(H200)
    module = step.prepared.function

    def make() -> MemoryPeak:
        function = torch.compile(module, backend=backend) if is_compiled else module
        step.make(function, Unobserved())
        record = StepRecord.of(step, H200, (__file__,), backend.origin_of_buffer)
        with record.tracker:
            step.make(function, record)
        return record.peak(H200)

    if is_compiled:
        return make()
    with eager_mode():
        return make()


def step_of(net: Net) -> Step:
    return Step.of(Prepared(net.train(), (torch.randn(1 << 16, 64),), {}), "adamw", training=True)


def test_checkpointed_modules_have_the_peak_of_a_program_that_is_written_so() -> None:
    with settings.fake_tensors():
        net = Net()
        step = step_of(net)
        peaks = savings.StepPeaks(
            lambda: (peak_of(step, is_compiled=False), ""), lambda: (None, "not compiled here")
        )
        whole = peak_of(step, is_compiled=False)
        (saving,) = savings.checkpoints(step, H200, (FOLDER,), peaks)
        assert not any("forward" in vars(module) for module in net.modules())
        written = peak_of(step_of(Net(recomputes=True)), is_compiled=False)
    assert (saving.kind, saving.name) == (SavingKind.CHECKPOINT, "Part (parts.0, parts.1, parts.2)")
    assert saving.eager == written.bytes
    assert written.bytes < 0.7 * whole.bytes
    assert (saving.multiplications, saving.recomputed) == (6, 12)
    assert saving.us > 0
    assert saving.location is not None
    assert saving.location.line == Net.forward.__code__.co_firstlineno + 2
    (call,) = saving.calls
    row = Path(__file__).read_text().splitlines()[call.line - 1]
    has_columns = sys.version_info >= (3, 11)
    assert row[call.column : call.end_column] == ("part(x)" if has_columns else row)


class Cheap(nn.Module):
    """Keeps what it computes, and computes little."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.other = nn.GELU(), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other(self.act(x).square()).exp()  # type: ignore[no-any-return]


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dear, self.cheap = nn.Sequential(Part(), Part()), Cheap()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cheap(self.dear(x)).mean()  # type: ignore[no-any-return]


def test_regions_are_ordered_by_what_they_save_for_the_time_that_they_take() -> None:
    with settings.fake_tensors():
        step = Step.of(Prepared(Both().train(), (torch.randn(1 << 16, 64),), {}), "adamw", training=True)
        peaks = savings.StepPeaks(
            lambda: (peak_of(step, is_compiled=False), ""), lambda: (None, "not compiled here")
        )
        whole = peak_of(step, is_compiled=False).bytes
        regions = list(savings.checkpoints(step, H200, (FOLDER,), peaks))
    rates = [(whole - saving.eager) / saving.us for saving in regions if saving.eager is not None]
    assert len(rates) == len(regions) == 3
    assert rates == sorted(rates, reverse=True)
    calls = {saving.name.split()[0]: len(saving.calls) for saving in regions}
    assert calls == {"Cheap": 1, "Sequential": 1, "Part": 0}  # parts are called by their container


def test_each_different_cut_of_the_budgets_has_its_own_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, "BUDGETS", (1.0, 1.0, 0.0))
    settings_seen = []
    with settings.fake_tensors():
        step = step_of(Net(parts=1))
        whole = peak_of(step, is_compiled=False)

        def peak() -> tuple[MemoryPeak, str]:
            settings_seen.append(torch._functorch.config.activation_memory_budget)
            return (peak_of(step, is_compiled=True) if len(settings_seen) == 1 else whole), ""

        first, last = savings.budget_points(H200, peak)
    assert settings_seen == [1.0, 0.0]
    assert (first.name, last.name) == ("1", "0")
    assert last.saved == 0 < first.saved
    assert (first.multiplications, last.multiplications) == (0, 2)
    assert last.compiled == whole.bytes
    assert first.compiled is not None
    assert last.us > first.us == 0

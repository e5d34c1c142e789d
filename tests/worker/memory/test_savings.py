"""Changes that need less memory: each is tried, and its peak is that of the program that is written so."""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from fuselight.adapters.torch_api import settings
from fuselight.adapters.virtual_gpu.budgets import BudgetCut, forget_compiled, listing_cuts
from fuselight.adapters.virtual_gpu.replayed import ReplayBackend
from fuselight.capture.calls.calls import Prepared
from fuselight.shared.devices import find
from fuselight.shared.report import MemoryPeak, SavingKind, StepPhase
from fuselight.worker.memory import savings
from fuselight.worker.memory.peaks import StepRecord
from fuselight.worker.memory.steps import Step, StepObserver
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
    def __init__(self, *, recomputes: bool = False, parts: int = 3, context: Any = None) -> None:
        super().__init__()
        self.parts, self.recomputes = nn.ModuleList(Part() for _ in range(parts)), recomputes
        self.options = {"use_reentrant": False, **({"context_fn": context} if context is not None else {})}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = checkpoint(part, x, **self.options) if self.recomputes else part(x)
        return x.square().mean()


def peak_of(step: Step, *, is_compiled: bool) -> MemoryPeak:
    backend = ReplayBackend(H200)
    module = step.prepared.function

    def make() -> MemoryPeak:
        function = torch.compile(module, backend=backend) if is_compiled else module
        step.make(function, StepObserver())
        record = StepRecord.of(step, H200, (__file__,), backend.origin_of_buffer)
        with record.tracker:
            step.make(function, record)
        return record.peak(H200)

    if is_compiled:
        return make()
    with eager_mode():
        return make()


ENDLESS = savings.TrialTime(float("inf"))


def eager_peaks(step: Step, whole: MemoryPeak) -> savings.StepPeaks:
    def eager() -> tuple[MemoryPeak, str]:
        return peak_of(step, is_compiled=False), ""

    return savings.StepPeaks(step, H200, (FOLDER,), eager, lambda: (None, "not compiled here"), whole, None)


def step_of(net: Net) -> Step:
    return Step.of(Prepared(net.train(), (torch.randn(1 << 16, 64),), {}), "adamw", training=True)


def test_checkpointed_modules_have_the_peak_of_a_program_that_is_written_so() -> None:
    with settings.fake_tensors():
        net = Net()
        step = step_of(net)
        whole = peak_of(step, is_compiled=False)
        selective, saving = savings.tried(eager_peaks(step, whole), (), ENDLESS)
        assert not any("forward" in vars(module) for module in net.modules())
        written = peak_of(step_of(Net(recomputes=True)), is_compiled=False)
        policy = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
        kept = peak_of(step_of(Net(recomputes=True, context=policy)), is_compiled=False)
    assert (saving.kind, saving.name) == (SavingKind.CHECKPOINT, "Part (parts.0, parts.1, parts.2)")
    assert saving.eager == written.bytes
    assert written.bytes < 0.7 * whole.bytes
    assert (saving.multiplications, saving.recomputed) == (6, 12)
    assert saving.us > 0
    assert (selective.kind, selective.name) == (SavingKind.SELECTIVE, saving.name)
    assert selective.eager == kept.bytes
    assert written.bytes < kept.bytes < whole.bytes, "products are kept"
    assert (selective.multiplications, selective.recomputed) == (0, 6)
    assert 0 < selective.us < saving.us
    assert selective.calls == saving.calls
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
        before = peak_of(step, is_compiled=False)
        whole = before.bytes
        regions = savings.in_order(savings.tried(eager_peaks(step, before), (), ENDLESS), before)
    rates = [(whole - saving.eager) / saving.us for saving in regions if saving.eager is not None]
    assert len(rates) == len(regions) == 4
    assert [saving.kind for saving in regions].count(SavingKind.SELECTIVE) == 1, "of the best alone"
    assert rates == sorted(rates, reverse=True)
    calls = {saving.name.split()[0]: len(saving.calls) for saving in regions}
    assert calls == {"Cheap": 1, "Sequential": 1, "Part": 0}  # parts are called by their container


def test_each_different_cut_of_the_budgets_has_its_own_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    settings_seen = []
    readers = []
    monkeypatch.setattr(
        torch.fx.GraphModule,
        "print_readable",
        lambda *_, **__: readers.append(sys._getframe(1).f_code.co_name) or "",  # type: ignore[func-returns-value]
    )
    with settings.fake_tensors():
        step = step_of(Net(parts=1))
        whole = peak_of(step, is_compiled=False)

        def compiled() -> tuple[MemoryPeak, str]:
            settings_seen.append(torch._functorch.config.activation_memory_budget)
            return whole, ""

        forget_compiled()
        with listing_cuts(H200, (1.0, 1.0, 0.0)) as cuts:
            base = peak_of(step, is_compiled=True)
        peaks = savings.StepPeaks(step, H200, (FOLDER,), lambda: (None, "not tried"), compiled, None, base)
        first, last, _modules = savings.in_order(savings.tried(peaks, cuts, ENDLESS), None)
        over = savings.TrialTime(0.0)
        (only,) = savings.tried(peaks, cuts, over)
    assert (only, over.untried) == (first, ["checkpoint Part", "activation_memory_budget = 0"])
    assert settings_seen == [0.0]
    assert (first.name, last.name) == ("1", "0")
    assert last.saved == 0 < first.saved
    assert (first.multiplications, last.multiplications) == (0, 2)
    assert last.compiled == whole.bytes
    assert first.compiled is not None
    assert last.us > first.us == 0
    assert "codegen_and_compile" not in readers, "an estimate makes no text that nobody reads"


def test_a_budget_that_saves_too_much_to_need_less_is_not_compiled() -> None:
    shown: list[str] = []
    before = MemoryPeak(1000, 400, StepPhase.BACKWARD, "", None)
    cuts = [
        BudgetCut(budget, saved_bytes=saved, us=us, names=[(str(budget),)])
        for budget, saved, us in ((1.0, 600, 0.0), (0.9, 300, 0.0), (0.5, 350, 9.0), (0.1, 100, 9000.0))
    ]
    reached = iter((MemoryPeak(700, 400, StepPhase.BACKWARD, "", None), before))
    with settings.fake_tensors():
        step = step_of(Net(parts=0))
        peaks = savings.StepPeaks(
            step, H200, (FOLDER,), lambda: (None, ""), lambda: (next(reached), ""), before, before
        )
        results = list(savings.tried(peaks, cuts, savings.TrialTime(float("inf"), shown.append)))
    assert [(saving.name, saving.compiled) for saving in results] == [
        ("1", 1000),
        ("0.9", 700),
        ("0.1", 1000),
    ]
    assert [text.rpartition(" ")[2] for text in shown] == ["0.9", "0.1", "0.5"]


def test_a_checkpoint_without_time_to_compile_has_its_eager_peak() -> None:
    with settings.fake_tensors():
        step = step_of(Net(parts=2))
        whole = peak_of(step, is_compiled=False)
        shown: list[str] = []
        clock = savings.TrialTime(float("inf"), shown.append)

        def eager() -> tuple[MemoryPeak, str]:
            clock.until = 0.0
            return peak_of(step, is_compiled=False), ""

        peaks = savings.StepPeaks(step, H200, (FOLDER,), eager, lambda: (None, "not asked"), whole, whole)
        (saving,) = savings.tried(peaks, (), clock)
    assert saving.eager is not None
    assert saving.eager < whole.bytes
    assert (saving.compiled, saving.why_not) == (None, "")
    assert (shown, clock.untried) == (
        ["trying checkpoint Part"],
        ["checkpoint Part, which keeps products", "checkpoint Part, compiled"],
    )


def test_a_setting_with_another_value_is_tried_with_torchs_own() -> None:
    seen = []

    def compiled() -> tuple[MemoryPeak, str]:
        functorch, inductor = torch._functorch.config, torch._inductor.config
        seen.append((functorch.donated_buffer, inductor.comprehensive_padding))
        return peak, ""

    peak = MemoryPeak(100, 0, StepPhase.BACKWARD, "", None)
    step = step_of(Net(parts=0))
    peaks = savings.StepPeaks(step, H200, (FOLDER,), compiled, compiled, peak, peak)
    assert list(savings.tried(peaks, (), ENDLESS)) == []
    with torch._functorch.config.patch(donated_buffer=False):
        saving, other = savings.tried(dataclasses.replace(peaks, is_padded=True), (), ENDLESS)
    assert (saving.kind, saving.name) == (SavingKind.SETTING, "torch._functorch.config.donated_buffer = True")
    assert other.name == "torch._inductor.config.comprehensive_padding = False"
    assert seen == [(True, True), (False, False)]
    assert saving.compiled == 100

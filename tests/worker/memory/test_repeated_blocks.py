"""Peaks of models of many equal blocks: few blocks give the peak of the whole, or say why they do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from fuselight.adapters.torch_api import settings
from fuselight.adapters.virtual_gpu.budgets import forget_compiled
from fuselight.adapters.virtual_gpu.replayed import ReplayBackend
from fuselight.capture.calls.calls import Prepared
from fuselight.shared.devices import find
from fuselight.shared.protocol import InputsPlan, MemoryRequest, Target
from fuselight.shared.report import HeldMemory, MemoryPeak, MemoryUse, ModuleMemory, StepPhase
from fuselight.worker.memory import estimate_run
from fuselight.worker.memory.forms import FormEstimator, FormPeak, eager_form
from fuselight.worker.memory.repeated_blocks import RepeatedBlocks, extrapolated, repeated_blocks, whole_peak
from fuselight.worker.memory.steps import Step

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:TensorFloat32")]
H100 = find("h100")
FOLDER = str(Path(__file__).parent)
TOKENS, WORDS, WIDTH = 4096, 1000, 64


class Mixer(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 256), nn.Linear(256, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))  # type: ignore[no-any-return]


class Gate(Mixer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.down(self.up(x).sigmoid())  # type: ignore[no-any-return]


class Keeping(Mixer):
    """Of the same structure; one of them keeps what the others do not."""

    seen: torch.Tensor | None = None
    keeps = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(self.norm(x))
        self.seen = h.detach() * 2 if self.keeps else None
        return x + self.down(nn.functional.silu(h))  # type: ignore[no-any-return]


class Tower(nn.Module):
    def __init__(self, blocks: list[nn.Module], *, tied: bool = False) -> None:
        super().__init__()
        self.words, self.blocks = nn.Embedding(WORDS, WIDTH), nn.ModuleList(blocks)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x), ids)


class Numbered(Tower):
    """Asks for each block by its number."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        for index in range(7):
            x = self.blocks[index](x)
        total: torch.Tensor = x.sum()
        return total


def form_of(net: nn.Module, optimizer: str, *, is_compiled: bool = False) -> Callable[[], FormPeak]:
    def eager() -> FormPeak:
        ids = torch.zeros(TOKENS, dtype=torch.int64)
        step = Step.of(Prepared(net.train(), (ids,), {}), optimizer, training=True)
        backend = ReplayBackend(H100)
        estimator = FormEstimator(H100, (FOLDER,), backend)
        if is_compiled:
            forget_compiled()
            return estimator.peak(step, torch.compile(net, backend=backend))
        with eager_form(H100):
            return estimator.peak(step, net, net)

    return eager


def few_and_whole(
    net: Tower, optimizer: str = "adamw", *, is_compiled: bool = False
) -> tuple[FormPeak, FormPeak]:
    form, blocks = form_of(net, optimizer, is_compiled=is_compiled), list(net.blocks)
    few = extrapolated(RepeatedBlocks("blocks", net.blocks, len(blocks)), form, H100)
    assert list(net.blocks) == blocks, "the target is whole again"
    return few, form()


def check_same(few: FormPeak, whole: FormPeak) -> None:
    assert few.peak is not None, few.why_not
    assert whole.peak is not None, whole.why_not
    for field in ("bytes", "before", "phase", "held", "saved"):
        assert getattr(few.peak, field) == getattr(whole.peak, field), field
    assert sum(row.bytes for row in few.peak.modules) == few.peak.bytes
    assert few.peak.extrapolated.startswith("2, 3 and 4 of the ")
    assert not whole.peak.extrapolated


@pytest.mark.parametrize(("optimizer", "tied"), [("adamw", True), ("sgd", False), ("none", False)])
def test_few_blocks_give_the_peak_of_the_whole_by_line(optimizer: str, *, tied: bool) -> None:
    with settings.fake_tensors():
        few, whole = few_and_whole(Tower([Mixer() for _ in range(7)], tied=tied), optimizer)
    check_same(few, whole)


@pytest.mark.corpora  # compiles 14 blocks
def test_compiled_code_is_extrapolated_from_few_blocks() -> None:
    with settings.fake_tensors():
        few, whole = few_and_whole(Tower([Mixer() for _ in range(5)]), is_compiled=True)
    check_same(few, whole)


def test_modules_are_those_of_all_blocks_together() -> None:
    with settings.fake_tensors():
        few, _ = few_and_whole(Tower([Mixer() for _ in range(7)]))
    assert few.peak is not None
    sizes = {(row.module, row.use): row.bytes for row in few.peak.modules}
    assert sizes["blocks.*.up", MemoryUse.PARAMETER] == 7 * (256 * WIDTH + 256) * 4
    assert sizes["words", MemoryUse.PARAMETER] == WORDS * WIDTH * 4


@pytest.mark.parametrize(
    "others",
    [
        [Gate() for _ in range(3)],
        [nn.Sequential(nn.Linear(WIDTH, 96), nn.Linear(96, WIDTH))],
        [Mixer().requires_grad_(requires_grad=False)],
    ],
    ids=["two kinds", "another width", "one is frozen"],
)
def test_blocks_that_differ_are_not_taken_for_equal(others: list[nn.Module]) -> None:
    with settings.fake_tensors():
        mixed: list[nn.Module] = [Mixer() for _ in range(7)]
        mixed[1 : 2 * len(others) : 2] = others
        few, _ = few_and_whole(Tower(mixed))
    assert (few.peak, few.why_not) == (None, "their modules or parameters differ")


def test_a_block_that_does_other_than_its_structure_shows_is_found_by_the_whole_in_eager_mode() -> None:
    with settings.fake_tensors():
        net = Tower([Keeping() for _ in range(7)])
        net.blocks.get_submodule("5").__dict__["keeps"] = True
        few, whole = few_and_whole(net)
    assert few.peak is not None
    assert whole.peak is not None
    assert few.peak.bytes != whole.peak.bytes


def test_a_target_that_does_not_run_with_few_blocks_says_so() -> None:
    with settings.fake_tensors():
        few, _ = few_and_whole(Numbered([Mixer() for _ in range(7)]))
    assert few.peak is None
    assert few.why_not.startswith("the target does not run with 2 of them: ")
    assert "index" in few.why_not


def test_only_a_list_that_makes_up_most_of_a_target_counts() -> None:
    assert repeated_blocks(None) is None
    assert repeated_blocks(Tower([Mixer() for _ in range(12)])) is None
    assert repeated_blocks(nn.ModuleList(Tower([Mixer() for _ in range(24)]) for _ in range(2))) is None
    plain = nn.Sequential(*(Mixer() for _ in range(24)))
    blocks = repeated_blocks(plain)
    assert blocks is not None
    assert (blocks.name, blocks.count) == ("", 24)


def peak_with(size: int, use: MemoryUse = MemoryUse.SAVED) -> MemoryPeak:
    held = (HeldMemory(use, size, 1, None),)
    return MemoryPeak(
        size, 0, StepPhase.FORWARD, "", None, held, (), (ModuleMemory("blocks.*", use, size, 1),)
    )


def test_four_blocks_must_be_what_two_and_three_predict() -> None:
    straight = [[peak_with(size)] for size in (1000, 2000, 3000)]
    whole = whole_peak(straight, 20)
    assert whole is not None
    assert whole.bytes == 23000
    bent = [[peak_with(size)] for size in (1000, 2000, 3031)]
    assert whole_peak(bent, 20) is None
    other = [*straight[:2], [peak_with(3000, MemoryUse.TEMPORARY)]]
    assert whole_peak(other, 20) is None, "the same bytes of another kind"


def test_the_part_with_most_bytes_may_be_another_one_with_more_blocks() -> None:
    forward, optimizer = (5000, 5100, 5200), (1000, 2000, 3000)
    parts = [[peak_with(size), peak_with(other)] for size, other in zip(forward, optimizer, strict=True)]
    whole = whole_peak(parts, 20)
    assert whole is not None
    assert whole.bytes == 23000


@pytest.mark.parametrize("is_damaged", [False, True])
def test_an_estimate_is_extrapolated_if_eager_mode_is_and_says_else_why_not(
    monkeypatch: pytest.MonkeyPatch, *, is_damaged: bool
) -> None:
    monkeypatch.setattr(estimate_run, "LEAST_OPERATORS", 0)
    monkeypatch.setattr(estimate_run, "repeated_blocks", lambda net: RepeatedBlocks("blocks", net.blocks, 7))
    target, inputs = Target(FOLDER, "Tower", "module", 1, compiled=False), InputsPlan()
    state: Any = SimpleNamespace(notes=[], stopped=False, asked=SimpleNamespace(calls=()))
    compiled: list[int] = []

    def compiled_form(prepared: Prepared) -> Any:
        function: Any = prepared.function
        compiled.append(len(function.blocks))
        return function

    state.compiled_form = compiled_form
    run = estimate_run.EstimateMemory(H100)
    run._backend = ReplayBackend(H100)
    with settings.fake_tensors():
        net = Tower([Keeping() for _ in range(7)])
        net.blocks.get_submodule("5").__dict__["keeps"] = is_damaged
        prepared = Prepared(net.train(), (torch.zeros(TOKENS, dtype=torch.int64),), {})
        step = Step.of(prepared, "adamw", training=True)
        for exact in (True, False):
            request = MemoryRequest(1, 1, target, inputs, (FOLDER,), exact=exact)
            state.job = SimpleNamespace(request=request)
            form = run._extrapolated(state, step, prepared, run._eager(state, step, prepared))
            assert (form is None) is (exact or is_damaged)
    notes = [note.text for note in state.notes if note.kind == "blocks"]
    assert compiled == ([] if is_damaged else [2, 3, 4])
    assert notes == (
        [
            "All 7 blocks of `blocks` are compiled, which takes longer: few of them do not give the peak of eager mode."
        ]
        if is_damaged
        else []
    )

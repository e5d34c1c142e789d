"""Memory of calls and training steps on fake tensors: the parts add up, each has its line, and nothing is allocated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fuselight.shared.devices import find
from fuselight.shared.protocol import MemoryRequest
from fuselight.shared.report import (
    MemoryChange,
    MemoryEstimate,
    MemoryPeak,
    MemoryUse,
    Report,
    StepPhase,
    WorldPlan,
)
from tests.support.live_worker import DEADLINE, LiveWorker

pytestmark = pytest.mark.torch

MODEL = """\
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        h = self.up(self.norm(x))
        h = nn.functional.gelu(h)
        return x + self.down(h)

# fuselight: Net()(f32[64, 32])
# fuselight: Net()(f32[64, 32], train=True)
# fuselight: Net()(f32[128, 32], train=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(32) for _ in range(2))
        self.register_buffer("scale", torch.ones(32))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return (x * self.scale).square().mean()
"""
PARAMETERS = 2 * (2 * 32 + 4 * 32 * 32 + 4 * 32 + 4 * 32 * 32 + 32) * 4
KEPT = {MemoryUse.PARAMETER, MemoryUse.BUFFER, MemoryUse.INPUT, MemoryUse.OPTIMIZER, MemoryUse.LIBRARY}

SECONDS = DEADLINE - 20
"""The limit of a run, which is a deadline for a busy machine: it needs a few seconds."""


def estimated(
    live: LiveWorker, source: str, name: str = "f", *, fails: bool = False, **options: Any
) -> Report:
    """The report, which says why it has no estimate; `fails` where it should have none.

    A run that reached its limit has a failure and no estimate.
    """
    device = find(options.pop("device", "cpu"))
    request = live.request(source, name, seconds=SECONDS)
    report = live.report(request.of_kind(MemoryRequest, device=device, **options))
    assert bool(report.memory) is not fails, (report.failures, report.problems, report.notes, live.lines)
    return report


@pytest.fixture(scope="module")
def net(live: LiveWorker) -> tuple[MemoryEstimate, ...]:
    report = estimated(live, MODEL, "Net")
    assert report.failures == ()
    return report.memory


def peaks(estimate: MemoryEstimate) -> tuple[MemoryPeak, MemoryPeak]:
    assert estimate.eager is not None, estimate.why_not_eager
    assert estimate.compiled is not None, estimate.why_not_compiled
    return estimate.eager, estimate.compiled


def bytes_of(peak: MemoryPeak, use: MemoryUse) -> int:
    return sum(row.bytes for row in peak.held if row.use is use)


def test_each_call_has_its_estimate(net: tuple[MemoryEstimate, ...]) -> None:
    assert [(estimate.call, estimate.training, estimate.optimizer) for estimate in net] == [
        ("Net()(f32[64, 32])", False, ""),
        ("Net()(f32[64, 32], train=True)", True, "adamw"),
        ("Net()(f32[128, 32], train=True)", True, "adamw"),
    ]


def test_the_parts_add_up_and_each_new_one_has_a_line(net: tuple[MemoryEstimate, ...]) -> None:
    for estimate in net:
        for peak in peaks(estimate):
            assert sum(row.bytes for row in peak.held) == peak.bytes
            assert [row.bytes for row in peak.held] == sorted((row.bytes for row in peak.held), reverse=True)
            for row in peak.held:
                assert (row.location is None) == (row.use in KEPT), row
                assert row.location is None or 10 <= row.location.line <= 25


def test_modules_and_the_timeline_add_up_to_the_peak(net: tuple[MemoryEstimate, ...]) -> None:
    for estimate in net:
        for peak in peaks(estimate):
            assert sum(row.bytes for row in peak.modules) == peak.bytes
            parameters = {row.module for row in peak.modules if row.use is MemoryUse.PARAMETER}
            assert parameters == {
                f"blocks.{index}.{part}" for index in range(2) for part in ("norm", "up", "down")
            }
            timeline = peak.timeline
            assert timeline is not None
            totals = [sum(sizes) for sizes in zip(*(curve.bytes for curve in timeline.curves), strict=True)]
            assert len(totals) == len(timeline.phases) <= 120
            assert max(totals) == totals[timeline.peak] == peak.bytes
            assert timeline.phases[timeline.peak] is peak.phase
            assert totals[0] == peak.before
        phases = list(dict.fromkeys(peaks(estimate)[0].timeline.phases))  # type: ignore[union-attr]
        assert phases == (list(StepPhase) if estimate.training else [StepPhase.FORWARD])


def test_what_a_module_makes_is_its_own_in_eager_mode_and_compiled(net: tuple[MemoryEstimate, ...]) -> None:
    """`up` makes the largest tensors, which are kept for the gradient of `gelu`."""
    for peak in peaks(net[1]):
        owned = {row.module: row.bytes for row in peak.modules if row.use is MemoryUse.SAVED}
        assert {f"blocks.{index}.up" for index in range(2)} <= owned.keys()


def test_what_compiling_changes_is_named_by_line(live: LiveWorker) -> None:
    source = """\
import torch
# fuselight: f(f32[256, 256], f32[256, 256], train=True)
def f(x, w):
    h = x @ w
    h = h.exp()
    h = h + 1
    return (h.sin() @ w).sum()
"""
    (estimate,) = estimated(live, source).memory
    changes = {(change.location.line, change.change) for change in estimate.changes}
    assert (5, MemoryChange.RECOMPUTED) in changes
    assert (6, MemoryChange.FUSED) in changes
    assert not {(4, MemoryChange.FUSED), (4, MemoryChange.RECOMPUTED)} & changes, "a matrix product is saved"
    saved = {row.location.line for row in peaks(estimate)[1].saved if row.location is not None}
    assert 4 in saved
    assert 5 not in saved


def test_what_a_graph_break_keeps_is_named_by_line(live: LiveWorker) -> None:
    source = """\
import torch
def middle(x):
    h = x.exp() + 1
    torch._dynamo.graph_break()
    return h.sin()
# fuselight: f(f32[512])
@torch.compile(mode="max-autotune-no-cudagraphs")
def f(x):
    return middle(x) * 2
"""
    report = estimated(live, source)
    passed = [
        change.location.line for change in report.memory[0].changes if change.change is MemoryChange.PASSED
    ]
    assert passed == [3, 5]
    assert ["autotune" in note.text for note in report.notes if note.kind == "workspaces"] == [True]


def test_what_exists_before_the_step_is_counted(net: tuple[MemoryEstimate, ...]) -> None:
    inference, training, _ = net
    for peak in peaks(inference):
        assert bytes_of(peak, MemoryUse.PARAMETER) == PARAMETERS
        assert bytes_of(peak, MemoryUse.BUFFER) == 32 * 4
        assert bytes_of(peak, MemoryUse.INPUT) == 64 * 32 * 4
        assert peak.before == PARAMETERS + 32 * 4 + 64 * 32 * 4
        assert peak.saved == ()
    for peak in peaks(training):
        # AdamW has two tensors of each parameter's size, and a number for each of the 12.
        assert bytes_of(peak, MemoryUse.OPTIMIZER) == 2 * PARAMETERS + 12 * 4


def test_what_lines_keep_for_the_backward_grows_with_the_batch(net: tuple[MemoryEstimate, ...]) -> None:
    _, small, large = net
    for smaller, larger in zip(peaks(small), peaks(large), strict=True):
        kept = [sum(row.bytes for row in peak.saved) for peak in (smaller, larger)]
        assert 1.8 < kept[1] / kept[0] <= 2.0
        assert {row.location.line for row in smaller.saved if row.location} >= {10, 11}
    eager, _ = peaks(small)
    by_line = {row.location.line: row.bytes for row in eager.saved if row.location}
    hidden = 2 * 64 * 128 * 4
    assert by_line[11] == hidden  # the result of gelu, which `down` needs
    assert by_line[10] >= hidden  # its input


def test_a_function_is_trained_through_its_inputs_without_an_optimizer(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: f(f32[256, 4], train=True)\ndef f(x):\n    return (x.sin() * x).sum()\n"
    )
    (estimate,) = estimated(live, source).memory
    assert estimate.optimizer == ""
    for peak in peaks(estimate):
        assert bytes_of(peak, MemoryUse.INPUT) == 4096
        assert peak.phase in {StepPhase.FORWARD, StepPhase.BACKWARD}


def test_the_request_can_ask_for_training_and_for_another_optimizer(live: LiveWorker) -> None:
    source = (
        "import torch\n\n# fuselight: Net()(f32[4, 8])\nclass Net(torch.nn.Linear):\n"
        "    def __init__(self):\n        super().__init__(8, 1)\n"
        "    def forward(self, x):\n        return super().forward(x).sum()\n"
    )
    (estimate,) = estimated(live, source, "Net", training=True, optimizer="sgd").memory
    momentum = bytes_of(peaks(estimate)[0], MemoryUse.OPTIMIZER)
    assert (estimate.training, momentum) == (True, (8 + 1) * 4)
    (without,) = estimated(live, source, "Net", training=True, optimizer="none").memory
    assert without.optimizer == ""


def test_the_request_can_name_the_batches(live: LiveWorker) -> None:
    source = (
        "import torch\n"
        "# fuselight: f(f32[4, 100], f32[4, 1], f32[100])\n"
        "def f(x, scale, bias):\n    return x * scale + bias\n"
    )
    for batch, estimate in zip((2, 10), estimated(live, source, batches=(2, 10)).memory, strict=True):
        assert estimate.batch == batch
        for peak in peaks(estimate):
            assert bytes_of(peak, MemoryUse.INPUT) == 4 * (100 * batch + batch + 100)


LARGE = """\
import torch
from torch import nn

# fuselight: Large()(bf16[4, 65536])
class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(65536, 65536, dtype=torch.bfloat16) for _ in range(8)))
    def forward(self, x):
        return self.layers(x).relu()
"""


def test_a_model_larger_than_this_machine_is_estimated_for_a_gpu_that_is_absent(live: LiveWorker) -> None:
    report = estimated(live, LARGE, "Large", device="h100")
    (estimate,) = report.memory
    for peak in peaks(estimate):
        assert bytes_of(peak, MemoryUse.PARAMETER) == 8 * (65536 * 65536 + 65536) * 2
        assert bytes_of(peak, MemoryUse.LIBRARY) == 33 << 20  # as measured on an H200
    assert report.target_device is not None
    assert report.target_device.key.startswith("h100")


BRANCH = """\
import torch
# fuselight: f(f32[1024], i64[4] % 3)
def f(x, ids):
    if torch.rand(1) < 0.1:
        return x.sum()
    if x.max().item() > 0:
        x = x.repeat(4)
    if bool((ids == 2).any()):
        x = x + 1
    return x.sum() * ids[0].item()
"""


def test_a_number_that_the_program_reads_is_assumed_and_said(live: LiveWorker) -> None:
    report = estimated(live, BRANCH)
    for peak in peaks(report.memory[0]):
        assert peak.bytes > 4 * 4096  # of the branches, the second one was taken
    lines = [
        note.location.line
        for note in report.notes
        if note.kind == "assumed_values" and note.location is not None
    ]
    assert lines == [4, 6, 8, 10]


def test_a_size_that_depends_on_data_gives_a_range(live: LiveWorker) -> None:
    source = "import torch\n# fuselight: f(f32[1024])\ndef f(x):\n    return x[x > 0].repeat(2)\n"
    report = estimated(live, source)
    (estimate,) = report.memory
    eager, compiled = peaks(estimate)
    assert estimate.least_eager is not None
    assert estimate.least_compiled is not None
    assert estimate.least_eager < 8192 <= eager.bytes - 8192
    assert estimate.least_compiled < 8192 <= compiled.bytes - 8192
    assert [note.text for note in report.notes if note.kind == "assumed_values"] == [
        "A size on line 4 depends on data: the peak is with the largest size."
    ]


def test_what_cannot_run_without_values_says_why(live: LiveWorker) -> None:
    source = "import torch\n# fuselight: f(f32[8])\ndef f(x):\n    return x.repeat_interleave(x.long()) + 1\n"
    (estimate,) = estimated(live, source).memory
    assert estimate.eager is None
    assert "DynamicOutputShape" in estimate.why_not_eager


PROGRAM = """\
import torch
from torch import nn

def main():
    net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)).cuda().half()
    step = torch.compile(net)
    optimizer = torch.optim.AdamW(net.parameters())
    for index in range(1000):
        x = torch.randn(256, 32, device="cuda", dtype=torch.half)
        loss = (step(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    raise ValueError("it was not ended")

if __name__ == "__main__":
    main()
"""


def test_a_program_is_estimated_by_its_first_steps_in_both_forms(live: LiveWorker) -> None:
    report = estimated(live, PROGRAM, "")
    assert report.failures == ()
    (estimate,) = report.memory
    assert (estimate.training, estimate.optimizer) == (True, "adamw")
    parameters = (32 * 64 + 64 + 64 * 32 + 32) * 2
    for peak in peaks(estimate):
        assert bytes_of(peak, MemoryUse.PARAMETER) == parameters
        assert bytes_of(peak, MemoryUse.OPTIMIZER) == 2 * parameters + 4 * 4
        assert sum(row.bytes for row in peak.held) == peak.bytes
        assert {row.location.line for row in peak.saved if row.location is not None} == {9, 10}


def test_a_program_and_a_model_that_fail_are_failures(live: LiveWorker) -> None:
    report = estimated(live, "if __name__ == '__main__':\n    raise ValueError('no data')\n", "", fails=True)
    assert ["no data" in failure.message for failure in report.failures] == [True]
    broken = MODEL.replace(
        "self.register_buffer", "raise ValueError('no such size')\n        self.register_buffer"
    )
    report = estimated(live, broken, "Net", fails=True)
    assert "no such size" in report.failures[0].message


SHARDED = """\
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

# fuselight: sharded()(f32[64, 64], train=True)
def sharded():
    net = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False))
    for layer in net:
        fully_shard(layer, mesh=init_device_mesh("cuda", (4,)))
    return net
"""


def test_a_rank_has_its_share_of_parameters_and_frees_what_it_gathers(live: LiveWorker) -> None:
    request = live.request(SHARDED, "sharded").of_kind(MemoryRequest, device=find("cpu"))
    (estimate,) = live.report(replace(request, world=WorldPlan(4, rank=1))).memory
    share = 2 * 64 * 64 * 4 // 4
    for peak in peaks(estimate):
        assert bytes_of(peak, MemoryUse.PARAMETER) == share
        assert bytes_of(peak, MemoryUse.OPTIMIZER) == 2 * share + 2 * 4
        assert all(row.bytes for row in peak.held)


CHECKPOINTED = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
    def forward(self, x):
        return x + self.down(nn.functional.dropout(self.up(x).relu(), 0.1, self.training))

# fuselight: Net(False)(f32[512, 64], train=True)
# fuselight: Net(True)(f32[512, 64], train=True)
class Net(nn.Module):
    def __init__(self, recomputes):
        super().__init__()
        self.parts, self.recomputes = nn.ModuleList(Part() for _ in range(2)), recomputes
    def forward(self, x):
        for part in self.parts:
            x = checkpoint(part, x, use_reentrant=False) if self.recomputes else part(x)
        return x.sum()
"""


def test_what_is_recomputed_is_not_kept_also_where_it_draws_random_numbers(live: LiveWorker) -> None:
    kept, recomputed = estimated(live, CHECKPOINTED, "Net", device="h100").memory
    for whole, less in zip(peaks(kept), peaks(recomputed), strict=True):
        assert sum(row.bytes for row in less.saved) < 0.4 * sum(row.bytes for row in whole.saved)
        assert less.bytes < whole.bytes


def test_tensors_whose_memory_is_not_counted_are_named(live: LiveWorker) -> None:
    source = "import torch\n# fuselight: f(f32[8, 8])\ndef f(x):\n    return (x.to_sparse() * 2).to_dense()\n"
    notes = [note.text for note in estimated(live, source).notes if note.kind == "unfollowed"]
    whole = estimated(live, "import torch\n# fuselight: f(f32[8, 8])\ndef f(x):\n    return x + 1\n")
    assert not [note for note in whole.notes if note.kind == "unfollowed"]
    assert notes == ["The memory of some tensors is not in the estimate: torch.sparse_coo."]

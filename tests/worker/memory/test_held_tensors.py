"""What a name of the program keeps in memory, and what grows from call to call: on fake tensors, in eager mode."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.storages import storage_key
from fuselight.adapters.virtual_gpu.replayed import ReplayBackend
from fuselight.capture.calls.calls import Prepared
from fuselight.shared.devices import find
from fuselight.shared.protocol import MemoryRequest
from fuselight.shared.report import MemoryUse
from fuselight.worker.child.tensor_holders import HeldStorages
from fuselight.worker.memory.forms import FormEstimator, FormPeak, eager_form, kept_attributes
from fuselight.worker.memory.held_tensors import label_held
from fuselight.worker.memory.modules import ModuleStack
from fuselight.worker.memory.peaks import tracker_for
from fuselight.worker.memory.steps import Step
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch
CPU = find("cpu")
ROWS = 1 << 14
BYTES = ROWS * 64 * 4
KNOWS_SAVED = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13)
outputs: list[Any] = []
losses: list[Any] = []


class Keeps(nn.Module):
    """What `forward` keeps is chosen by a word."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.up, self.what = nn.Linear(64, 64), what
        self.last: torch.Tensor | None = None
        self.cache: dict[int, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)
        if self.what == "attribute":
            self.last = h
        elif self.what == "needed":
            self.last = torch.relu(h)
            return self.last.exp()
        elif self.what == "cache":
            self.cache[0] = h.detach() + 1
        elif self.what == "list":
            outputs.append(h.detach() + 1)
        elif self.what == "joined":
            new = h.detach()
            self.last = new if self.last is None else torch.cat([self.last, new])
        elif self.what == "graph":
            losses.append(h.exp().sum())
        elif self.what == "checkpoint":
            self.last = h
            result: torch.Tensor = checkpoint(torch.tanh, h, use_reentrant=False)
            return result
        return torch.relu(h)


def form_of(what: str, *, training: bool = True) -> FormPeak:
    outputs.clear()
    losses.clear()
    device = CPU
    assert device is not None
    with settings.fake_tensors():
        net = Keeps(what)
        step = Step.of(Prepared(net, (torch.randn(ROWS, 64),), {}), "sgd", training=training)
        estimator = FormEstimator(device, (str(Path(__file__).parent),), ReplayBackend(device))
        with eager_form(device), torch.set_grad_enabled(training):
            form = estimator.peak(step, net, net)
    outputs.clear()
    assert form.peak is not None, form.why_not
    return form


def held_in(form: FormPeak) -> dict[str, int]:
    sizes: dict[str, int] = {}
    assert form.peak is not None
    for row in form.peak.held:
        if row.use is MemoryUse.HELD:
            sizes[row.holder] = sizes.get(row.holder, 0) + row.bytes
    assert sum(row.bytes for row in form.peak.held) == form.peak.bytes
    return sizes


@pytest.mark.skipif(not KNOWS_SAVED, reason="torch 2.12 and earlier does not show what autograd saves")
def test_an_attribute_holds_what_the_backward_does_not_need() -> None:
    form = form_of("attribute")
    assert held_in(form) == {"self.last": BYTES}
    assert form.growth == ()
    assert form.peak is not None
    (row,) = (row for row in form.peak.held if row.use is MemoryUse.HELD)
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert row.location is not None
    assert source[row.location.line - 1].strip() == "h = self.up(x)"
    assert all(kept.location != row.location for kept in form.peak.saved)


@pytest.mark.parametrize("what", ["nothing", "needed", "checkpoint"])
def test_what_the_backward_may_need_is_held_by_no_name(what: str) -> None:
    assert held_in(form_of(what)) == {}


def test_a_list_grows_and_a_cache_of_one_entry_does_not() -> None:
    grown = form_of("list").growth
    assert [(row.name, row.kind, row.bytes) for row in grown] == [("outputs", "list", BYTES)]
    assert grown[0].location is not None
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert source[grown[0].location.line - 1].strip() == "outputs.append(h.detach() + 1)"
    assert form_of("cache").growth == ()


def test_a_tensor_that_is_joined_to_the_one_before_grows() -> None:
    grown = form_of("joined").growth
    assert [(row.name, row.kind, row.bytes) for row in grown] == [("self.last", "attribute", BYTES)]


@pytest.mark.skipif(not KNOWS_SAVED, reason="torch 2.12 and earlier does not show what autograd saves")
def test_a_list_of_losses_holds_their_graphs() -> None:
    held = held_in(form_of("graph"))
    assert held["graph of losses"] >= BYTES
    assert held.get("losses", 0) < BYTES


def test_a_function_has_the_parameters_of_the_modules_that_it_names() -> None:
    assert CPU is not None
    with settings.fake_tensors():
        net, other = nn.Linear(64, 64), nn.Linear(64, 64)

        def loss_of(x: torch.Tensor) -> torch.Tensor:
            loss: torch.Tensor = net(x).square().mean()
            return loss

        def step_of(x: torch.Tensor) -> torch.Tensor:
            return loss_of(x)

        step = Step.of(Prepared(step_of, (torch.randn(ROWS, 64),), {}), "sgd", training=True)
        estimator = FormEstimator(CPU, (str(Path(__file__).parent),), ReplayBackend(CPU))
        with eager_form(CPU):
            peak = estimator.peak(step, step_of).peak
    assert peak is not None
    sizes = {row.use: row.bytes for row in peak.held}
    own = sum(parameter.nbytes for parameter in other.parameters())
    assert [sizes.get(use) for use in (MemoryUse.PARAMETER, MemoryUse.OPTIMIZER)] == [own, own]


@pytest.mark.skipif(not KNOWS_SAVED, reason="torch 2.12 and earlier does not show what autograd saves")
def test_who_holds_a_tensor_later_is_not_said_of_the_peak_before() -> None:
    assert CPU is not None
    with settings.fake_tensors(), tracker_for(CPU, (), ModuleStack(), lambda: None) as tracker:
        kept = torch.ones(ROWS)
        tracker.alive()[0].use = MemoryUse.SAVED.value
        torch.ones(2 * ROWS)  # the peak, in which a backward needs `kept`
        name = HeldStorages("kept", "variable", "f", storages={storage_key(kept) or 0: kept})
        label_held(tracker, [name], [])
        assert [storage.use for storage in tracker.alive_at(tracker.peak.number)] == [
            MemoryUse.SAVED.value,
            "",
        ]
        assert [storage.use for storage in tracker.alive()] == [MemoryUse.HELD.value]


def test_attributes_are_as_before_once_a_form_was_estimated() -> None:
    net = Keeps("cache")
    net.cache[5] = net.up.weight
    cache = net.cache
    with kept_attributes(net):
        net.cache.clear()
        net.last = net.up.bias
        net.other = torch.ones(1)
    assert net.cache is cache
    assert list(cache) == [5]
    assert net.last is None
    assert not hasattr(net, "other")


def test_a_call_for_inference_counts_what_the_call_before_has_left() -> None:
    plain, kept = form_of("nothing", training=False), form_of("list", training=False)
    assert plain.peak is not None
    assert kept.peak is not None
    assert held_in(plain) == {}
    assert held_in(kept)["outputs"] >= BYTES
    assert kept.peak.bytes > plain.peak.bytes


def test_no_tensor_lives_longer_for_the_search() -> None:
    before = sys.getrefcount(outputs)
    form_of("list")
    assert outputs == []
    assert sys.getrefcount(outputs) == before


PROGRAM = """\
import torch
def train(kept):
    net = torch.compile(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(9):
        out = net(torch.randn(16384, 64))
        copy = out.detach() + 1
        kept["out"].append(out.detach() * 2)
        out.square().mean().backward()
        optimizer.step()
if __name__ == "__main__":
    train({"out": []})
"""


def test_a_program_has_the_variables_of_its_functions_and_what_grows(live: LiveWorker) -> None:
    report = live.report(live.request(PROGRAM, "").of_kind(MemoryRequest, device=CPU))
    assert report.failures == ()
    (estimate,) = report.memory
    assert [(row.name, row.scope, row.bytes) for row in estimate.growth] == [("kept", "train", BYTES)]
    assert estimate.growth[0].location is not None
    assert estimate.growth[0].location.line == 8
    for peak in filter(None, (estimate.eager, estimate.compiled)):
        held = {
            row.holder: row.bytes for row in peak.held if row.use is MemoryUse.HELD and row.bytes >= BYTES
        }
        assert held == {"copy": BYTES, "kept": 3 * BYTES}


EVALUATED = """\
import torch
def evaluate(net):
    kept = []
    for _ in range(4):
        kept.append(net(torch.randn(16384, 64)).exp().mean(-1))
    return torch.cat(kept)
if __name__ == "__main__":
    evaluate(torch.compile(torch.nn.Linear(64, 64)))
"""


def test_a_program_without_a_backward_holds_the_graphs_of_its_results(live: LiveWorker) -> None:
    report = live.report(live.request(EVALUATED, "").of_kind(MemoryRequest, device=CPU))
    (estimate,) = report.memory
    for peak in filter(None, (estimate.eager, estimate.compiled)):
        held = sum(row.bytes for row in peak.held if row.holder == "graph of kept")
        assert held >= 2 * 2 * BYTES, "the input and the result of exp() of two calls or more"


RETAINED = """\
import torch
def train(last):
    net = torch.compile(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(9):
        net(torch.randn(16384, 64)).square().mean().backward(retain_graph=True)
        optimizer.step()
if __name__ == "__main__":
    train({})
"""


@pytest.mark.corpora
def test_a_program_that_keeps_its_graph_is_estimated_compiled(live: LiveWorker) -> None:
    (estimate,) = live.report(live.request(RETAINED, "").of_kind(MemoryRequest, device=CPU)).memory
    assert estimate.compiled is not None, estimate.why_not_compiled

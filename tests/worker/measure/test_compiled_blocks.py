"""Compiling repeated blocks one by one, and the optimizer's step, as a configuration asks for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo import register_backend

from fuselight.capture.calls.calls import Prepared
from fuselight.measure.accuracy.results import CHANGED, CallResults, of_call
from fuselight.measure.compile_configuration import configured
from fuselight.measure.measured_call import Unit
from fuselight.shared.configurations import ConfigurationError, parse_configuration
from fuselight.shared.devices import find
from fuselight.shared.inputs.grammar import Options
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import Answer, MeasureRequest
from fuselight.shared.report import Culprit, Work
from fuselight.worker.child.compiled_blocks import compile_blocks, find_blocks
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch
LAYERS = 4


graphs: list[torch.fx.GraphModule] = []


@register_backend
def collects(gm: torch.fx.GraphModule, _inputs: Any) -> Any:
    graphs.append(gm)
    return gm.forward


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x))


class Stack(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.layers = torch.nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return x


def prepared(module: Any) -> Prepared:
    return Prepared(module, (torch.ones(2, 8),), {}, Options())


@pytest.fixture
def seeded() -> Stack:
    torch._dynamo.reset()
    torch.manual_seed(0)
    return Stack()


def test_blocks_have_the_names_of_their_modules_and_hold_what_is_within(seeded: Stack) -> None:
    assert list(find_blocks(prepared(seeded))) == [f"layers.{index}" for index in range(LAYERS)]
    plain = torch.nn.Linear(8, 8)
    within = Prepared(lambda model, x: model(x), (seeded, torch.ones(2, 8)), {}, Options())
    assert next(iter(find_blocks(within))) == "input 0.layers.0"
    assert find_blocks(prepared(plain)) == {}


def test_equal_blocks_share_one_compile_and_the_rest_stays_eager(seeded: Stack) -> None:
    graphs.clear()
    with torch.no_grad(), configured(parse_configuration("backend:collects+blocks"), find("cpu")):
        expected = seeded(torch.ones(2, 8))
        names = compile_blocks(prepared(seeded))
        torch.testing.assert_close(seeded(torch.ones(2, 8)), expected)
    assert names == tuple(f"layers.{index}" for index in range(LAYERS))
    assert len(graphs) == 1
    assert "first" not in graphs[0].code


def test_a_model_without_blocks_or_compiled_by_its_source_is_refused(seeded: Stack) -> None:
    with pytest.raises(ConfigurationError, match="no list of more than two equal layers"):
        compile_blocks(prepared(torch.nn.Linear(8, 8)))
    with pytest.raises(ConfigurationError, match="the source compiles"):
        compile_blocks(prepared(torch.compile(seeded, backend="eager")))
    seeded.layers[1].compile(backend="eager")
    with pytest.raises(ConfigurationError, match="the source compiles"):
        compile_blocks(prepared(seeded))


def test_the_optimizers_step_is_compiled_and_leaves_the_same_parameters(seeded: Stack) -> None:
    def results(configuration: str) -> CallResults:
        graphs.clear()
        torch.manual_seed(0)
        module = Stack()
        parsed = parse_configuration(configuration)
        with configured(parsed, find("cpu")):
            call = prepared(module)
            return of_call(call, module, Work.TRAINING_STEP, compiles_optimizer=parsed.optimizer)

    plain = results("backend:collects")
    assert not graphs
    stepped = results("backend:collects+optimizer")
    assert len(graphs) == 1
    assert "add" in graphs[0].code
    changed = [value for value in stepped.values if value.name.endswith(CHANGED)]
    assert len(changed) == sum(1 for _ in seeded.parameters())
    for value, other in zip(stepped.values, plain.values, strict=True):
        assert value.name == other.name
        torch.testing.assert_close(value.tensor, other.tensor)


def test_the_optimizers_step_is_compiled_without_the_models_options(seeded: Stack) -> None:
    parsed = parse_configuration("reduce-overhead+combo_kernels=True+channels_last+optimizer")
    with configured(parsed, find("cpu")) as backends:
        Unit(prepared(seeded), seeded, Work.TRAINING_STEP, compiles_optimizer=True)
        torch.compile(seeded)
        torch.compile(dynamic=True)(torch.optim.SGD(seeded.parameters()).step)
    of_step, of_model, of_other_step = backends.by_inductor
    for compilation in (of_step, of_other_step):
        assert (compilation.cudagraphs, compilation.options) == (False, {})
    assert (of_model.cudagraphs, of_model.options["combo_kernels"]) == (True, True)
    assert backends.options == of_model.options
    assert backends.suspect is of_model.unrecorded
    step, model, _ = backends.backends.values()
    with backends.replaced_by(str):
        assert (step.instead, model.instead) == (None, str)


def test_without_parameters_there_is_no_step_to_compile() -> None:
    unit = Unit(prepared(torch.nn.ReLU()), torch.nn.ReLU(), Work.TRAINING_STEP, compiles_optimizer=True)
    assert list(unit.notes) == ["it has no parameters: a training step is forward and backward"]


@pytest.mark.timeout(200)
def test_in_a_benchmark_they_are_rows_that_say_what_is_wrong(live: LiveWorker) -> None:
    source = (
        "import torch\n\n# fuselight: Net()(f32[2, 4])\nclass Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.one = torch.nn.Linear(4, 4)\n\n"
        "    def forward(self, x):\n        return self.one(x)\n"
    )
    request = live.request(source, "Net", seconds=150.0)
    names = ("backend:eager+blocks", "backend:eager+optimizer")
    plan = MeasurePlan(configurations=names, seconds=0.1, rounds=3, device="cpu", profile=False)
    outcome = live.do(
        live.worker.run(request.of_kind(MeasureRequest, plan=plan), live.progress.append), 150.0
    )
    assert isinstance(outcome, Answer), outcome
    assert outcome.report.measured is not None
    rows = {row.name: row for row in outcome.report.measured.configurations}
    for name, why in zip(names, ("no list of more than two", "has no optimizer's step"), strict=True):
        failure = rows[name].failure
        assert failure is not None
        assert (failure.culprit, failure.kind) == (Culprit.USER, "configuration")
        assert why in failure.message
        assert "ConfigurationError" not in failure.message

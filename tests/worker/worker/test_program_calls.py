"""Calls that a program makes of what it compiles, repeated with its objects and in its modes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.protocol import VerifyRequest
from fuselight.shared.report import Culprit, Report, Rung
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

PROGRAM = """\
import threading

import torch
from torch import nn

import shared


def show(*values):
    print("seen", *values)


class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 3)
        self.step = torch.compile(self._step)

    def _step(self, x):
        show(self.model.training, torch.is_grad_enabled(), x.requires_grad)
        return self.model(x).sum()


class Block(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


@torch.compile
def on_parameter(weight, other):
    show(type(weight).__name__, weight.requires_grad, other.requires_grad, other.is_leaf)
    return weight.sum() + other.sum()


@torch.compile
def reads(batches):
    return next(batches) + 1


class Average:
    def __init__(self):
        self.value = torch.zeros(3)

    @torch.compile
    @torch.no_grad()
    def update(self, x, weight=0.5):
        self.value.lerp_(x, weight)


class Shift:
    def __call__(self, x, by=1):
        return x + by


def main():
    scale = 3
    average, shift = Average(), torch.compile(Shift())
    average.update(shift(torch.ones(3)), weight=0.25)

    @torch.compile
    def scaled(x):
        show(scale)
        return x * scale

    scaled(torch.ones(4))
    trainer = Trainer()
    for size in (2, 2, 2, 5):
        trainer.step(torch.ones(size, 4)).backward()
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    compiled = torch.compile(net)
    with torch.no_grad():
        compiled(torch.ones(3, 4))
    on_parameter(net[0].weight, net[0].weight * 2)
    reads(iter([torch.ones(2)]))
    for layer in (Block(1), Block(2)):
        layer.compile()
        layer(torch.ones(2))
    shared.doubled(torch.ones(2))
    worker = threading.Thread(target=in_thread, args=(torch.ones(6),))
    worker.start()
    worker.join()


@torch.compile
def in_thread(x):
    return x + 1


if __name__ == "__main__":
    main()
"""
SHARED = "import torch\n\n\n@torch.compile\ndef doubled(x):\n    return x * 2\n"


@pytest.fixture(scope="module")
def program(live: LiveWorker) -> Report:
    """The report of the whole program."""
    (live.folder / "shared.py").write_text(SHARED)
    return live.analyse(PROGRAM, "", file="main.py")


def repeated(live: LiveWorker, name: str) -> Report:
    """The report of the calls of one thing that the program compiles."""
    request = live.request(PROGRAM, "", file="main.py")
    return live.report(replace(request, target=replace(request.target, name=name, kind="call")))


def test_a_program_names_what_it_compiles_and_where(program: Report) -> None:
    compiled = {
        recorded_call.target: recorded_call.compiled_at
        for recorded_call in program.recorded
        if recorded_call.compiled_at is not None
    }
    assert set(compiled) == {
        *("main.scaled", "Trainer._step", "Sequential", "on_parameter", "reads"),
        *("Block", "doubled", "in_thread", "Average.update", "Shift"),
    }
    assert all(at is not None and at.path.endswith((".py",)) for at in compiled.values())
    assert {
        recorded_call.path for recorded_call in program.recorded if recorded_call.target == "doubled"
    } == {str(program.target.path).replace("main.py", "shared.py")}


@pytest.mark.parametrize(
    ("name", "calls", "seen"),
    [
        ("main.scaled", ["main.scaled(f32[4])"], "seen 3"),
        (
            "Trainer._step",
            ["Trainer._step(f32[2, 4])", "Trainer._step(f32[2, 4])", "Trainer._step(f32[5, 4])"],
            "seen True True False",
        ),
        ("Sequential", ["Sequential(f32[3, 4])"], ""),
        ("on_parameter", ["on_parameter(f32[4, 4], f32[4, 4])"], "seen Parameter True True False"),
        ("Block", ["Block(f32[2])", "Block(f32[2])"], ""),
        ("doubled", ["doubled(f32[2])"], ""),
        ("in_thread", ["in_thread(f32[6])"], ""),
        ("Average.update", ["Average.update(<Average>, f32[3], weight=0.25)"], ""),
        ("Shift", ["Shift(f32[3])"], ""),
    ],
)
def test_calls_are_repeated_with_the_programs_objects(
    live: LiveWorker, program: Report, name: str, calls: list[str], seen: str
) -> None:
    del program  # which has written the files
    report = repeated(live, name)
    assert report.failures == ()
    assert report.inputs is not None
    assert report.inputs.rung is Rung.MAIN
    assert [call.text for call in report.inputs.calls] == calls
    assert report.inputs.grad is (name != "Sequential")
    # In training mode it stays there, also without gradients.
    assert name != "Sequential" or report.inputs.training is True
    assert any(record.graph is not None for record in report.compiles)
    # Seen first while the program runs in eager mode, last when the call is repeated.
    lines = [line for line in report.output.stdout.splitlines() if line == seen]
    assert not seen or len(lines) >= 2, report.output.stdout


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("reads", "called with an iterator (list_iterator), which can be read only once"),
        (
            "missing",
            "the program does not compile missing: it compiles doubled, on_parameter, reads, Average.update, in_thread",
        ),
    ],
)
def test_what_cannot_be_repeated_is_said(live: LiveWorker, program: Report, name: str, why: str) -> None:
    del program
    (failure,) = repeated(live, name).failures
    assert failure.kind == "inputs"
    assert why in failure.message
    assert failure.next_step


STEPS = """\
import torch
from torch import nn

net = nn.Linear(4, 2)
opt = torch.optim.Adam(net.parameters(), lr=0.1)


class Clip:
    def __init__(self, parameters):
        self.parameters = list(parameters)

    @torch.compile(backend="eager")
    def norm(self, most):
        return torch.stack([p.grad.norm() for p in self.parameters if p.grad is not None]).sum() / most


@torch.compile(backend="eager")
def moved():
    print("moved", len(opt.state), net.training)
    return sum(state["exp_avg"].norm() for state in opt.state.values()) + 0 * net.weight.grad.sum()


queue = [1.0, 2.0]


@torch.compile(backend="eager")
def taken(x):
    return x + torch.stack([torch.full((), value) for value in queue]).sum()


@torch.compile(backend="eager")
def guessed(x):
    return x.view(3)


if __name__ == "__main__":
    clip = Clip(net.parameters())
    for _ in range(2):
        net(torch.randn(3, 4)).sum().backward()
        clip.norm(2.0)
        opt.step()
        moved()
        opt.zero_grad()
    opt.state.clear()
    net.eval()
    taken(torch.ones(2))
    queue.clear()
    try:
        guessed(torch.ones(2))
    except RuntimeError:
        print("no")
"""


def steps(live: LiveWorker, name: str) -> Report:
    request = live.request(STEPS, "", file="steps.py")
    return live.report(replace(request, target=replace(request.target, name=name, kind="call")))


@pytest.mark.parametrize("name", ["Clip.norm", "moved"])
def test_a_call_has_the_gradients_and_the_optimizer_state_that_it_had(live: LiveWorker, name: str) -> None:
    live.analyse(STEPS, "", file="steps.py")
    report = steps(live, name)
    assert report.failures == ()
    if name == "moved":  # four times while the program runs and where it is repeated
        assert report.output.stdout.split().count("2") >= 4
        assert "moved 0" not in report.output.stdout
        assert "False" not in report.output.stdout, "the program has called eval() since"
    else:
        assert any(record.graph is not None for record in report.compiles)


def test_a_call_that_fails_only_when_it_is_repeated_is_no_fault_of_the_program(live: LiveWorker) -> None:
    live.analyse(STEPS, "", file="steps.py")
    (ours,) = steps(live, "taken").failures
    assert ours.culprit is Culprit.FUSELIGHT
    assert ours.message.startswith("the call cannot be repeated alone: RuntimeError: stack expects")
    assert "# fuselight:" in ours.next_step
    (theirs,) = steps(live, "guessed").failures
    assert theirs.culprit is Culprit.USER
    assert "alone" not in theirs.message


LARGE = """\
import torch


@torch.compile
def many(x):
    for _ in range(160):
        x = x.sin()
    return x


@torch.compile
def few(x, weight):
    return torch.add(x, x, alpha=weight)


if __name__ == "__main__":
    many(torch.ones(2))
    for weight in (0.5, 0.25, 0.125):
        few(torch.ones(2), weight)
"""


def test_a_graph_that_is_too_large_for_aot_autograd_is_counted_and_the_others_are_traced(
    live: LiveWorker,
) -> None:
    report = live.analyse(LARGE, "", file="large.py")
    assert report.failures == ()
    (note,) = (note for note in report.notes if note.kind == "without_aot")
    assert note.text.startswith("1 graph was captured by TorchDynamo alone")
    assert len(report.recompiles) == 2, "AOTAutograd specializes each weight"


def test_a_program_that_needs_arguments_is_to_be_recorded_with_them(live: LiveWorker) -> None:
    source = """\
import argparse
import torch

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    torch.compile(print)(parser.parse_args().data)
"""
    failure = live.failure(source, "", file="arguments.py")
    assert failure.kind == "exit"
    assert "`fuselight run PROGRAM ARGS`" in failure.next_step


ENDS_LATER = """\
import torch


@torch.compile
def f(x):
    return x * 2


if __name__ == "__main__":
    f(torch.ones(3))
    raise ValueError("a program that is run again for each further call does not come to this line")
"""


def test_a_further_call_runs_the_program_up_to_its_first_call_alone(live: LiveWorker) -> None:
    """A training loop of 8 steps was run for each of some 40 calls, of which each varies the first step."""
    request = live.request(ENDS_LATER, "f", file="later.py")
    (live.folder / "later").mkdir()
    asked = replace(request, target=replace(request.target, kind="call")).of_kind(
        VerifyRequest,
        folder=str(live.folder / "later"),
        records=True,
        cases=True,
        seconds=60.0,
        automatic=True,
    )
    report = live.report(asked)
    assert report.failures == ()
    assert report.verification is not None
    assert not report.verification.refused

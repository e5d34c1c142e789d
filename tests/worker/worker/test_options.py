"""The options of a directive, and a CUDA device on a machine without one, in a real worker."""

from __future__ import annotations

import pytest
import torch

from fuselight.shared.report import Culprit
from tests.support.live_worker import LiveWorker

NET = """\
import torch
# fuselight: Net()(f32[2, 4]{options})
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(4, 4)
    def forward(self, x):
        print(self.training, torch.is_grad_enabled(), x.device, type(x).__name__)
        return self.l(x)
"""


@pytest.mark.parametrize(
    ("options", "training", "grad"),
    [
        ("", False, False),
        (", no_grad=True", False, False),
        (", train=True", True, True),
        (", no_grad=False", False, True),
    ],
)
def test_train_and_gradients(live: LiveWorker, options: str, training: bool, grad: bool) -> None:  # noqa: FBT001 - a table
    report = live.analyse(NET.replace("{options}", options), "Net")
    assert report.failures == ()
    assert report.output.stdout.startswith(f"{training} {grad} ")
    assert report.inputs is not None
    assert (report.inputs.training, report.inputs.grad) == (training, grad)


def test_training_runs_backward_of_all_outputs(live: LiveWorker) -> None:
    source = """\
import torch
class Loud(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        print("backward", tuple(g.shape))
        return g
# fuselight: f(f32[3], train=True)
def f(x):
    return {"a": Loud.apply(x), "b": [x.sum(), 3]}
"""
    report = live.analyse(source)
    assert report.failures == ()
    assert "backward (3,)" in report.output.stdout


def test_training_without_anything_to_train_says_so(live: LiveWorker) -> None:
    report = live.analyse("import torch\n# fuselight: f(i64[3], train=True)\ndef f(x):\n    return x * 2\n")
    assert report.failures == ()
    assert [note.kind for note in report.notes] == ["no_backward"]


def test_an_exception_in_backward_is_the_users(live: LiveWorker) -> None:
    source = """\
import torch
class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, g):
        raise ValueError("mine")
@torch.compiler.disable
def bad(x):
    return Bad.apply(x)
# fuselight: f(f32[3], train=True)
def f(x):
    return bad(x) + 1
"""
    failure = live.failure(source)
    assert (failure.culprit, failure.exception, failure.stack[-1].line) == (Culprit.USER, "ValueError", 8)


def test_dynamic_is_handed_to_torch_compile(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: f(f32[3]{o})\n# fuselight: f(f32[5]{o})\ndef f(x):\n    return x * 2\n"
    )
    assert len(live.analyse(source.replace("{o}", "")).recompiles) == 1
    assert len(live.analyse(source.replace("{o}", ", dynamic=True")).recompiles) == 0


def test_fake_tensors_on_request(live: LiveWorker) -> None:
    source = """\
import torch
# fuselight: Net()(f32[8, 100000], fake=True)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(100000, 100000)
    def forward(self, x):
        return self.l(x).relu()
"""
    report = live.analyse(source, "Net", memory_mb=1500)
    assert report.failures == ()
    assert report.inputs is not None
    assert report.inputs.fake
    assert ["fake=True" in note.text for note in report.notes if note.kind == "fake_tensors"] == [True]
    assert len(report.compiles) == 1


def test_a_parameter_of_that_name_gets_the_value(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: f(f32[3], train=5)\ndef f(x, train):\n    print(train)\n    return x\n"
    )
    assert live.analyse(source).output.stdout == "5\n"


def test_a_device_of_the_directive(live: LiveWorker) -> None:
    report = live.analyse(NET.replace("{options}", ', device="meta"'), "Net")
    assert report.failures == ()
    assert " meta " in report.output.stdout


def test_a_device_that_does_not_exist(live: LiveWorker) -> None:
    failure = live.failure(NET.replace("{options}", ', device="nonsense"'), "Net")
    assert (failure.culprit, failure.directive_line) == (Culprit.USER, 2)


def test_the_options_of_torch_compile_are_on_its_line(live: LiveWorker) -> None:
    source = """\
import torch
@torch.compile(mode="max-autotune", fullgraph=True)
# fuselight: f(f32[4])
def f(x):
    return x.sin()
g = torch.compile(f, backend="aot_eager")
h = torch.compile(f, options={"epilogue_fusion": True})
k = torch.compile(f, backend="inductor", dynamic=True)
"""
    report = live.analyse(source)
    assert report.failures == ()
    notes = {note.location.line: note.text for note in report.notes if note.location is not None}
    assert sorted(notes) == [2, 6, 7]
    assert "mode='max-autotune'" in notes[2]
    assert "backend='aot_eager'" in notes[6]
    assert "epilogue_fusion=True" in notes[7]
    assert {note.kind for note in report.notes} == {"compile_options"}


CUDA = """\
import torch
from torch.cuda.amp import autocast
torch.set_default_device("cuda")
# fuselight: Net()(f32[2, 4].cuda(), device="cuda")
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(4, 4).cuda()
        self.side = torch.cuda.Stream()
        self.done = torch.cuda.Event()
    def forward(self, x):
        x = x.to("cuda") + torch.ones(4, device=torch.device("cuda", 0))
        return step(self, x)
@torch.compiler.disable
def step(net, x):
    with torch.cuda.stream(net.side), autocast():
        y = net.l(x)
    net.done.record()
    torch.cuda.current_stream().wait_stream(net.side)
    torch.cuda.synchronize()
    print(y.device)
    return y
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device: nothing is redirected")
def test_a_hard_coded_cuda_device_runs_on_the_cpu_with_its_lines(live: LiveWorker) -> None:
    report = live.analyse(CUDA, "Net")
    assert report.failures == ()
    assert report.output.stdout == "cpu\n"
    notes = [note for note in report.notes if note.kind == "device_redirected"]
    assert sorted({note.location.line for note in notes if note.location}) == [
        2, 3, 4, 8, 9, 10, 12, 16, 19, 20
    ]  # fmt: skip
    directive = next(note for note in notes if note.location and note.location.line == 4)
    assert directive.location is not None
    assert (
        CUDA.splitlines()[3][directive.location.column : directive.location.end_column] == "f32[2, 4].cuda()"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device: nothing is redirected")
def test_a_cuda_api_without_a_cpu_counterpart_fails_on_its_line(live: LiveWorker) -> None:
    source = "import torch\n# fuselight: f(f32[2])\ndef f(x):\n    return x\n"
    source += "P = torch.cuda.caching_allocator_alloc(8)\n"
    failure = live.failure(source)
    assert (failure.culprit, failure.phase, failure.stack[0].line) == (Culprit.USER, "import", 5)

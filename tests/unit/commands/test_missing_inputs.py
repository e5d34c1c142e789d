"""What a run that lacks inputs suggests: a directive with a value for each parameter."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.protocol import Answer, CaptureRequest, InputsPlan, RunRequest, Target
from fuselight.shared.report import Culprit, Failure, Report
from fuselight_server.base.settings import Interpreter
from fuselight_server.commands.targets import TargetRun
from fuselight_server.explain.findings.failures import failure_report

SEVERAL = """\
import dataclasses, enum
import torch

class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

@dataclasses.dataclass
class Plan:
    steps: int
    mode: "Mode"
    rate: float = 0.5

@torch.compile
def planned(x: torch.Tensor, plan: Plan, mode: "Mode | None", n: int, rows: list[int], *, flag: bool, more=None):
    return x * n

@torch.compile
def add(x, y, scale=2):
    return x + y * scale

class Net(torch.nn.Module):
    def forward(self, x, mask):
        return x * mask

    def step(self, x, y, z):
        return x

net = torch.compile(Net())
relu = torch.compile(torch.nn.Sequential(torch.nn.ReLU()))
"""


def answered(path: Path, name: str, failure: Failure) -> Report:
    """The report of a run that a worker ends with this failure."""

    async def run(request: RunRequest, _on_progress: Any, _on_partial: Any) -> Answer:
        return Answer(request.id, failure_report(request, failure, None))

    worker: Any = SimpleNamespace(run=run, hello=None)
    target = Target(str(path), name, "function", 1, compiled=True)
    request = CaptureRequest(1, 1, target, InputsPlan(), roots=(str(path.parent),))
    return asyncio.run(TargetRun(request, worker, Interpreter(""), print).run_report())


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("add", "add(f32[2, 8], f32[2, 8])"),
        ("planned", "planned(f32[2, 8], Plan(steps=8, mode=Mode.FAST), Mode.FAST, 8, [8], flag=True)"),
        ("Net", "Net()(f32[2, 8], f32[2, 8])"),
        ("net", "net(f32[2, 8], f32[2, 8])"),
        ("relu", "relu(f32[2, 8])"),
    ],
)
def test_the_directive_that_is_suggested_has_an_argument_for_each_parameter(
    tmp_path: Path, name: str, example: str
) -> None:
    path = tmp_path / "model.py"
    path.write_text(SEVERAL, encoding="utf-8")
    failure = Failure(
        Culprit.USER, "inputs", "no inputs are known", f"`# fuselight: {name}(...)`", phase="build"
    )
    (shown,) = answered(path, name, failure).failures
    assert f"`# fuselight: {example}`" in shown.next_step


def test_a_directive_that_is_wrong_keeps_its_own_advice(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(SEVERAL, encoding="utf-8")
    failure = Failure(
        Culprit.USER, "inputs", "it does not parse", "correct it", phase="build", directive_line=3
    )
    assert answered(path, "add", failure).failures == (failure,)
    missing = Failure(
        Culprit.USER, "inputs", "no inputs are known", "`# fuselight: other(...)`", phase="build"
    )
    assert answered(path, "other", missing).failures == (missing,), "not a target of the file"

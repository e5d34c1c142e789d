"""`fuselight accuracy` as a user runs it, on programs that are wrong at each stage, and on one that is right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.lsp_client import ROOT
from tests.support.prepared import prepared_interpreter

pytestmark = pytest.mark.torch

DEADLINE = 240

GUARD = """\
import functools
import torch


def scaled_by(op):
    @torch.compile(backend="aot_eager")
    def apply(x, y):
        return op(x, y)
    return apply


if __name__ == "__main__":
    shape, scale = torch.full((4,), 3.0), torch.full((4,), 6.0)
    for op in (torch.Tensor.__add__, torch.Tensor.__mul__):
        scaled_by(op)(shape, scale)
"""
"""The second closure uses the code of the first: no guard checks which method it captured."""

WINDOWS = """\
import torch


class Smooth(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        y = x + self.gain
        with torch.no_grad():
            x.unfold(1, 1, 5).mul_(3.0)
        return y.sum() + x.sum()


if __name__ == "__main__":
    model = torch.compile(Smooth(), backend="aot_eager")
    for batch in range(2):
        model(torch.arange(1.0, 25.0).reshape(4, 6)).backward()
"""
"""Elements between the windows of a view are lost."""

CUSTOM = """\
import torch
import torch._inductor.config as config


def rounded(graph):
    for node in list(graph.nodes):
        if node.target == "exp":
            node.target = "exp2"


def backend(gm, example):
    if config.post_grad_custom_post_pass is not None:
        config.post_grad_custom_post_pass(gm.graph)
    gm.recompile()
    return gm.forward


config.post_grad_custom_post_pass = rounded


# fuselight: weight(f32[8])
@torch.compile(backend=backend)
def weight(x):
    y = x.relu()
    z = y.exp()
    return z / z.sum()
"""
"""A pass of the user's own is wrong."""

RIGHT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 8)
        self.norm = nn.BatchNorm1d(16)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.b(nn.functional.dropout(self.norm(self.a(x)).relu(), 0.2, self.training))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Net()
    step = torch.compile(net, backend="aot_eager_decomp_partition")
    optimizer = torch.optim.Adam(net.parameters())
    for batch in range(3):
        optimizer.zero_grad()
        loss = (step(torch.randn(4 + batch, 8)) - 1).square().mean()
        loss.backward()
        optimizer.step()
    print("loss", float(loss) > 0)
"""


def accuracy(folder: Path, source: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON of the command for a program."""
    (folder / "pyproject.toml").touch()
    (folder / "model.py").write_text(source)
    path = os.pathsep.join([str(ROOT / "compiler"), str(ROOT / "server")])
    command = ["accuracy", "model.py", "--python", prepared_interpreter(), "--format", "json", *arguments]
    done = subprocess.run(
        [sys.executable, "-m", "fuselight_server", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.stdout, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    assert data["problems"] == []
    return done.returncode, data


def line_of(source: str, text: str) -> int:
    """The line of the program that holds the text."""
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


@pytest.mark.corpora  # tests/worker/results/test_compared_calls.py has this program, too
def test_a_missing_guard_is_named_where_only_the_second_compile_is_wrong(tmp_path: Path) -> None:
    exit_code, data = accuracy(tmp_path, GUARD)
    assert exit_code == 1
    (target,) = data["targets"]
    assert (target["state"], target["wrong_calls"]) == ("differs", [1])
    (cause,) = target["results"]["causes"]
    assert cause["stage"] == "capture"
    assert cause["tried"]
    assert not any(setting["cures"] for setting in cause["tried"])
    (finding,) = data["findings"]
    assert (finding["code"], finding["line"]) == ("FL801", line_of(GUARD, "return op(x, y)"))
    assert finding["title"].startswith("results of `apply in scaled_by` differ")
    assert "a guard that would compile the function again is probably missing" in finding["message"]


def test_a_lost_change_of_a_view_is_on_its_line_with_its_stage(tmp_path: Path) -> None:
    exit_code, data = accuracy(tmp_path, WINDOWS, "--tries", "0")
    assert exit_code == 1
    (target,) = data["targets"]
    assert target["wrong_calls"] == [0, 1]
    assert {cause["stage"] for cause in target["results"]["causes"]} == {"functionalization"}
    (finding,) = data["findings"]
    assert (finding["line"], finding["count"]) == (line_of(WINDOWS, "x.unfold"), 2)


def test_a_wrong_pass_of_the_programs_own_is_named_as_the_cure(tmp_path: Path) -> None:
    exit_code, data = accuracy(tmp_path, CUSTOM)
    assert exit_code == 1
    (target,) = data["targets"]
    (cause,) = target["results"]["causes"]
    assert cause["stage"] == "code"
    cures = [(setting["name"], setting["value"]) for setting in cause["tried"] if setting["cures"]]
    assert cures == [("torch._inductor.config.post_grad_custom_post_pass", "")]
    (finding,) = data["findings"]
    assert finding["line"] == line_of(CUSTOM, "y.exp()")
    assert finding["remedies"][0]["state"] == "tried"
    assert finding["remedies"][-1]["text"].startswith("Correct or remove what your program sets as ")


@pytest.mark.corpora  # tests/worker/results/test_calls_that_are_not_wrong.py has training loops
def test_a_training_loop_with_dropout_is_as_eager_and_goes_on(tmp_path: Path) -> None:
    exit_code, data = accuracy(tmp_path, RIGHT)
    assert (exit_code, data["findings"]) == (0, [])
    (target,) = data["targets"]
    assert target["state"] == "as_eager", target
    results = target["results"]
    assert results["call_count"] == 3
    assert all(call["is_random"] and call["accuracy"]["passed"] for call in results["calls"])
    assert "fallback_random" in results["calls"][0]["accuracy"]["why"]

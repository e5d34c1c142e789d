"""Compiled calls of a running program that are also made in eager mode, within a share of the time."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fuselight.shared.report import Shadow
from fuselight.shared.shadow_files import ShadowPlan, read_shadows
from fuselight.worker.results import shadow_run
from fuselight.worker.results.shadow_run import ShadowRun
from tests.support.lsp_client import ROOT
from tests.support.prepared import program_interpreter

pytestmark = pytest.mark.torch

HERE = (str(Path(__file__).parent),)


class Ticks:
    """A clock: each reading is a millisecond later, and a test adds what calls take."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@contextlib.contextmanager
def shadowed(folder: Path, share: float = 1.0, clock: Callable[[], float] | None = None) -> Iterator[None]:
    torch.compiler.reset()
    run = ShadowRun(ShadowPlan(str(folder), share, HERE), clock or Ticks())
    run.start()
    try:
        yield
    finally:
        run.stop()
        torch.compiler.reset()


def shadow_of(folder: Path) -> Shadow:
    (shadow,) = read_shadows(str(folder))
    assert shadow.problem == ""
    return shadow


class Counter(nn.Module):
    """Changes a buffer and an attribute in each call."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.calls = 0
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.add_(x.detach())
        return (x * self.weight).sum()


def losses(compile_: Callable[..., Any]) -> tuple[list[float], Counter]:
    torch.manual_seed(0)
    model = Counter()
    step = compile_(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    values = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = step(torch.randn(4))
        loss.backward()
        optimizer.step()
        values.append(float(loss.detach()))
    return values, model


def test_a_training_loop_goes_on_as_if_nothing_had_been_compared(tmp_path: Path) -> None:
    expected, plain = losses(lambda model: model)
    with shadowed(tmp_path):
        values, model = losses(lambda model: torch.compile(model, backend="aot_eager"))
    assert values == pytest.approx(expected)
    assert model.calls == plain.calls == 6
    torch.testing.assert_close(model.seen, plain.seen)
    shadow = shadow_of(tmp_path)
    assert shadow.call_count == 6
    assert shadow.calls
    assert all(known.call.is_as_eager for known in shadow.calls), shadow.calls
    assert shadow.first_non_finite is None


def test_the_first_call_that_parts_is_named_with_its_line(tmp_path: Path) -> None:
    def widen(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x.unfold(1, 1, 5).mul_(3.0)
        return x.sum(1)

    with shadowed(tmp_path):
        step = torch.compile(widen, backend="aot_eager")
        for _ in range(3):
            step(torch.arange(1.0, 25.0).reshape(4, 6))
    shadow = shadow_of(tmp_path)
    first = shadow.calls[0]
    assert (first.step, first.call.is_wrong) == (1, True)
    assert first.error is not None
    assert first.error > 1
    line = widen.__code__.co_firstlineno + 2
    assert [place.line for place in first.call.accuracy.first] == [line]


def test_the_first_nan_has_the_line_of_eager_mode(tmp_path: Path) -> None:
    def shrink(x: torch.Tensor) -> torch.Tensor:
        y = x - 2.0
        z = torch.log(y)
        return z * 2

    with shadowed(tmp_path):
        step = torch.compile(shrink, backend="aot_eager")
        for value in (5.0, 3.0, 1.0, 0.0):
            step(torch.full((2,), value))
    first = shadow_of(tmp_path).first_non_finite
    assert first is not None
    assert (first.name.rpartition(".")[2], first.step, first.inputs) == ("shrink", 3, ())
    assert not first.is_compiled_only
    assert first.eager[-1].line == shrink.__code__.co_firstlineno + 2
    assert first.operator == "log"


def test_a_nan_that_comes_with_an_argument_is_said_to(tmp_path: Path) -> None:
    with shadowed(tmp_path):
        torch.compile(lambda x: x + 1, backend="eager")(torch.tensor([1.0, float("nan")]))
    first = shadow_of(tmp_path).first_non_finite
    assert first is not None
    assert len(first.inputs) == 1
    assert first.eager == ()


def test_comparisons_take_their_share_of_the_time(tmp_path: Path) -> None:
    clock = Ticks()

    def slow(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    with shadowed(tmp_path, 0.1, clock):
        step = torch.compile(slow, backend="eager")
        for _ in range(100):
            step(torch.ones(2))
            clock.now += 0.01
    shadow = shadow_of(tmp_path)
    assert shadow.call_count == 100
    assert 1 < len(shadow.calls) < 60
    assert shadow.seconds <= 0.1 * shadow.all_seconds + 0.02
    assert sum(shadow.not_compared.values()) == 100 - len(shadow.calls)


def test_a_function_that_communicates_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = [0]
    monkeypatch.setattr(shadow_run, "sequence_numbers", lambda: (started[0],))

    def backend(gm: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            started[0] += 1
            return gm.forward(*given)

        return run

    with shadowed(tmp_path):
        talks = torch.compile(lambda x: x + 1, backend=backend)
        local = torch.compile(lambda x: x.sin() + 2, backend="eager")
        for _ in range(4):
            talks(torch.ones(2))
        for _ in range(4):
            local(torch.ones(3))
    assert started[0] == 4, "each call communicates once, as without a comparison"
    shadow = shadow_of(tmp_path)
    assert shadow.not_compared[shadow_run._COMMUNICATES] == 3


def test_data_parallel_modules_are_left_alone() -> None:
    class DistributedDataParallel(nn.Module):
        pass

    assert shadow_run._has_reducer(DistributedDataParallel())
    assert not shadow_run._has_reducer(nn.Linear(2, 2))


PROGRAM = """\
import sys
import torch

def f(x):
    x = x.clone()
    x.unfold(1, 1, 5).mul_(3.0)
    return x.sum(1)

step = torch.compile(f, backend="aot_eager")
for _ in range(2):
    step(torch.arange(1.0, 25.0).reshape(4, 6))
print("done")
sys.exit(3)
"""


def test_run_prints_what_was_compared_and_keeps_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(PROGRAM)
    path = os.pathsep.join([str(ROOT / "compiler"), str(ROOT / "server")])
    command = [sys.executable, "-m", "fuselight_server", "run", "--python", program_interpreter()]
    done = subprocess.run(
        [*command, "--accuracy", "--accuracy-budget", "50%", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "done\n")
    assert "calls compared with eager mode: 1 differ by more than rounding" in done.stderr, done.stderr
    assert "first line that differs: train.py:6 (`mul_`)" in done.stderr
    assert not list(tmp_path.glob("accuracy-*")), "it leaves no file"


def test_a_recording_identifies_values_and_lines_and_has_no_elements(tmp_path: Path) -> None:
    torch.compiler.reset()
    run = ShadowRun(ShadowPlan(str(tmp_path), 1.0, HERE, records=True), Ticks())
    run.start()
    try:
        net = torch.compile(Counter(), backend="eager")
        net(torch.linspace(-1, 1, 4))
    finally:
        run.stop()
        torch.compiler.reset()
    (call,) = shadow_of(tmp_path).recorded
    assert (call.name, call.step) == ("Counter", 1)
    output = next(value for value in call.values if value.what == "output")
    assert (output.shape, output.dtype, output.non_finite) == ((), "torch.float32", 0)
    assert {line.path for line in call.lines} == {Path(__file__).name}
    assert all(len(line.sums) < 8 for line in call.lines)

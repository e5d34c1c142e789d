"""`fuselight repro` on programs that torch 2.13 compiles wrong, and on a graph that a backend refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.protocol import Limits, ScriptRequest
from fuselight.shared.report import MARK, RecordedNode, ScriptOutcome, ScriptState, TensorTraits
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.settings import Interpreter
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.repro import Fault, ReproPlan, reproduce
from fuselight_server.repro.model import Observed, SmallProgram
from fuselight_server.repro.text import script_of
from tests.support.live_worker import LiveWorker
from tests.support.prepared import prepared_interpreter

pytestmark = pytest.mark.torch

WINDOWS = """\
import torch


class Smooth(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.secret_gain = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, ledger):
        with torch.no_grad():
            ledger.unfold(1, 1, 5).mul_(3.0)
        return self.secret_gain + ledger.sum()


if __name__ == "__main__":
    torch.compile(Smooth(), backend="aot_eager", dynamic=False)(torch.arange(1.0, 25.0).reshape(4, 6))
"""
"""Elements between the windows of a view are lost."""

RIGHT = """\
import torch


@torch.compile(backend="aot_eager")
def f(x):
    return x.sin()


if __name__ == "__main__":
    f(torch.ones(3))
"""


def faults(live: LiveWorker, folder: Path, source: str) -> tuple[list[Fault], int]:
    (folder / "pyproject.toml").touch()
    path = folder / "model.py"
    path.write_text(source)
    options = CommandOptions(paths=(path,), limits=Limits(120.0, 16384))
    plan = ReproPlan(seconds=60.0)
    outcome = live.do_command(reproduce(options, lambda _text: None, CancelToken(), plan=plan))
    return outcome.faults, outcome.exit_code


@pytest.fixture
def with_programs(tmp_path: Path) -> Iterator[LiveWorker]:
    """A worker whose new processes have torch imported already."""
    live = LiveWorker(tmp_path, Interpreter(prepared_interpreter(for_programs=True)))
    yield live
    live.close()


def test_a_lost_change_of_a_view_becomes_a_program_that_a_new_process_confirms(
    with_programs: LiveWorker, folder: Path
) -> None:
    (fault,), exit_code = faults(with_programs, folder, WINDOWS)
    assert fault.confirmed is not None, fault.why_not
    assert exit_code == 0
    script = fault.confirmed.script
    assert ".unfold(" in script
    assert not any(word in script for word in ("secret", "ledger", "Smooth", str(folder)))
    assert isinstance(fault.confirmed.program, SmallProgram)
    assert len(fault.confirmed.program.nodes) <= 3, script
    assert fault.confirmed.program.backend == "aot_eager"
    assert MARK in script


def test_a_wrong_gradient_is_compared_as_a_gradient(live: LiveWorker) -> None:
    """That of softshrink at a NaN is lost."""
    traits = TensorTraits("float32", (4,), (1,), low=-3.0, high=2.0, nan=True, requires_grad=True)
    node = RecordedNode("v_2_", "torch.nn.functional.softshrink(v_1_)", ("v_1_",))
    program = SmallProgram((node,), ("v_2_",), {"v_1_": traits}, Observed.GRADIENTS, grad=True)
    assert outcome(live, script_of(replace(program, backend="aot_eager"))).state is ScriptState.FAULT
    assert outcome(live, script_of(replace(program, backend="eager"))).state is ScriptState.RIGHT


def test_a_right_program_has_no_fault(live: LiveWorker, folder: Path) -> None:
    assert faults(live, folder, RIGHT) == ([], 0)


HEAD = f"""\
import sys
import torch
def f(x):
    return x.sin()
def call(function):
    return function(torch.ones(2))
eager = call(f)
compiled = call(lambda x: WRONG)
if not torch.equal(eager, compiled):
    sys.exit("{MARK}they differ")
"""


@pytest.mark.parametrize(
    ("wrong", "state"),
    [
        ("x.sin() + 1", ScriptState.FAULT),
        ("x.sin()", ScriptState.RIGHT),
        ("x.sin() * (1 + 1e-7)", ScriptState.FAULT),
        ("x.gone()", ScriptState.ERROR),
    ],
)
def test_a_run_of_a_program_says_what_it_shows(live: LiveWorker, wrong: str, state: ScriptState) -> None:
    assert outcome(live, HEAD.replace("WRONG", wrong)).state is state


def test_what_other_rounding_gives_in_eager_mode_is_no_fault(live: LiveWorker) -> None:
    edge = HEAD.replace("x.sin()", "torch.floor(x * 0.1 + x * 0.2 + 0.7 * x)").replace(
        "WRONG", "torch.floor(x * 0.1 + (x * 0.2 + 0.7 * x))"
    )
    text = edge.replace("torch.ones(2)", "torch.full((2,), 1.0)")
    shown = outcome(live, text)
    assert shown.state in (ScriptState.ROUNDING, ScriptState.RIGHT), shown


def test_other_rounding_leaves_the_inputs_as_they_are(live: LiveWorker) -> None:
    """The remainder of a large number changes with its last digit."""
    text = HEAD.replace("x.sin()", "torch.remainder(x, 6.0)").replace(
        "WRONG", "torch.remainder(x, 6.0) + 0.01"
    )
    text = text.replace("torch.ones(2)", "torch.arange(1.0, 3.0) * 1000003.0 / 3.0")
    assert outcome(live, text).state is ScriptState.FAULT


def outcome(live: LiveWorker, script: str) -> ScriptOutcome:
    """What a program shows in a fork."""
    report = live.report(live.request(RIGHT, "").of_kind(ScriptRequest, script=script))
    assert report.reproduction is not None
    assert report.reproduction.outcome is not None
    return report.reproduction.outcome

"""What follows from a graph break, with real torch: what comes after a break, and what goes with it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.check import analyze
from fuselight_server.commands.options import CommandOptions

if TYPE_CHECKING:
    from pathlib import Path

    from fuselight_server.commands.outcome import CheckOutcome
    from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

BLOCKS = """\
import torch
def smooth(x):
    y = torch.sin(x) + x
    print("smooth")
    return torch.cos(y) * 2
@torch.compile(backend="eager")
def step(x):
    with torch.no_grad():
        target = smooth(x)
    return smooth(x) - target
if __name__ == "__main__":
    for _ in range(2):
        step(torch.randn(8, requires_grad=True)).sum().backward()
"""
DRAWN = """\
import torch
def draw(least):
    import random
    return least + random.randint(2, 900)
def crop(x):
    width = len(str(x.shape)) - 18
    width = draw(width)
    print("cropped")
    narrow = torch.cos(x)
    return narrow[:width] * 2
if __name__ == "__main__":
    call = torch.compile(crop, backend="eager", dynamic=False)
    for _ in range(12):
        call(torch.randn(1000))
"""
BY_THE_USER = """\
import torch
def smooth(x):
    y = torch.sin(x) + x
    print("smooth")
    return torch.cos(y) * 2
if __name__ == "__main__":
    apply = torch.compile(smooth, backend="eager")
    apply(torch.randn(8))
    with torch.no_grad():
        apply(torch.randn(8))
"""


PEAKS = """\
import torch
@torch.compile(backend="eager")
def divide(x):
    peak = x.max().item()
    return x / peak
@torch.compile(backend="eager")
def wind(x, turns):
    turns = 2 * turns
    print("wind")
    for _ in range(turns):
        x = torch.sin(x)
    return x
if __name__ == "__main__":
    for n in range(2, 6):
        divide(torch.ones(4) * n)
        wind(torch.ones(4), n)
"""


def checked(live: LiveWorker, folder: Path, source: str) -> CheckOutcome:
    path = folder / "main.py"
    path.write_text(source)
    options = CommandOptions((path,), python=sys.executable)
    return live.do_command(analyze(options, lambda _text: None, CancelToken()))


def test_a_mode_that_a_block_sets_goes_with_the_break(live: LiveWorker, tmp_path: Path) -> None:
    again = [item for item in checked(live, tmp_path, BLOCKS).findings if item.code == "FL201"]
    assert len(again) == 1, "the function, and its part after the break"
    follows = {item.follows.message for item in again if item.follows is not None}
    assert follows == {"it is called in eager mode because of the graph break on line 4"}
    silent = BLOCKS.replace('    print("smooth")\n', "")
    assert checked(live, tmp_path, silent).findings == []


def test_a_mode_that_the_user_sets_outside_of_compiled_code_is_to_be_expected(
    live: LiveWorker, tmp_path: Path
) -> None:
    again = [item for item in checked(live, tmp_path, BY_THE_USER).findings if item.code == "FL201"]
    assert again
    assert {item.follows for item in again} == {None}
    assert all("Expect one compile for each grad mode" in item.message for item in again)


def test_a_recompilation_is_said_to_go_with_a_break_only_after_a_trial_without_the_break(
    live: LiveWorker, tmp_path: Path
) -> None:
    again = [item for item in checked(live, tmp_path, PEAKS).findings if item.code == "FL201"]
    peak, *turns = sorted(again, key=lambda item: item.span.line)
    assert peak.hints[0].startswith(
        "Remove the graph break on line 4: set torch._dynamo.config.capture_scalar_outputs = True before the first "
        "call (tried: "
    )
    assert turns
    assert not any("Remove the graph break" in hint for item in turns for hint in item.hints), "it moves"


def test_a_limit_in_the_code_after_a_break_comes_after_the_line_that_breaks(
    live: LiveWorker, tmp_path: Path
) -> None:
    outcome = checked(live, tmp_path, DRAWN)
    lines = [(priority.cost.line, bool(priority.cost.limited)) for priority in outcome.priorities]
    assert lines.index((4, False)) < lines.index((7, True))
    assert outcome.priorities[0].gain.endswith("; crop reached the recompile limit in the code after it")

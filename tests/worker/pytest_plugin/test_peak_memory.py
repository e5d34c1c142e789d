"""`peak_memory`: the calls of a check are estimated where pytest runs the test alone, and explain themselves."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch

from fuselight.capture.calls.observed_calls import ObservedCall
from fuselight.shared.devices import find
from fuselight.shared.report import MemoryUse
from fuselight.worker.memory.object_estimate import estimate_calls
from fuselight_server.pytest_plugin.estimates_file import read_estimates, write_estimates
from fuselight_server.pytest_plugin.peak_memory import PeakMemory
from tests.support.pytest_runs import run_pytest, write_files

pytestmark = pytest.mark.torch


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())  # type: ignore[no-any-return]


def test_an_object_is_estimated_with_its_tied_weights_once_and_its_backward(tmp_path: Path) -> None:
    here = (str(Path(__file__).parent),)
    write_estimates(Tied(), [ObservedCall((torch.ones(2048, 64),))], {}, here, str(tmp_path))
    (estimate,) = read_estimates(str(tmp_path))
    assert estimate.training
    memory = PeakMemory("Tied", (estimate,))
    parameters = 64 * 64 * 4 + 2 * 512  # each of the biases takes a block of the allocator
    for peak in (estimate.eager, estimate.compiled):
        assert peak is not None
        assert sum(row.bytes for row in peak.held if row.use is MemoryUse.PARAMETER) == parameters
        assert any(row.location is not None and row.location.path == __file__ for row in peak.held)
    assert memory.is_known
    assert isinstance(memory.compiled, int)
    assert repr(memory.compiled) == f"{memory.compiled / 1e6:.1f} MB of Tied"
    assert pickle.loads(pickle.dumps(memory.eager)) == int(memory.eager)  # noqa: S301 - its own
    assert any("workspace of cuBLAS" in line for line in memory.explanation())


def test_what_cannot_be_estimated_says_why_where_it_is_asked_for() -> None:
    def pick(x: torch.Tensor) -> torch.Tensor:
        return x[x.nonzero()]

    with torch.no_grad():
        (estimate,) = estimate_calls(pick, [ObservedCall((torch.ones(4),))], find("h100"), (), {})
    memory = PeakMemory("pick", (estimate,))
    assert not memory.is_known
    with pytest.raises(
        RuntimeError, match=r"the memory of pick was not estimated, eager: DynamicOutputShape"
    ):
        _ = memory.eager
    assert "eager not estimated" in repr(memory)


TESTS = """\
import torch

def double(x):
    return x * 2

def test_double(fuselight_check):
    with torch.no_grad():
        peak = fuselight_check(double, (torch.ones(1024, 1024),)).peak_memory
    assert peak.eager == peak.compiled == 8 * 1024 * 1024
    assert peak.compiled < 1_000_000
"""


def test_a_check_of_a_test_has_its_peaks(tmp_path: Path) -> None:
    write_files(tmp_path, {"test_model.py": TESTS, "pytest.ini": "[pytest]\n"})
    section = run_pytest(tmp_path, seconds=280).section("test_double")
    assert "assert 8.4 MB of double < 1000000" in section
    assert "4.2 MB inputs" in section

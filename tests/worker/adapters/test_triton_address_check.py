"""Faults of Triton kernels: each planted one on its line, and none in right kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.support.kernels import NO_TRITON

pytest.importorskip("triton", reason=NO_TRITON)
pytest.importorskip("numpy")

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.absent_gpu import device_guards
from fuselight.adapters.triton_api.launches import launcher
from fuselight.adapters.triton_api.launches.address_check import sampled_programs
from fuselight.adapters.triton_api.launches.record import AddressReport, LaunchLog, LaunchOutcome
from fuselight.adapters.triton_api.launches.stand_in import has_kernels, standing_in
from fuselight.shared.devices import find
from tests.support.checked_kernels import CODES, WITH_BLOCK_POINTERS, checked_file, directives, expected

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, nothing stands in for it"),
]
FILES = Path(__file__).parents[2] / "cases" / "launches"
KERNELS = FILES / "address_kernels.py"


@pytest.mark.parametrize(
    "name", ["planted_bounds", "planted_sizes", "planted_order", "masked_reductions", "right_kernels"]
)
def test_each_planted_fault_is_on_its_line_and_right_kernels_have_none(name: str) -> None:
    path = FILES / f"{name}.py"
    faults = set()
    with checked_file(path) as checked:
        assert has_kernels()
        for directive in directives(path):
            faults |= {(fault.location.line, CODES[fault.kind]) for fault in checked.check(*directive)}
    assert faults == expected(path)
    assert checked.launches.notes == []
    if name == "right_kernels":
        reasons = {access.reason for check in checked.launches.checks for access in check.open}
        assert {"indices come from memory", "a branch or a loop depends on values from memory"} <= reasons


class Launches:
    """The launches of a test."""

    def __init__(self) -> None:
        self.outcomes: list[LaunchOutcome] = []
        self.log = LaunchLog(lambda outcome, _frame: self.outcomes.append(outcome))

    def report(self) -> AddressReport:
        (outcome,) = self.outcomes
        assert outcome.addresses is not None
        assert outcome.faults == ()
        return outcome.addresses


@pytest.fixture
def launches() -> Iterator[Launches]:
    launches = Launches()
    with device_guards(), standing_in(find("h100-sxm"), launches.log, lambda path: path == str(KERNELS)):
        yield launches


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(KERNELS.parent))
        import address_kernels  # type: ignore[import-not-found]  # noqa: PLC0415

        return address_kernels  # type: ignore[no-any-return]


def line_of(mark: str) -> int:
    """The line of `address_kernels.py` with that mark."""
    lines = KERNELS.read_text(encoding="utf-8").splitlines()
    (line,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# OPEN: {mark}")]
    return line


@pytest.mark.parametrize(
    ("name", "mark", "reason"),
    [
        ("gathered", "index", "indices come from memory"),
        ("masked_by_memory", "mask", "the mask comes from memory"),
        ("branches", "branch", "a branch or a loop depends on values from memory"),
        ("accumulated_offset", "sum", "indices come from memory"),
        ("through_pointers", "pointer", "indices come from memory"),
        pytest.param("by_block_pointer", "block", "indices come from memory", marks=WITH_BLOCK_POINTERS),
        ("by_assembly", "assembly", "indices come from memory"),
        ("reduced_index", "reduction", "indices come from memory"),
    ],
)
def test_what_depends_on_memory_is_open_and_no_fault(
    name: str, mark: str, reason: str, launches: Launches, kernels: Any
) -> None:
    with settings.fake_tensors():
        getattr(kernels, name)[(3,)](
            torch.empty(100), torch.empty(100, dtype=torch.int64), torch.empty(100), BLOCK=64
        )
    assert launches.report().open == ((str(KERNELS), line_of(mark), reason),)


def test_hashes_may_overflow(launches: Launches, kernels: Any) -> None:
    with settings.fake_tensors():
        kernels.hashed[(1 << 20,)](torch.empty(128), torch.empty(64 << 20), BLOCK=64)
    assert launches.report().open == ()


def test_long_loops_are_sampled_and_their_last_iterations_are_right(launches: Launches, kernels: Any) -> None:
    with settings.fake_tensors():
        kernels.nested_loops[(2,)](torch.empty(1_000_000, 64), torch.empty(2), 500_000, BLOCK=64)
    report = launches.report()
    assert (report.programs, report.total, report.is_complete, report.open) == (2, 2, False, ())


def test_a_launch_is_checked_once_for_each_size(launches: Launches, kernels: Any) -> None:
    with settings.fake_tensors():
        for length in (1 << 20, 1 << 20, 1 << 21):
            x = torch.empty(length)
            kernels.doubled[(length // 64,)](x, torch.empty(length), length, BLOCK=64)
    assert len(launches.outcomes) == 2
    assert launches.log.launches == 3


def test_a_launch_that_takes_too_long_is_checked_by_address(
    launches: Launches, kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "MAX_SECONDS", 0.0)
    x = torch.ones(1000)
    kernels.without_mask[(16,)](x, torch.empty(1000), 1000, BLOCK=64)
    unknown, checked = launches.outcomes
    assert unknown.unknown == "computing them on the CPU takes too long"
    (fault,) = checked.faults
    assert (fault.kind, fault.offset, fault.program) == ("bounds", 1000, (15, 0, 0))
    assert checked.addresses == AddressReport(16, 16, is_complete=True)


@pytest.mark.parametrize(
    "grid", [(1, 1, 1), (5, 2, 3), (64, 1, 1), (1_000_000_000, 1, 1), (7, 100_000, 3), (0, 5, 1)]
)
def test_programs_of_both_ends_are_checked(grid: tuple[int, int, int]) -> None:
    programs = list(sampled_programs(grid))
    total = grid[0] * grid[1] * grid[2]
    assert len(set(programs)) == len(programs) <= 125
    assert all(0 <= at < size for place in programs for at, size in zip(place, grid, strict=True))
    if total:
        last = tuple(size - 1 for size in grid)
        assert programs[:2] == [(0, 0, 0), last][: len(programs)]
    if total <= 64:
        assert len(programs) == total

"""What a launch does, counted later from copies of its arguments: as where it is computed at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.kernels import NO_TRITON

pytest.importorskip("triton", reason=NO_TRITON)
pytest.importorskip("numpy")

from fuselight.adapters.triton_api.launches import argument_copies
from fuselight.adapters.triton_api.launches.counted_work import count_work
from fuselight.adapters.triton_api.launches.specializations import LaunchedSpecialization, LaunchRecord
from tests.support.checked_kernels import checked_file

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, nothing stands in for it"),
]
TEXT = """
import triton
import triton.language as tl


@triton.jit
def by_number(x, out, rows, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total += tl.load(x + row * BLOCK + at)
    tl.atomic_add(out + at, total)


@triton.jit
def by_tensor(x, lengths, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.load(lengths + tl.program_id(0))):
        total += tl.load(x + row * BLOCK + at)
    tl.store(out + tl.program_id(0) * BLOCK + at, total)


@triton.jit
def product(x, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(x + at)))


@triton.jit
def raises(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.load(x + tl.arange(0, N)).to(tl.no_such_type))
"""


def launched(
    tmp_path: Path, name: str, grid: int, *args: Any, **named: Any
) -> tuple[LaunchedSpecialization, Any]:
    """The specialization of one launch, and its work as it is computed at once."""
    path = tmp_path / "counted.py"
    path.write_text(TEXT, encoding="utf-8")
    record = LaunchRecord(is_wanted=lambda _: True, keeps_arguments=True)
    with checked_file(path) as checked:
        checked.launches.log.record = record
        getattr(checked.module, name)[(grid,)](*args, **named)
    (specialization,) = record.specializations.values()
    return specialization, record.work_of(specialization.request)


def test_iterations_and_atomic_operations_are_counted(tmp_path: Path) -> None:
    specialization, work = launched(tmp_path, "by_number", 4, torch.ones(640), torch.zeros(64), 10, BLOCK=64)
    count_work(specialization)
    assert specialization.work == work
    assert (work.iterations, work.atomic_sectors) == (40, 32)


def test_lengths_are_those_of_the_launch(tmp_path: Path) -> None:
    lengths = torch.tensor([3, 1, 2], dtype=torch.int32)
    specialization, work = launched(
        tmp_path, "by_tensor", 3, torch.ones(192), lengths, torch.zeros(192), BLOCK=64
    )
    lengths.zero_()
    count_work(specialization)
    assert specialization.work == work
    assert work.iterations == 6


def test_multiplications_are_counted_of_a_view(tmp_path: Path) -> None:
    memory = torch.ones(32 * 32 + 7)
    specialization, work = launched(tmp_path, "product", 2, memory[7:], torch.zeros(32, 32), N=32)
    count_work(specialization)
    assert specialization.work == work
    assert list(work.products.values()) == [2 * 2 * 32**3]


def test_what_cannot_be_computed_is_not_known(tmp_path: Path) -> None:
    specialization, work = launched(tmp_path, "raises", 1, torch.ones(32), torch.zeros(32), N=32)
    count_work(specialization)
    assert specialization.work is work is None


def test_numbers_are_copied_and_other_tensors_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argument_copies, "MAX_COPIED", 64)
    index = torch.arange(16, dtype=torch.int32)
    bound = {"index": index[2:], "large": torch.arange(64), "x": torch.ones(1 << 20), "n": 7, "flag": True}
    copies = argument_copies.copied_arguments(bound)
    assert copies is not None
    assert {name: getattr(copy, "content", copy) is not None for name, copy in copies.items()} == {
        "index": True,
        "large": False,
        "x": False,
        "n": True,
        "flag": True,
    }
    index.zero_()
    import numpy  # noqa: PLC0415, ICN001 - after the check that it is there

    assert copies["index"].tensor(numpy).tolist() == list(range(2, 16))
    assert copies["x"].tensor(numpy).shape == (1 << 20,)


def test_arguments_of_other_kinds_are_not_kept() -> None:
    class Descriptor:
        base = torch.ones(4)

    for other in (Descriptor(), (torch.ones(4), 1)):
        assert argument_copies.copied_arguments({"x": torch.ones(4), "other": other}) is None

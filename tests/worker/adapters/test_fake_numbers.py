"""What depends on the data of fake tensors, as an estimate of memory takes it."""

from __future__ import annotations

import functools

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from fuselight.adapters.torch_api.fake_numbers import assumed_numbers

pytestmark = pytest.mark.torch


def test_numbers_and_equal_tensors_are_true_and_each_read_is_reported() -> None:
    reads: list[None] = []
    with FakeTensorMode() as mode:
        x, y = torch.empty(3), torch.empty(4)
        with assumed_numbers(lambda: reads.append(None)):
            assert torch.equal(x, torch.empty(3))
            assert x.sum().item() == 1.0
            assert len(reads) == 2
            assert not torch.equal(x, y), "of other shapes, without any value"
            assert len(reads) == 2
        with pytest.raises(DataDependentOutputException):
            torch.equal(x, torch.empty(3))
    assert mode.shape_env is None


def test_a_random_number_is_the_middle_of_its_range_and_small_tensors_of_numbers_have_values() -> None:
    reads: list[str] = []
    note = [functools.partial(reads.append, word) for word in ("read", "drawn")]
    with FakeTensorMode(), assumed_numbers(*note):
        drawn = [
            torch.rand(()).item(),
            torch.rand(1, dtype=torch.float64).item(),
            torch.randint(4, (1,)).item(),
        ]
        assert drawn == [0.5, 0.5, 2]
        assert reads == ["drawn"] * 3
        widths = torch.round(torch.arange(4, dtype=torch.float32) * 2.5 + 8)
        assert widths.int().tolist() == [8, 10, 13, 16]
        widths[1] = 3
        assert widths.tolist() == [8.0, 3.0, 13.0, 16.0]
        assert reads == ["drawn"] * 3
        widths += torch.empty(4)
        assert widths.tolist() == [1.0] * 4, "what is written into it is not known"
        assert torch.arange(4096)[7].item() == 1, "only small tensors have values"
        assert set(reads[3:]) == {"read"}

"""What depends on the data of fake tensors, as an estimate of memory takes it."""

from __future__ import annotations

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

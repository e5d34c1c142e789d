"""What a verdict reports in addition to torch's rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fuselight.measure.accuracy.check import of_tf32
from fuselight.measure.accuracy.results import CallResults, Value

pytestmark = pytest.mark.torch
CUDA = torch.device("cuda")


def given(dtype: str) -> CallResults:
    return CallResults((Value("output", torch.ones(1), dtype, (1,)),), device="cuda")


@pytest.fixture
def allowed() -> Iterator[None]:
    """Restore the settings after the test."""
    was = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = was


@pytest.mark.usefixtures("allowed")
def test_tf32_is_reported_if_it_may_explain_the_difference() -> None:
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = False, True
    assert of_tf32(CUDA, given("torch.float32")).startswith("TF32 is allowed here")
    assert not of_tf32(CUDA, given("torch.bfloat16"))
    assert not of_tf32(torch.device("cpu"), given("torch.float32"))
    torch.backends.cudnn.allow_tf32 = False
    assert not of_tf32(CUDA, given("torch.float32"))


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="before torch 2.9")
def test_tf32_is_reported_by_torchs_newer_names_as_well() -> None:
    """After their first use, torch raises for the older names if the values differ."""
    matmul: Any = torch.backends.cuda.matmul
    was = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        with pytest.raises(RuntimeError):
            _ = matmul.allow_tf32
        note = of_tf32(CUDA, given("torch.float32"))
    finally:
        matmul.fp32_precision = was
    assert 'torch.backends.cudnn.conv.fp32_precision = "ieee"' in note

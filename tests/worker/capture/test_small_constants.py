"""A small constant of Python numbers is part of the kernels that use it, in both parts of a training step."""

from __future__ import annotations

import importlib.util
import re

import pytest
import torch

from fuselight.capture.inductor import Generation
from fuselight.shared.devices import find
from fuselight.shared.report import Phase

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]


def weighted(x: torch.Tensor) -> torch.Tensor:
    """A loss whose weights are a list of the program's."""
    steps = torch.tensor([0.1, 0.3, 0.2, 0.4], dtype=x.dtype, device=x.device)
    return (x.sigmoid() * steps).sin()


def test_a_constant_is_read_by_both_parts_and_saved_by_none() -> None:
    device = find("h200")
    assert device is not None
    generation = Generation(device)
    torch._dynamo.reset()
    compiled = torch.compile(weighted, backend=generation)
    compiled(torch.randn(64, 4, requires_grad=True)).sum().backward()  # type: ignore[no-untyped-call]
    assert [(graph.phase, graph.failure) for graph in generation.graphs] == [
        (Phase.FORWARD, None),
        (Phase.BACKWARD, None),
    ]
    for graph in generation.graphs:
        assert graph.text_key is not None
        text = generation.texts[graph.text_key]
        kernels = set(re.findall(r"^def (triton_\w+)\(", text, re.MULTILINE))
        assert len(kernels) == 1, kernels
        assert "lift_fresh" in kernels.pop()
        assert "0.30000001192092896" in text
    assert {tensor.shape for tensor in generation.graphs[0].saved} == {("64", "4")}

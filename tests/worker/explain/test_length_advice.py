"""A container outside of the function that grows: its length as an argument saves compiles, as the advice says."""

from __future__ import annotations

import pytest
import torch

from tests.worker.explain.test_advice import compiled, compiles

pytestmark = pytest.mark.torch


def measured(*, passed: bool, kind: type = list) -> None:
    kept = kind()

    def of_container(x: torch.Tensor) -> torch.Tensor:
        return x / (1 + len(kept))

    def of_length(x: torch.Tensor, length: int) -> torch.Tensor:
        return x / (1 + length)

    call = compiled(of_length if passed else of_container)
    for number in range(6):
        call(torch.ones(3), len(kept)) if passed else call(torch.ones(3))
        kept.update({number: 1}) if isinstance(kept, dict) else kept.append(1)


@pytest.mark.parametrize("kind", [list, dict])
def test_the_length_as_an_argument_needs_no_compile_for_each_value(kind: type) -> None:
    assert compiles(lambda: measured(passed=False, kind=kind)) == 6
    assert compiles(lambda: measured(passed=True, kind=kind)) < 4

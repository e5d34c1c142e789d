"""Kernels of generated code are replayed on their own inputs, next to the operators that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._inductor.select_algorithm import extern_kernels

from fuselight.adapters.torch_api.inductor.kernel_recording import KernelRecorder, without_graph_caches
from fuselight.measure.accuracy.kernel_replay import ReplayedLine, replay_kernels

pytestmark = [pytest.mark.torch, pytest.mark.contract]


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    first = torch.mm(x, weight)
    return torch.mm(first, weight)  # only library calls, which need no C++ compiler


@pytest.fixture(scope="module")
def replayed() -> Iterator[Callable[[Any], ReplayedLine]]:
    recorder = KernelRecorder()
    given = torch.linspace(-1, 1, 32).reshape(4, 8), torch.linspace(0, 1, 64).reshape(8, 8)
    torch.compiler.reset()
    with recorder.active(), without_graph_caches():
        compiled = torch.compile(product)
        expected = compiled(*given)

    def run(mm: Any) -> ReplayedLine:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(extern_kernels, "mm", mm)
            with recorder.recording():
                compiled(*given)
        assert torch.equal(compiled(*given), expected), "as without a recording"
        return replay_kernels(recorder.graphs)

    yield run
    torch.compiler.reset()


def test_right_kernels_are_judged_right(replayed: Callable[[Any], ReplayedLine]) -> None:
    line = replayed(torch.mm)
    assert (line.replay.kernel, line.stack) == ("", ())
    assert (line.replay.judged, line.replay.unmapped, line.replay.not_evaluated) == (2, 0, 0)


def test_the_first_wrong_kernel_is_named_with_its_line(replayed: Callable[[Any], ReplayedLine]) -> None:
    calls: list[int] = []

    def wrong(x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor) -> None:
        torch.mm(x, y, out=out)
        calls.append(1)
        if len(calls) == 2:
            out.mul_(1.001)

    line = replayed(wrong)
    assert line.replay.kernel == "extern_kernels.mm"
    assert line.replay.steps > 100
    assert line.replay.eager_steps < 4
    assert line.replay.judged == 2
    assert line.stack[-1].line == product.__code__.co_firstlineno + 2


def test_a_nan_in_another_place_is_wrong(replayed: Callable[[Any], ReplayedLine]) -> None:
    def wrong(x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor) -> None:
        torch.mm(x, y, out=out)[0, 0] = float("nan")

    line = replayed(wrong)
    assert line.replay.kernel == "extern_kernels.mm"
    assert line.stack[-1].line == product.__code__.co_firstlineno + 1

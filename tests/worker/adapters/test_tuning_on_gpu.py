"""FL949 on a machine with a GPU: the first launch of an autotuner is compared with one that times nothing.

The launches of these tests are functions of the CPU: what is tried does not depend on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.kernels import NO_TRITON

pytest.importorskip("triton", reason=NO_TRITON)

import triton  # type: ignore[import-untyped]

from fuselight.adapters.triton_api.launches.tuning_on_gpu import trying_tuned_launches
from fuselight.shared.report import TuningChange

pytestmark = pytest.mark.torch


@triton.jit
def kernel(x, out, n, BLOCK):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803 - a kernel
    pass


def autotuner(launch: Callable[..., None], **options: Any) -> Any:
    """An autotuner of two configurations, which times each three times; `launch(x, out)` computes."""
    tuned = triton.autotune(
        [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})],
        key=["n"],
        do_bench=lambda call, **_: [call() or 1.0 for _ in range(3)],
        **options,
    )(kernel)
    function = triton.runtime.jit.JITFunction(kernel.fn)
    function.run = lambda x, out, _, **__: launch(x, out)
    tuned.fn = function
    return tuned


def changes_of(tuned: Any, x: torch.Tensor, out: torch.Tensor) -> list[TuningChange]:
    changes: list[TuningChange] = []
    with trying_tuned_launches(changes.append):
        for _ in range(2):
            tuned.run(x, out, x.numel(), grid=(1,), warmup=False)
    return changes


def adds(x: torch.Tensor, out: torch.Tensor) -> None:
    out += x.sum()


def test_a_sum_that_timed_runs_change_is_found_with_what_cures_it() -> None:
    x, out = torch.ones(8), torch.zeros(2)
    (change,) = changes_of(autotuner(adds), x, out)
    assert (change.kernel, change.argument, change.value, change.expected) == ("kernel", "out", 56.0, 8.0)
    assert (change.count, change.configurations, change.is_of_gpu) == (2, 2, True)
    assert change.cures == (('reset_to_zero=["out"]',), ('restore_value=["out"]',))
    assert out.tolist() == [64.0, 64.0], "what the first launch has left, and the second one"


def test_a_sum_that_does_not_begin_at_zero_is_restored() -> None:
    (change,) = changes_of(autotuner(adds), torch.ones(8), torch.ones(2))
    assert change.cures == (('restore_value=["out"]',),)


def test_a_part_of_a_storage_has_the_position_in_the_argument() -> None:
    out = torch.zeros(6)
    (change,) = changes_of(autotuner(adds), torch.ones(8), out[2:])
    assert (change.offset, change.count) == (0, 4)


def test_integers_are_compared_exactly() -> None:
    def counts(x: torch.Tensor, out: torch.Tensor) -> None:
        del x
        out += 1

    (change,) = changes_of(autotuner(counts), torch.ones(8), torch.full((2,), 100_000))
    assert (change.value, change.expected) == (100_007.0, 100_001.0)


@pytest.mark.parametrize("options", [{"reset_to_zero": ["out"]}, {"restore_value": ["out"]}])
def test_a_tensor_that_is_reset_is_not_found(options: dict[str, Any]) -> None:
    out = torch.zeros(2)
    assert changes_of(autotuner(adds, **options), torch.ones(8), out) == []
    assert out.tolist() == [16.0, 16.0]


def test_a_result_that_is_only_written_is_not_found() -> None:
    assert changes_of(autotuner(lambda x, out: out.copy_(x.sum())), torch.ones(8), torch.zeros(2)) == []


def test_results_that_differ_by_themselves_are_not_found() -> None:
    def draws(x: torch.Tensor, out: torch.Tensor) -> None:
        del x
        out.copy_(torch.rand(2))

    assert changes_of(autotuner(draws), torch.ones(8), torch.zeros(2)) == []


def test_sums_in_another_order_are_not_found() -> None:
    noise = iter(1e-6 * number for number in range(100))
    assert (
        changes_of(autotuner(lambda _, out: out.fill_(1 + next(noise))), torch.ones(8), torch.zeros(2)) == []
    )


def test_everything_is_as_before_afterwards() -> None:
    real = triton.runtime.autotuner.Autotuner.run
    with trying_tuned_launches(lambda _: None):
        assert triton.runtime.autotuner.Autotuner.run is not real
    assert triton.runtime.autotuner.Autotuner.run is real

"""The estimated time of a kernel with `tl.dot`: its multiplications, the units that do them, and the grid."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.devices import find
from fuselight.shared.report import Assembled, Listing
from fuselight.worker.child.own_kernels import _cost

H100 = find("h100-sxm")


def assembled(dtype: str, instruction: str) -> Assembled:
    """A kernel with one `tl.dot` on line 3 whose assembly has `instruction`."""
    dot = f"%1 = tt.dot %a, %b, %c : tensor<64x64x{dtype}> * tensor<64x64x{dtype}> -> tensor<64x64xf32>"
    return Assembled(listings={"ttir": Listing(dot, (3,)), "ptx": Listing(instruction, (3,))})


def cost(products: dict[str, int], code: Assembled, grid: tuple[int, ...] = (1000, 1, 1)) -> Any:
    specialization: Any = SimpleNamespace(products=products, grid=grid)
    return _cost(1_000, specialization, code, H100)


def test_the_time_is_that_of_the_matrix_units_of_the_dtype() -> None:
    half, exact = assembled("f16", "wgmma.mma_async"), assembled("f32", "fma.rn.f32")
    us, bound = cost({"f16": 10**12}, half)
    assert bound == "compute"
    assert us == pytest.approx(10**12 / (H100.tflops["f16"] * 1e6) / 0.8, rel=0.01)
    assert cost({"f32": 10**12}, exact)[0] > 10 * us
    assert cost({"f16": 10**12}, assembled("f16", "fma.rn.f32"))[0] > 10 * us, "without matrix instructions"
    twice = cost({"f16": 5 * 10**11, "tf32": 25 * 10**10}, assembled("f16", "wgmma\n"))[0]
    assert twice > us / 2


def test_a_small_grid_leaves_multiprocessors_idle() -> None:
    code = assembled("bf16", "mma.sync.aligned")
    whole, part = (cost({"bf16": 10**12}, code, grid)[0] for grid in ((H100.multiprocessors, 1), (11, 3)))
    assert part / whole == pytest.approx(H100.multiprocessors / 33, rel=0.01)


@pytest.mark.parametrize(("products", "text"), [({}, "tt.dot"), ({"f16": 10**9}, "tt.dot_scaled")])
def test_what_is_not_known_has_no_estimate(products: dict[str, int], text: str) -> None:
    code = Assembled(listings={"ttir": Listing(text, (3,)), "ptx": Listing("", ())})
    assert cost(products, code) is None

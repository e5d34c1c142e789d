"""The estimated time of a launch: its multiplications, the units that do them, its loops and its grid."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.adapters.triton_api.launches.interpretation import _order
from fuselight.adapters.triton_api.launches.launch_work import LaunchWork
from fuselight.shared.devices import LAUNCH_US, find
from fuselight.shared.report import Assembled, Listing, Occupancy
from fuselight.worker.child.launch_times import CACHE_BYTES, LATENCY_US, NotEstimatedError, launch_cost

H100 = find("h100-sxm")
FULL = (8 * H100.multiprocessors, 1, 1)
"""A grid that gives each multiprocessor the same."""
WGMMA = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%r1}, %r2, %r3;"


def assembled(
    dtype: str, instruction: str, *, loads: str = "", stages: int = 3, blocks: int = 1, warps: int = 4
) -> Assembled:
    """A kernel with a loop, which has a `tl.dot` on line 3 whose assembly has `instruction`."""
    dot = f"%1 = tt.dot %a, %b, %c : tensor<64x64x{dtype}> * tensor<64x64x{dtype}> -> tensor<64x64xf32>"
    ttir = ["tt.func public @f() {", "%2 = scf.for %i = %0 to %n {", dot, loads, "}", "}"]
    ptx = ["$L__BB0_1:", *instruction.split("\n"), "@%p1 bra $L__BB0_1;"]
    return Assembled(
        num_stages=stages,
        num_warps=warps,
        occupancy=Occupancy(blocks * warps, 64, blocks, "registers"),
        listings={
            "ttir": Listing("\n".join(ttir), (0, 0, 3, 0, 0, 0)),
            "ptx": Listing("\n".join(ptx), (0, *(3 for _ in ptx[1:-1]), 0)),
        },
    )


def cost(products: dict[str, int], code: Assembled, grid: tuple[int, ...] = FULL) -> Any:
    specialization: Any = SimpleNamespace(work=LaunchWork(products), grid=grid)
    return launch_cost(1_000, specialization, code, H100)


def cost_of_work(
    work: LaunchWork | None, *ptx: str, moved: int = 1_000, ttir: str = "tt.func"
) -> tuple[float, str]:
    """That of 132 programs without `tl.dot`, whose loop has the lines `ptx`."""
    loop = "\n".join(["$L__BB0_1:", *ptx, "@%p1 bra $L__BB0_1;"])
    code = Assembled(listings={"ttir": Listing(ttir, ()), "ptx": Listing(loop, ())})
    specialization: Any = SimpleNamespace(work=work, grid=(H100.multiprocessors, 1, 1))
    known = launch_cost(moved, specialization, code, H100)
    assert known is not None
    return known


def test_the_time_is_that_of_the_matrix_units_of_the_dtype() -> None:
    half, exact = assembled("f16", WGMMA), assembled("f32", "fma.rn.f32")
    us, bound = cost({"f16": 10**12}, half)
    assert bound == "compute"
    assert us == pytest.approx(10**12 / (H100.tflops["f16"] * 1e6) / 0.8, rel=0.01)
    assert cost({"f32": 10**12}, exact)[0] > 10 * us
    assert cost({"f16": 10**12}, assembled("f16", "fma.rn.f32"))[0] > 10 * us, "without matrix instructions"
    twice = cost({"f16": 5 * 10**11, "tf32": 25 * 10**10}, assembled("f16", WGMMA))[0]
    assert twice > us / 2


def test_instructions_of_a_warp_are_slower_than_those_of_a_warpgroup() -> None:
    warp = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r1};"
    us = cost({"f16": 10**12}, assembled("f16", warp))[0]
    assert us / cost({"f16": 10**12}, assembled("f16", WGMMA))[0] == pytest.approx(1 / 0.6, rel=0.01)


def test_idle_multiprocessors_are_counted_for_small_grids_and_for_the_last_round() -> None:
    code = assembled("bf16", WGMMA)
    whole = cost({"bf16": 10**12}, code)[0]
    assert cost({"bf16": 10**12}, code, (11, 3))[0] / whole == pytest.approx(
        H100.multiprocessors / 33, rel=0.01
    )
    one_more = cost({"bf16": 10**12}, code, (H100.multiprocessors + 1, 1))[0]
    assert one_more / whole == pytest.approx(2 * H100.multiprocessors / (H100.multiprocessors + 1), rel=0.01)


def test_tiles_come_from_the_cache_as_often_as_the_loop_loads_them() -> None:
    tile = "%3 = tt.load %p : tensor<64x64x!tt.ptr<f16>>"
    copied = f"cp.async.cg.shared.global [%r1], [%rd1], 0x10, %r2;\n{WGMMA}"
    us = cost({"f16": 10**12}, assembled("f16", copied, loads=tile, blocks=8))[0]
    loaded = 10**12 / (2 * 64**3) * 64 * 64 * 2
    assert us == pytest.approx(loaded / (CACHE_BYTES["9.0"] * (H100.clock_mhz or 0) * 0.85), rel=0.01)


def test_a_loop_that_does_not_load_ahead_waits_for_each_load() -> None:
    tile = "%3 = tt.load %p : tensor<1x1x!tt.ptr<f16>>"
    us = cost({"f16": 2 * 64**3 * 1000}, assembled("f16", WGMMA, loads=tile, stages=1), (1, 1))[0]
    assert us >= 1000 * LATENCY_US
    copied = assembled("f16", f"cp.async.cg.shared.global [%r1], [%rd1], 0x10;\n{WGMMA}", loads=tile)
    assert cost({"f16": 2 * 64**3 * 1000}, copied, (1, 1))[0] < us


def test_other_instructions_of_the_loop_take_their_time_unless_other_warps_fill_it() -> None:
    softmax = "\n".join([WGMMA, *["ex2.approx.ftz.f32 %r1, %r2;"] * 200])
    plain = cost({"f16": 10**12}, assembled("f16", WGMMA))[0]
    alone = cost({"f16": 10**12}, assembled("f16", softmax))[0]
    assert plain < cost({"f16": 10**12}, assembled("f16", softmax, blocks=4))[0] < alone


def test_many_small_programs_take_the_time_to_begin_them() -> None:
    code = Assembled(listings={"ttir": Listing("tt.load", (1,))})
    us, bound = cost({}, code, (4_194_304, 1, 1))
    assert bound == "launch"
    assert us == pytest.approx(LAUNCH_US + 4_194_304 / (H100.clock_mhz or 0) / 0.85)
    assert cost({}, code, (100, 1, 1))[0] < 2


@pytest.mark.parametrize(("products", "text"), [({}, "tt.dot"), ({"f16": 10**9}, "tt.dot_scaled")])
def test_what_is_not_known_has_no_estimate(products: dict[str, int], text: str) -> None:
    code = Assembled(listings={"ttir": Listing(text, (3,)), "ptx": Listing("", ())})
    with pytest.raises(NotEstimatedError):
        cost(products, code)


MASKED, PLAIN = "@%p2 ld.global.b32 {%r1}, [%rd1];", "ld.global.b32 %r1, [%rd1];"


def test_a_loop_waits_for_each_load_unless_several_can_be_made_at_once() -> None:
    work = LaunchWork(iterations=100 * H100.multiprocessors)
    us, bound = cost_of_work(work, MASKED)
    assert bound == "latency"
    assert us == pytest.approx(LAUNCH_US + 100 * LATENCY_US)
    assert cost_of_work(work, PLAIN)[0] == pytest.approx(LAUNCH_US + 100 * LATENCY_US / 4)
    scan = cost_of_work(work, PLAIN, "shfl.sync.up.b32 %r2, %r1, 1, 0, -1;", "bar.sync 0;")[0]
    assert scan == pytest.approx(us + 100 * 48 / (H100.clock_mhz or 0))
    assert cost_of_work(work, "add.s32 %r1, %r1, 1;")[0] < 2, "a loop that loads nothing"


def test_a_loop_that_was_not_counted_has_no_estimate() -> None:
    with pytest.raises(NotEstimatedError, match="not computed"):
        cost_of_work(None, MASKED)
    assert cost_of_work(None, "add.s32 %r1, %r1, 1;")[0] < 2


def test_the_first_load_of_a_short_kernel_is_waited_for() -> None:
    loads = cost_of_work(LaunchWork(), moved=10**7, ttir="%1 = tt.load %p")[0]
    assert loads - cost_of_work(LaunchWork(), moved=10**7)[0] == pytest.approx(LATENCY_US)


def test_atomic_operations_take_their_time_and_contended_ones_have_no_estimate() -> None:
    spread = cost_of_work(LaunchWork(atomic_sectors=10**8, changes=2.0))
    assert spread[0] == pytest.approx(LAUNCH_US + 10**8 / 32 / (H100.clock_mhz or 0), rel=0.01)
    with pytest.raises(NotEstimatedError, match="contended atomic operations"):
        cost_of_work(LaunchWork(atomic_sectors=10**5, changes=10_000.0))
    few = LaunchWork(atomic_sectors=200, changes=200.0)
    assert cost_of_work(few, moved=10**9)[0] > 100, "they take less than the rest"


def test_transposed_tiles_take_the_time_of_their_bank_conflicts() -> None:
    lane = "mov.u32 %r1, %tid.x;\nshl.b32 %r3, %r1, {by};\nst.shared.b32 [%r3], %r4;\n"
    plain, transposed = (
        cost({"f16": 10**12}, assembled("f16", lane.format(by=by) * 64 + WGMMA))[0] for by in (2, 7)
    )
    assert transposed > 3 * plain


@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 4, 1), (3, 2, 2), (100, 3, 2)])
def test_each_program_is_computed_once_and_the_first_ones_are_from_all_parts(
    grid: tuple[int, int, int],
) -> None:
    places = list(_order(grid))
    assert len(set(places)) == len(places) == grid[0] * grid[1] * grid[2]
    if len(places) > 100:
        mean = sum(x for x, _, _ in places[:16]) / 16
        assert mean == pytest.approx(grid[0] / 2, rel=0.1)

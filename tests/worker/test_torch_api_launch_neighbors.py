"""What compile processes compile ahead is what Inductor's coordinate descent times first."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.devices import find
from fuselight.torch_api import launch_neighbors
from fuselight.torch_api.launch_neighbors import compiling_neighbors, neighbors

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]
TUNED = "'coordinate_descent_tuning': True,"
POINTWISE = f"""
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties


@triton_heuristics.pointwise(
    size_hints={{'x': 4096}},
    filename=__file__,
    triton_meta={{'signature': {{'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32'}}, 'constants': {{}},
        'configs': [{{}}], 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9,
        regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, warp_size=32)}},
    inductor_meta={{{TUNED} 'grid_type': 'Grid1D', 'kernel_name': 'triton_poi_fused_sin_0', 'backend_hash': 'b',
        'autotune_local_cache': False, 'autotune_remote_cache': None}},
    min_elem_per_thread=0
)
@triton.jit
def triton_poi_fused_sin_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    tl.store(out_ptr0 + xindex, tl.sin(tl.load(in_ptr0 + xindex, None)), None)
"""
REDUCTION = (
    POINTWISE.replace("triton_heuristics.pointwise(", "triton_heuristics.reduction(")
    .replace("{'x': 4096}", "{'x': 512, 'r0_': 8192}")
    .replace("min_elem_per_thread=0", "reduction_hint=ReductionHint.INNER")
    .replace("'Grid1D',", "'Grid1D', 'num_load': 1, 'num_store': 1, 'num_reduction': 1,")
    .replace("XBLOCK : tl.constexpr)", "r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr)")
)


def autotuner(text: str) -> Any:
    """Inductor's own object for a kernel, on a GPU that is not there."""
    from fuselight.triton_api.source import KernelSource  # noqa: PLC0415 - needs Triton

    device = find("h100-sxm")
    assert device is not None
    return KernelSource(text, device)._autotuner


def compiled(kernel: Any) -> list[Any]:
    kernel.compile_results = [SimpleNamespace(config=one) for one in kernel.configs]
    return [one.config for one in kernel.compile_results]


def described(config: Any) -> tuple[Any, ...]:
    return (*sorted(config.kwargs.items()), config.num_warps, config.num_stages)


@pytest.mark.parametrize("text", [POINTWISE, REDUCTION], ids=["pointwise", "reduction"])
def test_the_neighbors_are_what_a_descent_times_before_it_moves(text: str) -> None:
    timed = set[Any]()

    def time(config: Any) -> float:
        timed.add(described(config))
        return 1.0  # nothing is faster

    starts = compiled(autotuner(text))
    for start in starts:
        autotuner(text).coordesc_tuner.autotune(time, start, None)
    kernel = autotuner(text)
    compiled(kernel)
    found = [described(one) for one in neighbors(kernel)]
    assert sorted(found) == sorted(timed.difference(map(described, starts)))
    assert len(found) >= 4


@pytest.mark.parametrize("reason", ["not asked for", "already tuned", "another kind", "several starts"])
def test_a_kernel_that_is_not_tuned_by_descent_from_one_start_has_none(reason: str) -> None:
    kernel = autotuner(POINTWISE.replace(TUNED, "") if reason == "not asked for" else POINTWISE)
    start, *_ = compiled(kernel)
    if reason == "already tuned":
        start.found_by_coordesc = True
    elif reason == "another kind":
        kernel.heuristic_type = type(kernel.heuristic_type).TEMPLATE
    elif reason == "several starts":
        kernel.compile_results *= 2
    assert neighbors(kernel) == []


def test_compile_processes_compile_them_too_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, asked = autotuner(POINTWISE), list[Any]()
    starts = list(kernel.configs)

    def compile_one(_kernel: Any, config: Any) -> SimpleNamespace:
        asked.append(described(config))
        if len(asked) == len(starts) + 1:
            raise RuntimeError("out of resources")
        return SimpleNamespace(config=config)

    monkeypatch.setattr(type(kernel), "_precompile_config", compile_one)
    before = type(kernel).precompile
    with compiling_neighbors():
        kernel.precompile(warm_cache_only=True)
    assert type(kernel).precompile is before
    assert asked == [described(one) for one in (*starts, *neighbors(kernel))]
    assert [one.config for one in kernel.compile_results] == starts
    asked.clear()
    assert (
        launch_neighbors._precompile(lambda *_, **__: "in the parent", kernel, reload_kernel=None)
        == "in the parent"
    )
    assert not asked

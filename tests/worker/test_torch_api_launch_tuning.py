"""Inductor's coordinate descent in less time: what is compiled ahead is what it times, and small kernels stay."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import PyCodeCache

from fuselight.devices import find
from fuselight.torch_api.launch_tuning import LaunchTuning, compile_neighbors, is_small, neighbors

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
    size_hints={{'x': 4194304}},
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
    .replace("{'x': 4194304}", "{'x': 512, 'r0_': 8192}")
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


def described(config: Any) -> tuple[Any, ...]:
    return (*sorted(config.kwargs.items()), config.num_warps, config.num_stages)


@pytest.mark.parametrize("text", [POINTWISE, REDUCTION], ids=["pointwise", "reduction"])
def test_the_neighbors_are_what_a_descent_times_before_it_moves(text: str) -> None:
    timed = set[Any]()

    def time(config: Any) -> float:
        timed.add(described(config))
        return 1.0  # nothing is faster

    kernel = autotuner(text)
    starts = list(kernel.configs)
    for start in starts:
        autotuner(text).coordesc_tuner.autotune(time, start, None)
    found = [described(one) for one in neighbors(kernel)]
    assert sorted(found) == sorted(timed.difference(map(described, starts)))
    assert len(found) >= 4
    kernel.compile_results, kernel.configs = [SimpleNamespace(config=one) for one in starts], None
    assert [described(one) for one in neighbors(kernel)] == found  # the same once the kernel is compiled


@pytest.mark.parametrize("reason", ["not asked for", "already tuned", "another kind", "several starts"])
def test_a_kernel_that_is_not_tuned_by_descent_from_one_start_has_none(reason: str) -> None:
    kernel = autotuner(POINTWISE.replace(TUNED, "") if reason == "not asked for" else POINTWISE)
    start = kernel.configs[0]
    if reason == "already tuned":
        start.found_by_coordesc = True
    elif reason == "another kind":
        kernel.heuristic_type = type(kernel.heuristic_type).TEMPLATE
    elif reason == "several starts":
        kernel.configs *= 2
    assert neighbors(kernel) == []


@pytest.mark.parametrize(
    ("text", "small"),
    [
        (POINTWISE, False),
        (REDUCTION, False),
        (POINTWISE.replace("4194304", "131072"), True),  # 8 bytes each: 1 MiB
        (POINTWISE.replace("4194304", "262144"), False),
        (POINTWISE.replace("4194304", "262144").replace("*fp32", "*bf16"), True),
        (POINTWISE.replace("4194304", "1048576").replace("*fp32", "*i1"), False),
        (POINTWISE.replace("4194304", "524288").replace("*fp32", "*i1"), True),
    ],
)
def test_a_kernel_is_small_by_the_bytes_that_it_moves(text: str, small: bool) -> None:  # noqa: FBT001 - both cases
    assert is_small(autotuner(text)) == small


class Pool:
    """Inductor's pool of compile processes."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.cancelled = 0

    def submit(self, *task: Any) -> Pool:
        self.asked.append(task)
        return self

    def cancel(self) -> None:
        self.cancelled += 1


def test_at_the_first_descent_compile_processes_compile_for_all_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, compiled, tuned = Pool(), list[str](), list[Any]()
    kernel, small = autotuner(POINTWISE), autotuner(POINTWISE.replace("4194304", "4096"))
    launchers = [SimpleNamespace(config=one.configs[0]) for one in (kernel, small)]
    monkeypatch.setattr(
        AsyncCompile,
        "triton",
        lambda _compiler, kernel_name, source_code: compiled.append(kernel_name) or source_code,
    )
    monkeypatch.setattr(AsyncCompile, "use_process_pool", lambda: True)
    monkeypatch.setattr(AsyncCompile, "process_pool", lambda: pool)
    monkeypatch.setattr(
        type(kernel), "coordinate_descent_tuning", lambda tuner, launcher, *_: tuned.append(tuner) or launcher
    )
    tuning = LaunchTuning()
    with tuning.active():
        assert AsyncCompile().triton("one", POINTWISE) == POINTWISE
        assert AsyncCompile().triton(kernel_name="template", source_code="without") == "without"
        assert not pool.asked
        for one, launcher in zip((kernel, small), launchers, strict=True):
            assert one.coordinate_descent_tuning(launcher, "argument") is launcher
        AsyncCompile().triton("later", REDUCTION)  # of another graph
        kernel.coordinate_descent_tuning(launchers[0])
    assert compiled == ["one", "template", "later"]
    assert pool.asked == [(compile_neighbors, "one", POINTWISE), (compile_neighbors, "later", REDUCTION)]
    assert tuned == [kernel, kernel]
    assert [getattr(one.config, "found_by_coordesc", False) for one in launchers] == [False, True]
    tuning.end()
    assert pool.cancelled == 2


def test_without_compile_processes_nothing_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AsyncCompile, "triton", lambda *_: None)
    monkeypatch.setattr(AsyncCompile, "use_process_pool", lambda: False)
    kernel = autotuner(POINTWISE)
    monkeypatch.setattr(type(kernel), "coordinate_descent_tuning", lambda _tuner, launcher: launcher)
    with LaunchTuning().active():
        AsyncCompile().triton("one", POINTWISE)
        assert kernel.coordinate_descent_tuning("launcher") == "launcher"


def test_a_compile_process_compiles_the_neighbors_of_large_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, asked = autotuner(POINTWISE), list[Any]()

    def compile_one(_kernel: Any, config: Any) -> None:
        asked.append(described(config))
        if len(asked) == 1:
            raise RuntimeError("out of resources")

    monkeypatch.setattr(type(kernel), "_precompile_config", compile_one)
    loaded = {POINTWISE: kernel, "small": autotuner(POINTWISE.replace("4194304", "4096"))}
    monkeypatch.setattr(PyCodeCache, "load", lambda source: SimpleNamespace(name=loaded[source]))
    for source in loaded:
        compile_neighbors("name", source)
    assert asked == [described(one) for one in neighbors(kernel)]

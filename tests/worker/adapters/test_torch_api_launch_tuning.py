"""Inductor's coordinate descent in less time: what is compiled ahead is what it times, and small kernels stay."""

from __future__ import annotations

import importlib.util
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import PyCodeCache
from torch._inductor.runtime import compile_tasks

from fuselight.adapters.torch_api.choices import launch_tuning
from fuselight.adapters.torch_api.choices.launch_tuning import (
    LaunchTuning,
    compile_neighbors,
    is_small,
    neighbors,
)
from fuselight.shared.devices import find

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
    from fuselight.adapters.triton_api.source import KernelSource  # noqa: PLC0415 - needs Triton

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
    describeds = [described(neighbor) for neighbor in neighbors(kernel)]
    assert sorted(describeds) == sorted(timed.difference(map(described, starts)))
    assert len(describeds) >= 4
    kernel.compile_results, kernel.configs = [SimpleNamespace(config=start) for start in starts], None
    assert [
        described(neighbor) for neighbor in neighbors(kernel)
    ] == describeds  # the same once the kernel is compiled


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


SMALL = POINTWISE.replace("4194304", "131072")
"""Two pointers of 4 bytes for each element: 1 MiB."""


@pytest.mark.parametrize(
    ("text", "small"),
    [
        (POINTWISE, False),
        (SMALL, True),
        (SMALL.replace("131072", "262144"), False),
        (SMALL.replace("in_ptr0", "in_out_ptr0").replace("131072", "180000"), False),  # read and written
        (SMALL.replace("131072", "262144").replace("*fp32", "*bf16"), True),
        (SMALL.replace("131072", "1048576").replace("*fp32", "*i1"), False),
        (SMALL.replace("131072", "524288").replace("*fp32", "*i1"), True),
        (SMALL.replace("131072", "1048576").replace("*fp32", "*fp8e4nv"), False),
        (REDUCTION, False),
        (REDUCTION.replace("8192", "128"), True),
        (REDUCTION.replace("512", "4"), False),  # it does not fill a GPU
    ],
)
def test_a_kernel_is_small_by_the_bytes_that_it_moves(text: str, small: bool) -> None:  # noqa: FBT001 - both cases
    kernel = autotuner(text)
    assert is_small(kernel) == small
    kernel.inductor_meta["combo_grid_meta"] = {}  # the sizes are those of one of several kernels
    assert not is_small(kernel)


def test_a_kernel_without_sizes_is_not_small() -> None:
    kernel = autotuner(SMALL)
    kernel.size_hints = None
    assert not is_small(kernel)


class Pool(ProcessPoolExecutor):
    """Inductor's pool of compile processes, which starts none; `running` is how many tasks it has begun."""

    def __init__(self, running: int = 0) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.tasks: list[Future[None]] = []
        self.running = running

    def submit(self, _function: Any, /, *arguments: Any, **_named: Any) -> Any:
        self.asked.append(arguments)
        self.tasks.append(Future())
        if len(self.tasks) <= self.running:
            self.tasks[-1].set_running_or_notify_cancel()
        return self.tasks[-1]


@dataclass
class Inductor:
    """What Inductor was asked for, and its answers."""

    pool: Any
    compiled: list[str] = field(default_factory=list)
    tuned: list[Any] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def triton(_compiler: AsyncCompile, kernel_name: str, source_code: str) -> str:
            self.compiled.append(kernel_name)
            return source_code

        def descend(tuner: Any, launcher: Any, *_arguments: Any) -> Any:
            self.tuned.append(tuner)
            return launcher

        monkeypatch.setattr(AsyncCompile, "triton", triton)
        monkeypatch.setattr(AsyncCompile, "use_process_pool", lambda: self.pool is not None)
        monkeypatch.setattr(AsyncCompile, "process_pool", lambda: self.pool)
        monkeypatch.setattr(type(autotuner(SMALL)), "coordinate_descent_tuning", descend)


def launcher_of(kernel: Any) -> Any:
    return SimpleNamespace(config=kernel.configs[0])


def test_at_the_first_descent_compile_processes_compile_for_all_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inductor = Inductor(Pool())
    inductor.install(monkeypatch)
    template = autotuner(POINTWISE)
    template.heuristic_type = type(template.heuristic_type).TEMPLATE
    kernels = autotuner(POINTWISE), autotuner(SMALL), template
    launchers = [launcher_of(kernel) for kernel in kernels]
    with LaunchTuning().active():
        assert AsyncCompile().triton("one", POINTWISE) == POINTWISE
        assert AsyncCompile().triton(kernel_name="template", source_code="without") == "without"
        assert not inductor.pool.asked
        for kernel, launcher in zip(kernels, launchers, strict=True):
            assert kernel.coordinate_descent_tuning(launcher, "argument") is launcher
    assert inductor.compiled == ["one", "template"]
    ((name, source, end),) = inductor.pool.asked
    assert (name, source) == ("one", POINTWISE)
    assert not Path(end).exists()
    assert inductor.tuned == [kernels[0]]
    flags = [getattr(launcher.config, "found_by_coordesc", False) for launcher in launchers]
    assert flags == [False, True, True]  # the others are not asked for again


def test_kernels_are_compiled_before_what_others_may_need(monkeypatch: pytest.MonkeyPatch) -> None:
    inductor = Inductor(Pool(running=1))
    inductor.install(monkeypatch)
    kernel = autotuner(POINTWISE)
    with LaunchTuning().active():
        for name in ("one", "two"):
            AsyncCompile().triton(name, POINTWISE)
        kernel.coordinate_descent_tuning(launcher_of(kernel))
        AsyncCompile().triton("three", POINTWISE)  # of another graph
        assert [task.cancelled() for task in inductor.pool.tasks] == [False, True]
        kernel.coordinate_descent_tuning(launcher_of(kernel))
    assert [name for name, *_ in inductor.pool.asked] == ["one", "two", "two", "three"]


def test_once_the_kernels_are_tuned_nothing_more_is_compiled_ahead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(launch_tuning, "_END_SECONDS", 0.01)
    inductor = Inductor(Pool(running=1))
    inductor.install(monkeypatch)
    kernel, tuning = autotuner(POINTWISE), LaunchTuning()
    with tuning.active():
        for name in ("one", "two"):
            AsyncCompile().triton(name, POINTWISE)
        kernel.coordinate_descent_tuning(launcher_of(kernel))
        tuning.end()
        assert [task.cancelled() for task in inductor.pool.tasks] == [False, True]
        assert Path(inductor.pool.asked[0][-1]).exists()  # which the running task looks for
        AsyncCompile().triton("three", POINTWISE)
        kernel.coordinate_descent_tuning(launcher_of(kernel))
    assert len(inductor.pool.asked) == 2


class Broken(Pool):
    """A pool of which a process has ended."""

    def submit(self, _function: Any, /, *arguments: Any, **_named: Any) -> Any:
        raise BrokenProcessPool(f"no process for {arguments}")


@pytest.mark.parametrize("pool", [None, object(), Broken()], ids=["none", "of another kind", "broken"])
def test_without_a_pool_of_forks_inductor_tunes_by_itself(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inductor = Inductor(pool)
    inductor.install(monkeypatch)
    kernel, tuning = autotuner(POINTWISE), LaunchTuning()
    launcher = launcher_of(kernel)
    with tuning.active():
        AsyncCompile().triton("one", POINTWISE)
        assert kernel.coordinate_descent_tuning(launcher) is launcher
        tuning.end()
    assert inductor.tuned == [kernel]


def test_a_compile_process_compiles_the_neighbors_of_large_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel, asked, end = autotuner(POINTWISE), list[Any](), tmp_path / "end"

    def compile_one(_kernel: Any, config: Any) -> None:
        asked.append(described(config))
        if len(asked) == 1:
            raise RuntimeError("out of resources")
        if len(asked) == stop:
            end.touch()

    monkeypatch.setattr(type(kernel), "_precompile_config", compile_one)
    loaded = {POINTWISE: kernel, "small": autotuner(SMALL)}
    monkeypatch.setattr(PyCodeCache, "load", lambda source: SimpleNamespace(name=loaded[source]))
    expected = [described(neighbor) for neighbor in neighbors(kernel)]
    for stop in (0, 2):
        asked.clear()
        for source in loaded:
            compile_neighbors("name", source, str(end))
        assert asked == (expected[:stop] if stop else expected)


def test_this_process_and_its_compile_processes_have_one_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a descent does not find in Triton's cache what they compiled: the assembler's version is in its keys."""
    asked: list[str] = []
    monkeypatch.setattr(compile_tasks, "_set_triton_ptxas_path", lambda: asked.append("torch's"))
    with LaunchTuning().active():
        assert asked == ["torch's"]

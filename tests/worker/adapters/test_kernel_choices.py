"""What Inductor chose by timing kernels is recorded, and taken again without timing."""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor import metrics
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codegen.multi_kernel import MultiKernelCall
from torch._inductor.runtime import autotune_cache
from torch._inductor.scheduler import FusionResult, Scheduler

from fuselight.adapters.torch_api.choices import kernel_choices, launch_configurations
from fuselight.adapters.torch_api.choices.kernel_choices import (
    ChoiceRecorder,
    replaying,
)
from fuselight.adapters.torch_api.choices.launch_configurations import kernel_key
from fuselight.adapters.torch_api.patching import wrapped
from fuselight.replay.preparation import prepared_inductor
from fuselight.shared.report.tuned import Preparation
from tests.support.counted_timings import counting_timings

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:TypedStorage")]  # torch times with it
OPTIONS = {"max_autotune_gemm": True}
SOURCE = """
@triton_heuristics.pointwise(size_hints={'x': 16}, filename=__file__,
    triton_meta={'device': DeviceProperties(type='cuda', index=0, cc=90)},
    inductor_meta={'kernel_name': 'triton_poi_fused_add_0'})
@triton.jit
def triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    pass
"""


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False):
        yield
    torch._dynamo.reset()


def run(compiling: Any) -> tuple[torch.Tensor, list[str]]:
    torch.manual_seed(0)
    other_tensor, other = torch.randn(4, 64, 64), torch.randn(4, 64, 64)
    backend = prepared_inductor(Preparation(), None, OPTIONS, compiling=compiling)
    with counting_timings() as timed, torch.no_grad():
        tensor = torch.compile(torch.bmm, backend=backend)(other_tensor, other)
    torch._dynamo.reset()
    return tensor, timed


def test_a_recorded_implementation_is_taken_without_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[list[str]] = []
    real = kernel_choices._identities

    def identities(every: list[Any]) -> list[str]:
        offered.append(real(every))
        return offered[-1]

    monkeypatch.setattr(kernel_choices, "_identities", identities)
    recorder = ChoiceRecorder()
    expected, timed = run(recorder.recording)
    assert timed  # Inductor timed its template against the library
    ((key, chosen),) = json.loads(json.dumps(recorder.by_family))["algorithms"].items()
    assert chosen in offered[0]
    other = next(text for text in offered[0] if text != chosen)
    taken: list[str] = []
    found_real = kernel_choices._recorded

    def recorded(every: list[Any], identity: object) -> Any:
        value = found_real(every, identity)
        taken.append(real([value])[0])
        return value

    monkeypatch.setattr(kernel_choices, "_recorded", recorded)
    tensor, timed = run(lambda: replaying({"algorithms": {key: other}}))
    assert timed == []
    assert taken == [other]
    torch.testing.assert_close(tensor, expected)


def at_once() -> Any:
    return FusionResult.fuse(should_fuse=False)


def once_compiled() -> Any:
    return FusionResult.from_callable(lambda: False)


@pytest.mark.parametrize("slower", [at_once, once_compiled])
def test_what_was_slower_fused_is_not_fused_in_a_replay(slower: Callable[[], Any]) -> None:
    def both(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tensor.sin(), tensor.cos()

    def kernels(compiling: Any) -> int:
        metrics.reset()
        backend = prepared_inductor(Preparation(), None, {}, compiling=compiling)
        torch.compile(both, backend=backend)(torch.ones(64, 64))
        torch._dynamo.reset()
        return int(metrics.generated_kernel_count)

    assert kernels(ChoiceRecorder().recording) == 1
    recorder = ChoiceRecorder()
    # As if each fusion had been timed and found slower: Inductor times none on a CPU.
    with wrapped(Scheduler, "speedup_by_fusion", lambda *_: slower()):
        assert kernels(recorder.recording) == 2
    recorded = json.loads(json.dumps(recorder.by_family))
    assert list(recorded["fusion"].values()) == [False]
    assert kernels(lambda: replaying(recorded)) == 2
    assert kernels(lambda: replaying({"fusion": {"another pair": False}})) == 1


def nodes(*names: str) -> list[SimpleNamespace]:
    """Nodes of Inductor's scheduler."""
    namespaces = [
        SimpleNamespace(
            get_name=lambda name=name: name, node=SimpleNamespace(origins=(), maybe_get_size=lambda: [8])
        )
        for name in names
    ]
    for namespace in namespaces:
        namespace.get_nodes = lambda value=namespace: [value]
    return namespaces


def test_what_was_slower_combined_is_not_combined_in_a_replay() -> None:
    def speedup_by_combo_kernel(_scheduler: object, combined: list[SimpleNamespace]) -> bool:
        return len(combined) > 2

    recorder = ChoiceRecorder()
    assert recorder._fusing(speedup_by_combo_kernel, None, nodes("op0", "op1")) is False
    assert recorder._fusing(speedup_by_combo_kernel, None, nodes("op0", "op1", "op2")) is True
    assert len(recorder.by_family["fusion"]) == 1
    hooks = kernel_choices._ReplayHooks(recorder.by_family)

    def combines(_scheduler: object, _combined: list[SimpleNamespace]) -> bool:
        return not torch._inductor.config.benchmark_combo_kernel  # it would be timed

    assert hooks.fuse(functools.wraps(speedup_by_combo_kernel)(combines), None, nodes("op0", "op1")) is False
    with torch._inductor.config.patch(benchmark_combo_kernel=True), replaying(recorder.by_family):
        assert torch._inductor.config.benchmark_combo_kernel  # the sources of kernels depend on it
        assert hooks.fuse(combines, None, nodes("op0", "op1", "op2")) is True
        assert hooks.fuse(combines, None, nodes("op1", "op0")) is True


class OfAReduction:
    """Stands for one of several kernels of a reduction; `ms` is the time that Inductor measures."""

    def __init__(self, path: Path, ms: float) -> None:
        path.write_text(f"{SOURCE}# {path.name}", encoding="utf-8")
        self.filename, self.ms, self.runs = str(path), ms, 0
        self.fn = SimpleNamespace(cache_key=path.name)
        self.size_hints = self.triton_meta = ""
        self.inductor_meta = {"kernel_name": path.name}

    def run(self) -> None:
        self.runs += 1


def test_the_kernel_of_a_reduction_that_was_the_fastest_runs_without_timing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_DISABLE_MULTI_KERNEL_CACHE", "1")  # as in a new process
    timed: list[int] = []

    def timings(call: Any) -> list[float]:
        timed.append(len(call.kernels))
        return [kernel.ms for kernel in call.kernels]

    monkeypatch.setattr(MultiKernelCall, "benchmark_sub_kernels", timings)

    def call(**ms: float) -> tuple[Any, list[OfAReduction]]:
        kernels = [OfAReduction(tmp_path / f"{name}.py", number) for name, number in ms.items()]
        make: Any = MultiKernelCall
        return make("multi_kernel_0", kernels, {0: [slice(0, 0)], 1: [slice(0, 0)]}), kernels

    recorder = ChoiceRecorder()
    with recorder.watching_launches():
        value, kernels = call(looped=2.0, persistent=1.0)
        value.run()
        with monkeypatch.context() as later:
            later.delattr(kernel_choices, "key_of_kernel")  # a launch that is timed reads no file
            value.run()
    assert [reduction_kernel.runs for reduction_kernel in kernels] == [0, 2]
    recorded = json.loads(json.dumps(recorder.by_family))
    assert list(recorded["multi_kernel"].values()) == [1]
    assert timed == [2]
    with replaying(recorded):
        value, kernels = call(looped=2.0, persistent=1.0)
        unknown, others = call(looped=2.0, other=1.0)
    value.run()
    unknown.run()
    assert (
        [reduction_kernel.runs for reduction_kernel in kernels],
        [reduction_kernel.runs for reduction_kernel in others],
    ) == ([0, 1], [1, 0])
    # Kernels from saved artifacts name files of another machine.
    hooks = kernel_choices._ReplayHooks(recorded)
    value, kernels = call(looped=2.0, persistent=1.0)
    for kernel in kernels:
        source = Path(kernel.filename).read_text(encoding="utf-8")
        hooks.compile_kernel(lambda *_: None, None, "triton_", source)
        kernel.filename = f"/gone/{Path(launch_configurations.written(source)).name}"
    hooks.make_multi_kernel(lambda *_: None, value)
    assert value.picked_kernel == 1
    for damaged in ("1", 7, -1):
        with replaying({"multi_kernel": dict.fromkeys(recorded["multi_kernel"], damaged)}):
            value, kernels = call(looped=2.0, persistent=1.0)
        value.run()
        assert [reduction_kernel.runs for reduction_kernel in kernels] == [1, 0]
    assert timed == [2]


RECORDED = sorted((Path(__file__).parents[2] / "recordings" / "kernels").glob("*.txt"))
"""Sources that Inductor wrote on a machine with a GPU."""


def written_elsewhere(source: str) -> str:
    """What Inductor writes where TRITON_PTXAS_PATH names another ptxas, and its caches are off."""
    other = re.sub(r"('backend_hash': ')\w+", r"\g<1>0123ABC", source)
    other = other.replace("'force_disable_caches': False", "'force_disable_caches': True")
    return other.replace("'autotune_remote_cache': None", "'autotune_remote_cache': False")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_kernels_key_does_not_depend_on_the_environment(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source != written_elsewhere(source)
    assert kernel_key(source) == kernel_key(written_elsewhere(source))


def test_a_kernel_that_was_tuned_in_another_environment_is_replayed_in_its_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = RECORDED[0].read_text(encoding="utf-8")
    config = {"XBLOCK": 64, "num_warps": 2, "num_stages": 1, "configs_hash": "h"}
    seeded: list[object] = []
    monkeypatch.setattr(launch_configurations, "seed", lambda _path, choice: seeded.append(choice))
    monkeypatch.setattr(AsyncCompile, "triton", lambda *_: None)
    for key, written in (
        (kernel_key(source), written_elsewhere(source)),
        (launch_configurations.first_key(source), source),  # of an older file
    ):
        with replaying({"triton": {key: config}}):
            AsyncCompile().triton("triton_", written)
    assert seeded == [config, config]
    with replaying({"triton": {launch_configurations.first_key(source): config}}):
        AsyncCompile().triton("triton_", written_elsewhere(source))
    assert seeded == [config, config]


def test_a_kernels_key_ignores_its_name_and_the_index_of_the_gpu() -> None:
    other = SOURCE.replace("triton_poi_fused_add_0", "triton_poi_fused_add_17").replace("index=0", "index=3")
    assert kernel_key(SOURCE) == kernel_key(other)
    assert kernel_key(SOURCE) != kernel_key(SOURCE.replace("'x': 16", "'x': 32"))
    assert kernel_key(SOURCE) != kernel_key(SOURCE.replace("cc=90", "cc=80"))


def test_a_kernels_configuration_is_found_by_inductors_runtime() -> None:
    """Recorded from the cache of one process, stored in that of another, under another name."""
    config = {"XBLOCK": 64, "num_warps": 2, "num_stages": 1, "configs_hash": "h", "found_by_coordesc": False}
    launch_configurations.seed(launch_configurations.written(SOURCE), config)
    recorded = ChoiceRecorder().by_family["triton"]
    assert recorded == {kernel_key(SOURCE): config}
    other = SOURCE.replace("add_0", "add_1")
    launch_configurations.seed(launch_configurations.written(other), recorded[kernel_key(other)])
    _, path = torch._inductor.codecache.PyCodeCache.write(other)
    meta: dict[str, object] = {
        "autotune_local_cache": True,
        "autotune_remote_cache": False,
        "coordinate_descent_tuning": False,
    }
    cache = autotune_cache.AutotuneCache.create(meta, path, "h")
    assert cache is not None
    stored = cache._read()
    assert stored == config


def test_launch_configurations_in_a_shared_folder_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"XBLOCK": 64, "num_warps": 2, "num_stages": 1, "configs_hash": "h", "found_by_coordesc": True}
    shared = str(tmp_path / "shared")
    ChoiceRecorder(shared).share()  # nothing was tuned
    launch_configurations.seed(launch_configurations.written(SOURCE), config)
    ChoiceRecorder(shared).share()
    (tmp_path / "shared" / "cut_off.json").write_text("{", encoding="utf-8")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "other"))
    monkeypatch.setattr(AsyncCompile, "triton", lambda _compiler, kernel_name, source_code: kernel_name)  # noqa: ARG005
    same, different = SOURCE.replace("add_0", "add_1"), SOURCE.replace("'x': 16", "'x': 32")
    recorder = ChoiceRecorder(shared)
    with recorder.recording():
        assert AsyncCompile().triton("name", different) == "name"
        assert AsyncCompile().triton(kernel_name="name", source_code=same) == "name"  # as templates call it
    assert recorder.by_family["triton"] == {kernel_key(SOURCE): config}
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "third"))
    recorder = ChoiceRecorder(shared, shares_launches=False)
    with recorder.recording():
        AsyncCompile().triton("name", same)
    assert recorder.by_family == {}


def decide_padding(recorder: ChoiceRecorder, *, decided: bool | None, rows: int = 3) -> bool:
    """Whether a multiplication is padded, which Inductor decides so, or does not decide."""

    def should_pad(mat1: torch.Tensor, mat2: torch.Tensor, op: object) -> bool:  # noqa: ARG001
        assert decided is not None
        return decided

    with recorder.recording():
        return bool(recorder._deciding_padding(should_pad, torch.ones(rows, 5), torch.ones(5, 7), op="mm"))


@pytest.mark.parametrize("pads", [True, False])
def test_a_padding_is_as_the_first_process_decided(
    pads: bool,  # noqa: FBT001 - both cases
    tmp_path: Path,
) -> None:
    shared = str(tmp_path / "shared")
    assert decide_padding(ChoiceRecorder(shared, shares_launches=False), decided=pads) is pads
    later = ChoiceRecorder(shared)
    assert decide_padding(later, decided=None) is pads
    assert list(later.by_family["padding"].values()) == [pads]
    assert decide_padding(later, decided=not pads, rows=4) is not pads
    assert decide_padding(ChoiceRecorder(), decided=not pads) is not pads


def test_of_two_processes_that_decide_at_once_one_is_the_first(tmp_path: Path) -> None:
    shared = str(tmp_path / "shared")
    within: list[bool] = []

    def decide() -> bool:
        within.append(kernel_choices._decided_first(shared, "key", lambda: True))
        return False

    assert kernel_choices._decided_first(shared, "key", decide)
    assert within == [True]
    assert len(list((tmp_path / "shared").iterdir())) == 1


def test_an_operand_that_can_be_written_padded_has_a_decision_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pad_mm = importlib.import_module("torch._inductor.fx_passes.pad_mm")
    monkeypatch.setattr(pad_mm, "can_pad", lambda *_: True)  # Inductor pads for GPUs only
    monkeypatch.setattr(pad_mm, "is_mm_compute_bound", lambda *_: True)
    times = [1.0, 0.5, 2.0]  # without padding, with it, with it where the operand is an input
    monkeypatch.setattr(pad_mm, "get_do_bench", lambda: lambda _function: times.pop(0))

    def both(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x @ weight, x.relu() @ weight

    def compiled(compiling: Any) -> None:
        backend = prepared_inductor(Preparation(), None, {}, compiling=compiling)
        with torch.no_grad():
            torch.compile(both, backend=backend)(torch.ones(33, 35), torch.ones(35, 37))
        torch._dynamo.reset()

    recorder = ChoiceRecorder()
    compiled(recorder.recording)
    assert times == []
    padding = recorder.by_family["padding"]
    assert sorted(padding.values()) == [False, True]
    assert sorted(key.endswith("mat1") for key in padding) == [False, True]
    compiled(lambda: replaying({"padding": padding}))  # it would find no time


def test_a_padding_does_not_change_within_a_process(tmp_path: Path) -> None:
    recorder = ChoiceRecorder()
    assert decide_padding(recorder, decided=True)
    recorder.shared = str(tmp_path / "shared")
    assert not decide_padding(ChoiceRecorder(recorder.shared), decided=False)
    assert decide_padding(recorder, decided=None)


def test_padding_always_is_no_decision_for_others(tmp_path: Path) -> None:
    shared = str(tmp_path / "shared")
    with torch._inductor.config.patch(force_shape_pad=True):
        assert decide_padding(ChoiceRecorder(shared), decided=True)
    assert not decide_padding(ChoiceRecorder(shared), decided=False)
    with torch._inductor.config.patch(force_shape_pad=True):
        assert decide_padding(ChoiceRecorder(shared), decided=True)


class Kernel:
    """Stands for Inductor's autotuner of one kernel; `scaled` is what it compiles besides."""

    def __init__(self, path: Path, *configs: SimpleNamespace, scaled: SimpleNamespace | None = None) -> None:
        self.filename = str(path)
        self.launchers = [SimpleNamespace(config=config) for config in configs]
        self.scaled = scaled

    def scale(self) -> None:
        if self.scaled is not None:
            self.launchers.append(SimpleNamespace(config=self.scaled))


def configuration(block: int) -> SimpleNamespace:
    return SimpleNamespace(kwargs={"XBLOCK": 1, "R0_BLOCK": block}, num_warps=4, num_stages=1)


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ({"XBLOCK": 1, "R0_BLOCK": 1024, "num_warps": 4, "num_stages": 1}, 1024),  # the smaller block
        ({"XBLOCK": 1, "R0_BLOCK": 2048, "num_warps": 4, "num_stages": 1}, 2048),
        ({"XBLOCK": 1, "R0_BLOCK": 64, "num_warps": 4, "num_stages": 1}, 2048),  # of another torch
        (None, 2048),
    ],
)
def test_one_configuration_of_a_kernel_is_left(
    chosen: dict[str, Any] | None, left: int, tmp_path: Path
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE, encoding="utf-8")
    hooks = kernel_choices._ReplayHooks({} if chosen is None else {"triton": {kernel_key(SOURCE): chosen}})
    kernel = Kernel(path, configuration(2048), scaled=configuration(1024))
    hooks.scale_blocks(Kernel.scale, kernel)
    (launcher,) = kernel.launchers
    assert launcher.config.kwargs["R0_BLOCK"] == left
    assert launcher.config.found_by_coordesc  # and none is looked for around it
    assert launcher.config.found_by_combo_autotune


@pytest.mark.parametrize(
    ("tuned", "flags"),
    [
        ("this", []),  # Inductor has compiled it in its configuration alone
        ("another", [True]),
        ("none", []),  # as where Inductor had nothing to choose
    ],
)
def test_that_no_kernel_is_one_that_was_tuned_is_said(
    tuned: str, flags: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE, encoding="utf-8")
    choice = {"XBLOCK": 1, "R0_BLOCK": 1024, "num_warps": 4, "num_stages": 1, "configs_hash": "h"}
    heuristics = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    monkeypatch.setattr(heuristics.CachingAutotuner, "_dynamic_scale_rblock", Kernel.scale)
    monkeypatch.setattr(AsyncCompile, "triton", lambda *_: None)
    choices = {"this": {kernel_key(SOURCE): choice}, "another": {"key": choice}, "none": {}}[tuned]
    calls: list[bool] = []
    with replaying({"triton": choices}, lambda: calls.append(True)):
        AsyncCompile().triton("triton_", SOURCE)
        for _ in range(2):  # the second as one that the search has compiled and not launched
            heuristics.CachingAutotuner._dynamic_scale_rblock(
                Kernel(path, configuration(2048), configuration(512))
            )
    assert calls == flags


def test_a_choice_after_timed_epilogues_is_recorded() -> None:
    recorder = ChoiceRecorder()
    callers = [
        SimpleNamespace(name=f"triton_mm_{index}", description=f"BLOCK_M={2**index}") for index in (4, 5)
    ]
    for caller in callers:
        caller.output_node = lambda: None
    node = SimpleNamespace()
    keyed = [f"mm {node} highest", "triton_mm BLOCK_M=32"]
    for caller, identity in zip(callers, kernel_choices._identities(callers), strict=True):
        chosen = functools.partial(recorder._algorithms.__setitem__, keyed[0], identity)
        kernel_choices._mark(caller, chosen)
    recorder._finalizing(lambda _buffer, _callers: None, None, {None: callers[0]})
    recorder._finalizing(lambda _buffer, _callers: None, None, callers[1])
    assert recorder.by_family == {"algorithms": {keyed[0]: keyed[1]}}


def test_configurations_under_a_tag_of_the_caches_are_recorded_and_seeded() -> None:
    configuration = {"XBLOCK": 128, "num_warps": 4, "num_stages": 1, "configs_hash": "a"}
    path = launch_configurations.written(SOURCE)
    with torch.compiler.config.patch(cache_key_tag="+longest=8"):  # type: ignore[attr-defined]
        launch_configurations.seed(path, configuration)
        tagged, plain = (launch_configurations.best_config_path(path, tag) for tag in ("+longest=8", ""))
        assert tagged is not None
        assert plain is not None
        assert tagged != plain
        assert Path(tagged).read_text() == Path(plain).read_text() == json.dumps(configuration)
        Path(plain).unlink()  # as where this process tuned the kernel, not a worker process
        recorder = ChoiceRecorder()
        with recorder.recording():
            pass
    assert recorder.by_family["triton"] == {kernel_key(SOURCE): configuration}
    assert "triton" not in ChoiceRecorder().by_family

"""Launches of Triton kernels without a GPU: what they write, what is refused, and that nothing of it stays."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.absent_gpu import device_guards
from fuselight.shared.devices import find
from tests.support.checked_kernels import HAS_BLOCK_POINTERS
from tests.support.kernels import NO_TRITON

pytest.importorskip("triton", reason=NO_TRITON)
pytest.importorskip("numpy")

from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.launches import launcher
from fuselight.adapters.triton_api.launches.record import LaunchLog, LaunchOutcome
from fuselight.adapters.triton_api.launches.specializations import LaunchRecord
from fuselight.adapters.triton_api.launches.stand_in import KernelCode, refusing_launches, standing_in
from fuselight.shared.protocol import OwnKernelsPlan
from fuselight.worker.child.kernel_launches import KernelLaunches
from fuselight.worker.child.own_kernels import OwnKernels
from fuselight.worker.verify.case_caller import NothingToCompareError, check_values

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, nothing stands in for it"),
]
KERNELS = Path(__file__).parents[2] / "cases" / "launches" / "launch_kernels.py"
KIND_NAMES = [
    line.split('"')[1]
    for line in KERNELS.read_text(encoding="utf-8").splitlines()
    if line.startswith('    "')
    and "LaunchKind(" in line
    and (HAS_BLOCK_POINTERS or "block_pointers" not in line)
]


class Launches:
    """The launches of a test."""

    def __init__(self) -> None:
        self.outcomes: list[LaunchOutcome] = []
        self.log = LaunchLog(lambda outcome, _frame: self.outcomes.append(outcome))

    def only(self) -> LaunchOutcome:
        """The only one; a launch that is too long is checked by address in addition."""
        (outcome,) = (outcome for outcome in self.outcomes if outcome.addresses is None)
        return outcome


@pytest.fixture(scope="module")
def stood_in() -> Iterator[tuple[Launches, ModuleType]]:
    launches = Launches()
    with (
        device_guards(),
        standing_in(find("h100-sxm"), launches.log, lambda path: path == str(KERNELS)),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.syspath_prepend(str(KERNELS.parent))
        yield launches, importlib.import_module("launch_kernels")


@pytest.fixture
def launches(stood_in: tuple[Launches, ModuleType]) -> Launches:
    stood_in[0].outcomes.clear()
    stood_in[0].log.launches = 0
    stood_in[0].log.seconds = 0.0
    return stood_in[0]


@pytest.fixture
def kernels(stood_in: tuple[Launches, ModuleType]) -> Any:
    return stood_in[1]


class Graphs:
    """A backend that counts launches in graphs."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, module: torch.fx.GraphModule, _inputs: object) -> Any:
        self.count += 1
        return module.forward


@pytest.mark.parametrize("name", KIND_NAMES)
def test_a_kind_of_launch_gives_what_pytorch_gives(name: str, launches: Launches, kernels: Any) -> None:
    kind = kernels.KINDS[name]
    torch.manual_seed(3)
    inputs = [torch.randn(shape).to(kind.dtype).requires_grad_(kind.differentiable) for shape in kind.shapes]
    graphs = Graphs()
    torch._dynamo.reset()
    expected = kind.reference(*inputs)
    for function in (kind.launch, torch.compile(kind.launch, backend=graphs)):
        result = function(*inputs)
        torch.testing.assert_close(result, expected, atol=2e-5, rtol=1e-4)
        if kind.differentiable:
            slopes = [
                torch.autograd.grad(each.sum(), inputs, retain_graph=True) for each in (result, expected)
            ]
            torch.testing.assert_close(*slopes)
    assert launches.outcomes == []
    assert launches.log.launches >= 2
    assert graphs.count == kind.breaks + 1


@pytest.mark.contract
@pytest.mark.usefixtures("launches")
def test_the_graph_of_a_device_context_reaches_no_driver() -> None:
    """A graph calls a function by its module and name, and those of torch's C++ look for a GPU."""
    codes = []

    def backend(module: torch.fx.GraphModule, _inputs: Any) -> Any:
        codes.append(module.code)
        return module.forward

    def on_first(x: torch.Tensor) -> torch.Tensor:
        with torch.cuda.device(0):
            return x * 2

    torch.compile(on_first, backend=backend)(torch.ones(3))
    assert ["_exchange_device" in code and "torch._C" not in code for code in codes] == [True]


def line_of(mark: str) -> int:
    """The line of `launch_kernels.py` with that mark."""
    lines = KERNELS.read_text(encoding="utf-8").splitlines()
    (line,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# FAULT: {mark}")]
    return line


def test_a_read_without_a_mask_is_reported_and_gives_zero(launches: Launches, kernels: Any) -> None:
    x, out = torch.ones(1000), torch.zeros(1000)
    kernels.without_mask[(4,)](x, out, 1000, BLOCK=256)
    (fault,) = launches.only().faults
    assert (fault.access, fault.argument, fault.offset, fault.elements) == ("load", "x", 1000, 1000)
    assert (fault.path, fault.line, fault.masked) == (str(KERNELS), line_of("load"), False)
    assert fault.program == (3, 0, 0)
    assert launches.only().unknown == ""
    assert out.eq(2).all()


def test_a_write_outside_of_a_tensor_does_not_happen(launches: Launches, kernels: Any) -> None:
    around = torch.zeros(100)
    out = around.clone()
    kernels.shifted_by_one[(1,)](torch.ones(100), out, 100, BLOCK=128)
    (fault,) = launches.only().faults
    assert (fault.access, fault.argument, fault.offset, fault.masked) == ("store", "out", 100, True)
    assert fault.line == line_of("store")
    assert out[0] == 0
    assert out[1:].eq(1).all()


def test_atomic_operations_far_outside_do_not_end_the_process(launches: Launches, kernels: Any) -> None:
    out = torch.zeros(10)
    kernels.far_away[(1,)](torch.ones(64), out, BLOCK=64)
    (fault,) = launches.only().faults
    assert (fault.access, fault.offset, fault.line) == ("atomic", 1_000_000, line_of("atomic"))
    assert out.tolist() == [1.0, *[0.0] * 9]


def test_an_offset_that_overflows_32_bits_is_seen(launches: Launches, kernels: Any) -> None:
    kernels.overflowing[(1,)](torch.ones(8), torch.zeros(1), 1 << 30)
    (fault,) = launches.only().faults
    assert (fault.offset, fault.line) == (-(1 << 30), line_of("overflow"))


def test_what_a_tensor_is_a_view_of_may_be_accessed(launches: Launches, kernels: Any) -> None:
    """A kernel may know the storage: no false finding."""
    whole = torch.ones(300)
    kernels.without_mask[(1,)](whole[:200], torch.zeros(256), 256, BLOCK=256)
    assert launches.outcomes == []


@pytest.mark.parametrize("name", ["endless", "long_loop"])
def test_a_launch_ends_with_its_budget(
    name: str, launches: Launches, kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "MAX_SECONDS", 0.2)
    lock, x, out = torch.ones(1, dtype=torch.int32), torch.ones(64), torch.full((64,), float("nan"))
    arguments = {"endless": (lock,), "long_loop": (x, out, 1 << 30, 64)}[name]
    start = time.perf_counter()
    getattr(kernels, name)[(1,)](*arguments)
    assert time.perf_counter() - start < 60  # the budget is 0.2 s; a machine may be busy
    assert launches.only().unknown == "computing them on the CPU takes too long"
    if name == "long_loop":
        assert out.eq(0.5).all()
        assert x.eq(1).all()
    before = launches.log.seconds
    getattr(kernels, name)[(1,)](*arguments)
    assert launches.log.seconds - before < 0.2, "an equal launch is not tried again"
    assert sum(outcome.addresses is None for outcome in launches.outcomes) == 2


def test_all_launches_have_a_budget(
    launches: Launches, kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "MAX_ALL_SECONDS", 0.0)
    out = kernels.positional(torch.ones(kernels.LENGTH))
    assert launches.only().unknown == "computing them on the CPU takes too long"
    assert out.eq(0.5).all()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("through_pointers", "it follows pointers that it has read from a tensor or computed"),
        ("two_instructions", "it has inline assembly"),
    ],
)
def test_what_cannot_be_computed_is_named(name: str, reason: str, launches: Launches, kernels: Any) -> None:
    elsewhere, out = torch.ones(16), torch.zeros(16)
    if name == "through_pointers":
        kernels.through_pointers[(1,)](torch.tensor([elsewhere.data_ptr()]), out)
    else:
        kernels.two_instructions[(1,)](elsewhere, out, BLOCK=16)
    assert launches.only().unknown == reason
    assert out.eq(0.5).all()


def test_launches_of_several_threads_are_computed_one_by_one(launches: Launches, kernels: Any) -> None:
    x = torch.randn(kernels.LENGTH)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: kernels.positional(x), range(8)))
    for result in results:
        torch.testing.assert_close(result, x * 1.5)
    assert launches.outcomes == []


def test_unknown_values_of_inference_tensors_are_filled(launches: Launches, kernels: Any) -> None:
    with torch.inference_mode():
        out = torch.full((16,), float("nan"))
    kernels.two_instructions[(1,)](torch.ones(16), out, BLOCK=16)
    assert launches.only().unknown
    assert out.eq(0.5).all()


def test_arguments_that_triton_refuses_are_refused(launches: Launches, kernels: Any) -> None:
    x = torch.ones(8)
    with pytest.raises(TypeError, match="missing"):
        kernels.scaled_sum[(1,)](x, x)
    with pytest.raises(KeyError, match="WARPS"):
        kernels.scaled_sum[(1,)](x, x, x, 8, 1.0, BLOCK=8, WARPS=4)
    assert launches.outcomes == []


def test_a_warm_up_returns_a_kernel_that_has_registers_and_can_be_launched(
    launches: Launches, kernels: Any
) -> None:
    x, out = torch.randn(kernels.LENGTH), torch.zeros(kernels.LENGTH)
    kernel = kernels.scaled_sum.warmup(x, x, out, kernels.LENGTH, 0.5, BLOCK=128, num_warps=2, grid=(1,))
    assert launches.log.launches == 0
    kernel._init_handles()
    assert 0 < kernel.n_regs < 256
    assert (kernel.n_spills, kernel.metadata.num_warps) == (0, 2)
    assert ".target sm_90a" in kernel.asm["ptx"]
    kernel[(3,)](x, x, out, kernels.LENGTH, 0.5, 128)
    torch.testing.assert_close(out, x * 1.5)


def test_other_code_gets_torchs_own_answers(kernels: Any) -> None:
    assert kernels.asks_for_gpu(torch.ones(kernels.LENGTH)).shape == (kernels.LENGTH,)
    assert not torch.cuda.is_available()
    others = {"torch": torch, "__name__": "plain"}  # modules next to this one have kernels
    exec("is_cuda = torch.ones(1).is_cuda\ncount = torch.cuda.device_count()", others)  # noqa: S102 - code of another module
    assert (others["is_cuda"], others["count"]) == (False, 0)
    with pytest.raises((AssertionError, RuntimeError)):
        exec("torch.cuda.get_device_properties(0)", others)  # noqa: S102 - as above
    pad = sys.modules.get("torch._inductor.fx_passes.pad_mm")
    assert pad is None or not pad.has_triton()


def test_products_of_a_launch_are_counted_by_dtype(
    launches: Launches, kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dtype, name in ((torch.float32, "tf32"), (torch.float16, "f16"), (torch.bfloat16, "bf16")):
        record = LaunchRecord(is_wanted=lambda _: True)
        monkeypatch.setattr(launches.log, "record", record)
        kernels.multiplied(torch.randn(50, 40).to(dtype), torch.randn(40, 60).to(dtype))
        (specialization,) = record.specializations.values()
        tiles = 4 * 2  # of the grid, and of the loop in each program
        work = record.work_of(specialization.request)
        assert work is not None
        assert work.products == {name: tiles * 2 * 32**3}
        assert work.iterations == tiles
        assert (work.atomic_sectors, work.changes) == (0, 0.0)


def test_a_kernel_of_a_library_is_listed_whoever_launches_it(
    launches: Launches, kernels: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The backward of a directive's call has no line of the program in its stack."""
    record = LaunchRecord(is_wanted=lambda _: True)
    monkeypatch.setattr(launches.log, "record", record)
    kernels.KINDS["positional"].launch(torch.randn(kernels.LENGTH))
    own, plan = OwnKernels(), OwnKernelsPlan(device=find("h100-sxm"))
    nobody: Any = None  # kernels of libraries are only compiled when that is asked for
    own.compile(record, plan, directory=str(tmp_path), roots=(str(tmp_path),), progress=nobody)
    assert [(kernel.library, kernel.launched_at) for kernel in own.kernels] == [("launch_kernels", ())]


@pytest.mark.usefixtures("kernels")
def test_a_library_that_dynamo_inlines_gets_the_answers_of_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
import torch
import triton

def multiprocessors(x):
    major, _ = torch.cuda.get_device_capability()
    return x * torch.cuda.get_device_properties(x.device).multi_processor_count + major
"""
    (tmp_path / "inlined_library.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    library = importlib.import_module("inlined_library")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: library.multiprocessors(x) + 1, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [132.0 + 9 + 1] * 2


def test_a_library_that_has_not_imported_its_kernels_is_code_with_kernels(tmp_path: Path) -> None:
    for name, text in (
        ("library/ops.py", ""),
        ("library/gpu/late.py", "@triton.jit"),
        ("plain/ops.py", "x = 1"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    code = KernelCode(names.runtime_jit(), lambda _: False)
    modules = [
        ("made_library.ops", "library"),
        ("made_library.layers.ops", "library/layers"),
        ("made_plain.ops", "plain"),
        ("ops", "library"),
    ]
    answers = [
        code({"__name__": name, "__file__": str(tmp_path / folder / "ops.py")}) for name, folder in modules
    ]
    assert answers == [True, True, False, False]


@pytest.mark.usefixtures("launches")
def test_torch_is_built_for_the_device_to_code_with_kernels_and_cuda_is_there_to_a_library() -> None:
    ask = compile("(torch.version.cuda, torch.version.hip, torch.cuda.is_available())", "ask", "eval")
    answers = [
        eval(ask, {"torch": torch, "__file__": path, "__name__": "asks", "triton": triton})  # noqa: S307
        for path, triton in ((str(KERNELS), names.language()), ("lib.py", names.language()), ("lib.py", None))
    ]
    assert answers == [("13.0", None, False), ("13.0", None, True), (None, None, False)]


def test_inductor_leaves_a_graph_with_kernels_as_it_was_captured(
    launches: Launches, kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would compile them for the CPU, which Triton refuses. Other graphs are compiled."""
    uncompiled: list[bool] = []
    monkeypatch.setattr(launches.log, "on_uncompiled", lambda: uncompiled.append(True))
    x = torch.randn(kernels.LENGTH)
    for number, name in enumerate(("positional", "triton_op", "autograd.Function"), 1):
        torch._dynamo.reset()
        kind = kernels.KINDS[name]
        inputs = x.clone().requires_grad_(kind.differentiable)
        compiled: Any = torch.compile(kind.launch)
        result = compiled(inputs)
        torch.testing.assert_close(result, kind.reference(inputs), atol=1e-5, rtol=1e-4)
        if kind.differentiable:
            result.sum().backward()
        assert len(uncompiled) == number
        assert launches.outcomes == []
    assert launches.log.launches == 4


def test_a_launch_can_be_refused(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names.driver(), "_active", None)
    before = state()
    x = torch.ones(kernels.LENGTH)
    with refusing_launches(lambda name: ValueError(f"no {name} here")):
        for launch in (kernels.positional, kernels.autotuned, kernels.heuristics):
            with pytest.raises(ValueError, match="no scaled_sum here"):
                launch(x)
    assert state() == before


@pytest.mark.parametrize("reason", ["another Triton", "a driver is active", "a backend for CPUs"])
def test_nothing_is_replaced_where_it_does_not_fit(
    reason: str, kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kernels
    if reason != "a driver is active":  # that of the stand-in of this module is
        monkeypatch.setattr(names.driver(), "_active", None)
    if reason == "another Triton":
        monkeypatch.delattr(names.runtime_jit(), "mangle_type")
    if reason == "a backend for CPUs":
        monkeypatch.setattr(names, "backends", lambda: {"cpu": None})
    before = state()
    with standing_in(find("a100"), Launches().log, lambda _: False):
        assert state() == before


def test_results_are_not_compared_where_values_are_unknown(tmp_path: Path) -> None:
    outcome = LaunchOutcome("scale", str(tmp_path / "kernels.py"), 3, "it has inline assembly")
    run: Any = SimpleNamespace(kernel_launches=KernelLaunches((str(tmp_path),)))
    check_values(run)
    for _ in range(2):
        run.kernel_launches.log.on_outcome(outcome, None)
    assert len(run.kernel_launches.notes) == 1, "once for each line"
    with pytest.raises(NothingToCompareError, match="`scale` writes are not known: it has inline assembly"):
        check_values(run)


def state() -> tuple[object, ...]:
    """What a stand-in replaces."""
    jit = names.runtime_jit()
    return (
        names.driver()._active,
        vars(jit.JITFunction)["run"],
        vars(names.autotuner().Autotuner)["_bench"],
        vars(torch.Tensor).get("is_cuda"),
        torch.cuda.get_device_properties.__code__,
        torch.utils._triton.has_triton,
    )


def test_everything_is_as_before_afterwards(kernels: Any) -> None:
    """Also after a launch that was stopped; a kernel compiles then, which Triton's own interpreter prevents."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names.driver(), "_active", None)  # as without the stand-in of this module
        before = state()
        launches = Launches()
        with standing_in(find("a100"), launches.log, lambda _: False):
            assert not set(map(id, state())) & set(map(id, before))
            kernels.two_instructions[(1,)](torch.ones(16), torch.zeros(16), BLOCK=16)
        assert state() == before
        assert launches.only().unknown
    signature = {"x": "*fp32", "out": "*fp32", "length": "i32", "BLOCK": "constexpr"}
    source = names.ast_source(kernels.gate_forward, signature, {(3,): 64})
    compiled = names.compile_(source, target=names.gpu_target("cuda", 90, 32), options={})
    assert "tt.func" in str(compiled.asm["ttir"])

"""Kernels that Inductor generated are compiled by the real Triton, for GPUs that are not there."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fuselight.codec import decode, encode
from fuselight.report import Assembled, Device, LaunchConfig, Occupancy

pytest.importorskip("triton", reason="no Triton in this Python: there is nothing to compile kernels with")

from torch._inductor.runtime import hints, triton_heuristics

from fuselight.triton_api import apart, assemble, compiling, names, store, tools
from fuselight.triton_api.driver import virtual_driver
from fuselight.triton_api.lines import call_site, line_map
from fuselight.triton_api.occupancy import occupancy

pytestmark = pytest.mark.torch
newer = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="before torch 2.13 Inductor's heuristics had no such step of their own",
)
forking = pytest.mark.skipif(
    not apart.FORKS, reason="where there is no fork the compiler runs in the process itself"
)

KERNELS = Path(__file__).parent.parent / "recordings" / "kernels"
DEVICES = {
    "sm_80": Device("a100", "A100", "cuda", "8.0", 108, shared_kb=163, shared_sm_kb=164),
    "sm_90": Device("h100", "H100", "cuda", "9.0", 132, shared_kb=227, shared_sm_kb=228),
    "sm_100": Device("b200", "B200", "cuda", "10.0", 148, shared_kb=227, shared_sm_kb=228),
}
A100, H100 = DEVICES["sm_80"], DEVICES["sm_90"]
MI300X = Device(
    "mi300x", "MI300X", "hip", "gfx942", 304, shared_kb=64, shared_sm_kb=64, registers=131072, warp=64
)
STAGES = {"cuda": ["ttir", "ttgir", "llir", "ptx", "sass"], "hip": ["ttir", "ttgir", "llir", "amdgcn"]}
STORES = {
    "ttir": r"tt\.store",
    "ttgir": r"tt\.store",
    "llir": r"st\.global",
    "ptx": r"\bst\.global",
    "sass": r"\bSTG\b",
    "amdgcn": r"buffer_store|global_store",
}
LOADS = {"ttir": r"tt\.load", "llir": r"ld\.global", "ptx": r"\bld\.global", "sass": r"\bLDG\b"}


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_memory", type(store._memory)())


def source(name: str) -> str:
    return (KERNELS / f"{name}.txt").read_text(encoding="utf-8")


def line_of(text: str, code: str) -> int:
    """The only line that has `code`."""
    (line,) = [number for number, line in enumerate(text.split("\n"), 1) if code in line]
    return line


def lines_with(assembled: Assembled, stage: str, pattern: str) -> set[int]:
    """The source lines of the instructions that match."""
    listing = assembled.listings[stage]
    rows = zip(listing.text.split("\n"), listing.lines, strict=True)
    return {origin for row, origin in rows if re.search(pattern, row) and origin}


# --- what comes of a kernel


@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize("name", ["pointwise", "reduction", "persistent_reduction", "template"])
def test_a_kernel_is_compiled_for_each_generation(name: str, device: Device) -> None:
    text = source(name)
    assembled = assemble(text, device)
    assert assembled.failure is None
    assert assembled.problems == ()
    assert list(assembled.listings) == STAGES["cuda"]
    assert assembled.registers is not None
    assert 8 <= assembled.registers <= 255
    assert assembled.spills == 0
    assert assembled.config == assembled.default == 0
    chosen = assembled.configs[0]
    assert (assembled.num_warps, assembled.num_stages) == (chosen.num_warps, chosen.num_stages)
    assert assembled.occupancy is not None
    assert 0 < assembled.occupancy.warps <= assembled.occupancy.most == 64
    assert assembled.occupancy.warps == assembled.occupancy.blocks * chosen.num_warps
    assert assembled.triton == names.version()
    wanted = {number for number, line in enumerate(text.split("\n"), 1) if "tl.store(" in line}
    for stage, listing in assembled.listings.items():
        assert len(listing.lines) == len(listing.text.split("\n"))
        assert lines_with(assembled, stage, STORES[stage]) == wanted, stage
    arch = device.arch.replace(".", "")
    assert f".target sm_{arch}" in assembled.listings["ptx"].text
    assert decode(Assembled, encode(assembled)) == assembled


def test_each_load_is_on_its_line() -> None:
    text = source("pointwise")
    assembled = assemble(text, H100)
    wanted = {number for number, line in enumerate(text.split("\n"), 1) if "tl.load(" in line}
    for stage, pattern in LOADS.items():
        assert lines_with(assembled, stage, pattern) == wanted, stage


def test_a_librarys_code_counts_for_the_line_that_called_it() -> None:
    text = source("persistent_reduction")
    sums = {number for number, line in enumerate(text.split("\n"), 1) if "tl.sum(" in line}
    assert len(sums) == 2
    assembled = assemble(text, A100)
    assert lines_with(assembled, "ptx", r"\bshfl\.") == sums
    assert lines_with(assembled, "sass", r"\bSHFL\b") == sums
    assert lines_with(assembled, "llir", r"nvvm\.shfl") == sums
    assert lines_with(assembled, "ttir", r"arith\.addf %tmp\d+_\d+, %tmp") <= sums


def test_keeping_the_lines_leaves_the_code_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def code(assembled: Assembled) -> list[str]:
        rows = assembled.listings["sass"].text.split("\n")
        return [row for row in rows if re.match(r"\s*/\*[0-9a-f]+\*/", row)]

    text = source("persistent_reduction")
    kept = assemble(text, H100)
    monkeypatch.setattr(compiling, "at_call_sites", lambda ptx, _: ptx)
    store._memory.clear()
    plain = assemble(text, H100)
    assert code(plain) == code(kept) != []
    assert lines_with(plain, "sass", r"\bSHFL\b") == set()


def test_other_configurations_are_compiled_on_demand() -> None:
    first, second = (assemble(source("pointwise"), H100, config=index) for index in (0, 1))
    assert (
        first.configs
        == second.configs
        == (LaunchConfig({"XBLOCK": 512}, 4, 1), LaunchConfig({"XBLOCK": 256}, 4, 1))
    )
    assert (first.config, second.config) == (0, 1)
    assert first.grid == (128, 1, 1)
    assert second.grid == (256, 1, 1)
    assert first.listings["ptx"].text != second.listings["ptx"].text


def test_vendors_get_configurations_of_their_own() -> None:
    ours, theirs = assemble(source("reduction"), H100), assemble(source("reduction"), MI300X)
    assert ours.configs != theirs.configs
    assert torch.version.hip is None


@newer
def test_the_configurations_are_those_of_the_device_and_not_of_the_source() -> None:
    text = source("reduction").replace("ReductionHint.OUTER", "ReductionHint.INNER")
    text = re.sub(r"size_hints=\{[^}]*\}", "size_hints={'x': 64, 'r0_': 8192}", text)
    blocks = {name: assemble(text, device).configs[0].values["R0_BLOCK"] for name, device in DEVICES.items()}
    assert blocks == {"sm_80": 2048, "sm_90": 2048, "sm_100": 1024}


@newer
def test_a_smaller_block_is_tried_where_registers_keep_the_device_from_being_filled() -> None:
    text = source("reduction").replace("ReductionHint.OUTER", "ReductionHint.INNER")
    text = re.sub(r"size_hints=\{[^}]*\}", "size_hints={'x': 1048576, 'r0_': 4096}", text)
    roomy = assemble(text, H100)
    tight = assemble(text, dataclasses.replace(H100, registers=32768))
    assert roomy.smaller is None
    assert tight.smaller is not None
    assert tight.smaller.values["R0_BLOCK"] == int(tight.configs[0].values["R0_BLOCK"]) // 2


USERS = """\
import triton
import triton.language as tl
from torch._inductor.runtime import triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

@triton_heuristics.user_autotune(
    configs=[
        {"num_warps": 4, "num_stages": 3, "BLOCK": 128, "FAST": True},
        {"num_warps": 8, "num_stages": 2, "BLOCK": 256, "FAST": False},
    ],
    inductor_meta={
        "grid_type": "PrecomputedGrid",
        "precomputed_grids": [
            {"config": {"BLOCK": 128}, "python": ["8", "1", "1"]},
            {"config": {"BLOCK": 256}, "python": ["-(-n // 256)", "1", "1"]},
        ],
        "kernel_name": "scale_0",
    },
    triton_meta={
        "signature": {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr", "FAST": "constexpr"},
        "device": DeviceProperties(type="cuda", index=0, multi_processor_count=132, cc=90),
        "constants": {},
        "configs": [{(0,): [["tt.divisibility", 16]]}],
    },
    filename=__file__,
    custom_kernel=True,
)
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr, FAST: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = helper(tl.load(x + at, at < n))
    tl.store(y + at, value, at < n)

@triton.jit
def helper(value):
    return value * 2 + tl.exp(value)
"""


def test_a_kernel_of_the_users_is_taken_too() -> None:
    first, second = (assemble(USERS, H100, config=index) for index in (0, 1))
    assert first.failure is second.failure is None
    assert first.configs == (
        LaunchConfig({"BLOCK": 128, "FAST": "True"}, 4, 3),
        LaunchConfig({"BLOCK": 256, "FAST": "False"}, 8, 2),
    )
    assert (first.grid, second.grid) == ((8, 1, 1), None)
    # What its own function does is on that function's line.
    assert lines_with(second, "sass", r"\bMUFU\.EX2\b") == {line_of(USERS, "tl.exp")}
    assert lines_with(second, "ptx", r"\bst\.global") == {line_of(USERS, "tl.store")}


def test_sizes_of_run_time_give_no_grid() -> None:
    text = re.sub(r"^    xnumel = \d+\n", "", source("pointwise"), flags=re.MULTILINE)
    assembled = assemble(text, H100)
    assert assembled.failure is None
    assert assembled.grid is None
    assert assemble(source("template"), H100).grid is None


def test_spilled_registers_are_bytes() -> None:
    text = source("template").replace("BLOCK_M : tl.constexpr = 32", "BLOCK_M : tl.constexpr = 128")
    text = text.replace("BLOCK_N : tl.constexpr = 32", "BLOCK_N : tl.constexpr = 64")
    assembled = assemble(text, H100)
    assert assembled.failure is None
    assert assembled.registers == 255
    assert assembled.spills is not None
    assert assembled.spills > 0
    assert re.search(r"\b(?:STL|LDL)\b", assembled.listings["sass"].text)


@pytest.mark.parametrize("name", ["pointwise", "reduction", "template"])
def test_a_kernel_is_compiled_for_amd(name: str) -> None:
    text = source(name)
    assembled = assemble(text, MI300X)
    assert assembled.failure is None
    assert list(assembled.listings) == STAGES["hip"]
    assert assembled.registers is not None
    assert assembled.registers > 0
    assert assembled.spills == 0
    assert assembled.occupancy is not None
    wanted = {number for number, line in enumerate(text.split("\n"), 1) if "tl.store(" in line}
    assert lines_with(assembled, "amdgcn", STORES["amdgcn"]) == wanted
    assert torch.version.hip is None


# --- what does not compile


def with_line(line: str) -> str:
    text = source("pointwise")
    return text.replace("    tl.store(", f"    {line}\n    tl.store(")


def test_a_dtype_that_the_device_lacks_is_named_on_its_line() -> None:
    line = "spare = tl.zeros([XBLOCK], tl.float8e4nv)"
    refused = assemble(with_line(line), A100)
    assert refused.failure is not None
    assert "fp8e4nv not supported in this architecture" in refused.failure
    assert refused.failure_line == line_of(with_line(line), line)
    assert refused.registers is None
    assert refused.configs
    assert assemble(with_line(line), H100).failure is None


def test_too_much_shared_memory_is_told_with_what_the_compiler_wrote() -> None:
    text = source("template").replace("num_stages=1", "num_stages=5").replace("num_warps=2", "num_warps=8")
    for name, size in (("M", 128), ("N", 64), ("K", 128)):
        text = re.sub(rf"BLOCK_{name} : tl.constexpr = \d+", f"BLOCK_{name} : tl.constexpr = {size}", text)
    small = dataclasses.replace(A100, shared_kb=99, shared_sm_kb=100)
    refused = assemble(text, small)
    assert refused.failure is not None
    assert re.search(
        rf"shared memory, Required: {refused.shared}, Hardware limit: {99 * 1024}", refused.failure
    )
    assert list(refused.listings) == STAGES["cuda"]
    assert refused.occupancy is None


def test_what_the_assembler_refuses_is_on_its_line_and_the_texts_before_it_stay(
    capfd: pytest.CaptureFixture[str],
) -> None:
    line = "spare = tl.inline_asm_elementwise('bogus $0, $1;', '=r,r', [tmp4], tl.float32, False, 1)"
    refused = assemble(with_line(line), H100)
    assert refused.failure is not None
    assert refused.failure.startswith("ptxas: ")
    assert refused.failure_line == line_of(with_line(line), line)
    assert list(refused.listings) == ["ttir", "ttgir", "llir", "ptx"]
    assert capfd.readouterr().out == ""


@forking
def test_what_mlir_prints_is_in_the_failure() -> None:
    unknown = dataclasses.replace(MI300X, arch="gfx9ff")
    refused = assemble(source("pointwise"), unknown)
    assert refused.failure == "unsupported target: 'gfx9ff'"
    assert list(refused.listings) == ["ttir", "ttgir"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:", "not Python"),
        ("\0", "not Python"),
        ("(" * 5000, "not Python"),
        ("", "no function in it"),
        ("import math\n\ndef f(x):\n    return x\n", "no function in it"),
        (
            "from torch._inductor.runtime import triton_heuristics\n@triton_heuristics.pointwise({})\ndef f(x): 1",
            "meta",
        ),
        ("raise SystemExit(3)\n" + "@triton_heuristics.pointwise({})\ndef f(x): 1", "SystemExit: 3"),
        ("import nowhere_at_all\n@triton_heuristics.pointwise({})\ndef f(x): 1", "nowhere_at_all"),
    ],
)
def test_a_text_that_is_no_kernel_is_told(text: str, words: str) -> None:
    assembled = assemble(text, H100)
    assert assembled.failure is not None
    assert words in assembled.failure
    assert assembled.listings == {}


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    assert assemble(text, H100).failure is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arch": ""}, "has the architecture ''"),
        ({"arch": "sm_90"}, "has the architecture 'sm_90'"),
        ({"backend": "hip", "arch": "9.0"}, "Triton takes one as `gfx942`"),
        ({"backend": "cpu", "name": "CPU"}, "kernels for CPU are not Triton's"),
        ({"arch": "13.7"}, "ptxas: Value 'sm_137a' is not defined"),
    ],
)
def test_a_device_that_is_none_of_tritons_is_told(change: dict[str, str], words: str) -> None:
    device = dataclasses.replace(H100, **change)  # type: ignore[arg-type]
    failure = assemble(source("pointwise"), device).failure
    assert failure is not None
    assert words in failure


@forking
def test_a_compiler_that_ends_its_process_costs_one_kernel() -> None:
    ancient = dataclasses.replace(H100, arch="2.0")
    failure = assemble(source("persistent_reduction"), ancient).failure
    assert failure is not None
    assert failure.startswith("the compiler ended with SIGABRT: LLVM ERROR: ")
    assert "Python" not in failure


@forking
def test_an_interrupt_ends_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    children = []

    def interrupted(child: int, options: int) -> tuple[int, int]:
        children.append(child)
        if len(children) == 1:
            raise KeyboardInterrupt
        return waitpid(child, options)

    waitpid = os.waitpid
    monkeypatch.setattr(os, "waitpid", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apart.ask_apart(lambda _: threading.Event().wait() and b"")
    assert children[0] == children[1]
    with pytest.raises(ChildProcessError):
        waitpid(children[0], 0)


@pytest.mark.parametrize("index", [-1, 2, 99])
def test_a_configuration_that_is_not_there_is_told(index: int) -> None:
    assembled = assemble(source("pointwise"), H100, config=index)
    assert assembled.failure == f"there is no configuration {index}: the kernel has 2, counted from 0"
    assert len(assembled.configs) == 2


def test_without_triton_the_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    failure = assemble(source("pointwise"), H100).failure
    assert failure is not None
    assert failure.startswith("Triton is not installed in this Python")


def test_a_triton_that_cannot_be_imported_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise ImportError("libtriton.so: undefined symbol")

    monkeypatch.setattr(names, "version", broken)
    failure = assemble(source("pointwise"), H100).failure
    assert failure is not None
    assert "cannot be imported (ImportError: libtriton.so: undefined symbol)" in failure


def test_a_tool_that_is_missing_costs_its_answer_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = assemble(source("pointwise"), H100, cache=str(tmp_path / "whole"))
    nowhere = SimpleNamespace(path=str(tmp_path / "nowhere"))
    knobs = SimpleNamespace(nvidia=SimpleNamespace(cuobjdump=nowhere, nvdisasm=nowhere))
    with monkeypatch.context() as patched:
        patched.setattr(tools, "names", SimpleNamespace(knobs=lambda: knobs))
        patched.setattr(store, "_memory", type(store._memory)())
        short = assemble(source("pointwise"), H100, cache=str(tmp_path))
    assert [problem.partition(" (")[0] for problem in short.problems] == [
        "cuobjdump did not run",
        "nvdisasm did not run",
    ]
    assert short.registers is short.occupancy is None
    assert list(short.listings) == ["ttir", "ttgir", "llir", "ptx"]
    assert short.shared == whole.shared
    assert entries(tmp_path) == []  # the tool may be there the next time


def test_a_binary_that_is_none_costs_its_answer_and_no_more() -> None:
    assert "failed" in tools.sass(b"no cubin")[1][0]
    assert tools.cubin_usage(b"no cubin")[0] == tools.Usage()
    assert tools.amd_usage("no assembly")[0] == tools.Usage()


# --- the driver that is not there


def state() -> tuple[object, ...]:
    knobs = names.knobs()
    return (
        names.driver()._active,
        torch.version.hip,
        dict(os.environ),
        dict(vars(knobs.cache)),
        dict(vars(knobs.runtime)),
        dict(vars(knobs.compilation)),
        "print" in vars(names.nvidia_compiler()),
        threading.active_count(),
        torch.cuda.is_initialized(),
    )


@pytest.mark.parametrize("device", [H100, MI300X], ids=["cuda", "hip"])
@pytest.mark.parametrize("line", ["", "spare = undefined"])
@pytest.mark.parametrize("apart_", [True, False])
def test_nothing_of_it_stays(
    device: Device, line: str, *, apart_: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.setattr(apart, "FORKS", apart_ and apart.FORKS)
    before = state()
    assembled = assemble(with_line(line) if line else source("pointwise"), device)
    assert (assembled.failure is None) is (line == "")
    assert state() == before


def test_inside_triton_sees_the_target_and_behind_it_what_was_there(tmp_path: Path) -> None:
    driver, before = names.driver(), state()
    outer, inner = names.gpu_target("cuda", 80, 32), names.gpu_target("hip", "gfx942", 64)

    def nested() -> None:
        with virtual_driver(outer, str(tmp_path)):
            with virtual_driver(inner, str(tmp_path / "inner")):
                assert driver.active.get_current_target() == inner
                assert torch.version.hip is not None
                assert driver.active.get_current_device() == driver.active.get_current_stream() == 0
                assert driver.active.get_active_torch_device() == torch.device("cuda", 0)
                assert driver.active.is_active()
                assert names.knobs().cache.dir == str(tmp_path / "inner")
            assert driver.active.get_current_target() == outer
            assert torch.version.hip is None
            assert names.knobs().cache.dir == str(tmp_path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nested()
    assert state() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_is_forked_meanwhile_has_neither_the_lock_nor_the_driver(tmp_path: Path) -> None:
    inside, done = threading.Event(), threading.Event()
    before = names.driver()._active

    def hold() -> None:
        with virtual_driver(names.gpu_target("cuda", 80, 32), str(tmp_path)):
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            clean = names.driver()._active is before
            code = 0 if clean and assemble(source("pointwise"), H100).failure is None else 2
        finally:
            os._exit(code)
    try:
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert names.driver()._active is not before  # still inside, here
    finally:
        done.set()
        thread.join(60)
    assert names.driver()._active is before


def test_threads_take_turns(tmp_path: Path) -> None:
    answers: dict[str, Assembled] = {}

    def one(name: str, device: Device) -> None:
        answers[name] = assemble(source("pointwise"), device, cache=str(tmp_path))

    threads = [threading.Thread(target=one, args=item) for item in DEVICES.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for name, device in DEVICES.items():
        assert answers[name].failure is None
        assert f".target sm_{device.arch.replace('.', '')}" in answers[name].listings["ptx"].text


def test_the_users_switches_of_triton_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = assemble(source("pointwise"), H100)
    for name in (
        "TRITON_INTERPRET",
        "TRITON_DISABLE_LINE_INFO",
        "TRITON_KERNEL_DUMP",
        "TRITON_STORE_BINARY_ONLY",
    ):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm80")
    assert assemble(source("pointwise"), H100) == plain


def test_a_hook_of_the_users_still_runs_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "FORKS", False)  # else it is seen in the child alone
    seen = []
    runtime = names.knobs().runtime

    def theirs(*arguments: object) -> tuple[str, str]:
        seen.append(len(arguments))
        return "theirs", "theirs"

    with runtime.scope():
        runtime.add_stages_inspection_hook = theirs
        assert assemble(source("persistent_reduction"), H100).failure is None
        assert runtime.add_stages_inspection_hook is theirs
    assert 5 in seen  # with the stages; newer Tritons ask without arguments for a key, too


# --- the names of others that it stands on


def test_contract_triton() -> None:
    assert re.match(r"3\.\d+", names.version())
    knobs = names.knobs()
    for group in (knobs.cache, knobs.compilation, knobs.runtime):
        assert callable(group.scope)
    assert hasattr(knobs.cache, "dir")
    assert hasattr(knobs.cache, "manager_class")
    assert hasattr(knobs.runtime, "interpret")
    assert hasattr(knobs.runtime, "override_arch")
    assert hasattr(knobs.runtime, "add_stages_inspection_hook")
    for name in ("disable_line_info", "dump_ir", "override", "store_binary_only"):
        assert hasattr(knobs.compilation, name)
    for tool in ("cuobjdump", "nvdisasm"):
        assert Path(getattr(knobs.nvidia, tool).path).is_file()
    assert "_active" in vars(names.driver())
    target = names.gpu_target("cuda", 90, 32)
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)
    error = names.compilation_error()("def f(): pass", None, "words")
    assert (error.error_message, error.node) == ("words", None)
    assert "shared memory, Required: 2, Hardware limit: 1" in str(
        names.out_of_resources(2, 1, "shared memory")
    )
    assert "ptxas" in Path(names.nvidia_compiler().__file__).read_text(encoding="utf-8")


def test_contract_inductors_triton_runtime() -> None:
    assert {"type", "index", "multi_processor_count", "cc"} <= set(hints.DeviceProperties._fields)
    real = triton_heuristics.CachingAutotuner._precompile_config
    assert {"triton", "triton_helpers"} <= set(real.__code__.co_names)
    assert real.__closure__ is None
    assert callable(triton_heuristics.GridExpr.from_meta)
    grid = triton_heuristics.GridExpr.from_meta({"grid_type": "Grid1D"}, {"XBLOCK": 4})
    assert grid.eval_slow({"xnumel": 10}) == (3, 1, 1)


@newer
def test_contract_inductors_smaller_blocks() -> None:
    for name in ("_iter_rblock_scale_candidates", "_could_rblock_scale"):
        assert hasattr(triton_heuristics.CachingAutotuner, name)


# --- what is kept


def refuse(*_: object) -> compiling.Compiled:
    raise AssertionError("it was compiled again")


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.kernel"))


@pytest.fixture
def forgetting() -> Callable[[], None]:
    """Makes the memory forget, as the next process would have."""
    return lambda: store._memory.clear()  # noqa: PLW0108 - the memory of the test, which is another


def test_the_same_question_is_answered_from_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgetting: Callable[[], None]
) -> None:
    text, folder = source("pointwise"), str(tmp_path / "kept")
    first = assemble(text, H100, cache=folder)
    forgetting()
    monkeypatch.setattr("fuselight.triton_api.assembling.compile_request", refuse)
    assert assemble(text, H100, cache=folder) == first
    assert assemble(text, H100) == first  # and now from memory
    for other in (
        lambda: assemble(text + "\n", H100, cache=folder),
        lambda: assemble(text, A100, cache=folder),
        lambda: assemble(text, H100, config=1, cache=folder),
    ):
        failure = other().failure
        assert failure is not None
        assert "it was compiled again" in failure


@pytest.mark.parametrize("damage", ["", "not zlib", "half", "shape"])
def test_a_damaged_entry_is_compiled_again_and_told(
    tmp_path: Path, forgetting: Callable[[], None], damage: str
) -> None:
    first = assemble(source("pointwise"), H100, cache=str(tmp_path))
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    if damage == "shape":
        entry.write_bytes(zlib.compress(b'{"registers": "many"}'))
    else:
        entry.write_bytes(whole[: len(whole) // 2] if damage == "half" else damage.encode())
    forgetting()
    again = assemble(source("pointwise"), H100, cache=str(tmp_path))
    assert "was damaged" in again.problems[0]
    assert dataclasses.replace(again, problems=()) == first
    assert entry.read_bytes() == whole
    forgetting()
    assert assemble(source("pointwise"), H100, cache=str(tmp_path)).problems == ()


def test_a_folder_that_cannot_be_had_costs_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    folder = str(tmp_path / "file" / "kept")
    first = assemble(source("pointwise"), H100, cache=folder)
    assert first.failure is None
    assert f"the cache in {folder} cannot be" in first.problems[0]
    assert (tmp_path / "file").read_text() == "in the way"
    monkeypatch.setattr("fuselight.triton_api.assembling.compile_request", refuse)
    assert assemble(source("pointwise"), H100, cache=folder).failure is None


def test_the_folder_is_bounded_and_the_longest_unused_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [Assembled(failure=f"{index}" * 64) for index in range(6)]
    for index, value in enumerate(values[:5]):
        assert store.keep(f"{index}", value, str(tmp_path)) is None
        os.utime(tmp_path / f"{index}.kernel", ns=(index, index))
    size = sum(path.stat().st_size for path in entries(tmp_path))
    store._memory.clear()
    assert store.find("0", str(tmp_path)) == (values[0], None)  # used: it is young again
    monkeypatch.setattr(store, "BYTES_ON_DISK", size * 3 // 5)
    assert store.keep("5", values[5], str(tmp_path)) is None
    assert [path.stem for path in entries(tmp_path)] == ["0", "4", "5"]
    assert sorted(tmp_path.iterdir()) == entries(tmp_path)


def test_the_memory_is_bounded() -> None:
    for index in range(store.ENTRIES_IN_MEMORY + 9):
        store.keep(f"{index}", Assembled(failure=f"{index}"), None)
    assert store.find("8", None) == (None, None)
    assert store.find("9", None) == (Assembled(failure="9"), None)


def test_what_a_full_disk_did_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(names, "compile_", full)
        failed = assemble(source("pointwise"), H100, cache=str(tmp_path))
    assert failed.failure is not None
    assert "No space left on device" in failed.failure
    assert assemble(source("pointwise"), H100, cache=str(tmp_path)).failure is None


# --- occupancy, by the vendor's rule


@pytest.mark.parametrize(
    ("device", "registers", "shared", "warps", "wanted"),
    [
        (H100, 32, 0, 4, Occupancy(64, 64, 16, "warps")),
        (H100, 255, 0, 4, Occupancy(8, 64, 2, "registers")),
        (H100, 27, 8, 2, Occupancy(64, 64, 32, "warps")),
        (H100, 40, 0, 8, Occupancy(48, 64, 6, "registers")),
        (H100, 32, 0, 1, Occupancy(32, 64, 32, "blocks")),
        (H100, 32, 100 * 1024, 4, Occupancy(8, 64, 2, "shared memory")),
        (A100, 64, 163 * 1024, 4, Occupancy(4, 64, 1, "shared memory")),
        (MI300X, 128, 0, 4, Occupancy(16, 32, 4, "registers")),
        (MI300X, 40, 32 * 1024, 4, Occupancy(8, 32, 2, "shared memory")),
    ],
)
def test_occupancy_is_the_vendors(
    device: Device, registers: int, shared: int, warps: int, wanted: Occupancy
) -> None:
    assert occupancy(device, registers=registers, shared=shared, num_warps=warps) == wanted


@given(
    st.builds(
        Device,
        key=st.just("x"),
        name=st.just("X"),
        backend=st.sampled_from(["cuda", "hip"]),
        arch=st.sampled_from(["7.5", "9.0", "", "gfx942"]),
        multiprocessors=st.integers(0, 300),
        shared_sm_kb=st.integers(0, 300),
        registers=st.integers(0, 1 << 18),
        threads=st.integers(0, 4096),
        blocks=st.integers(0, 64),
        warp=st.sampled_from([0, 32, 64]),
    ),
    st.integers(0, 300),
    st.integers(0, 1 << 20),
    st.integers(-1, 64),
)
def test_occupancy_is_never_more_than_the_device_has(
    device: Device, registers: int, shared: int, warps: int
) -> None:
    found = occupancy(device, registers=registers, shared=shared, num_warps=warps)
    if found is not None:
        assert 0 < found.warps <= found.most
        assert found.warps * device.warp <= device.threads
        assert found.blocks <= device.blocks


# --- line maps of any text

FILE = "/fuselight/0123/kernel.py"
FRAGMENTS = [
    "#loc = loc(",
    "#loc1 = loc(#loc1)",
    "#loc2 = loc(callsite(#loc1 at #loc3))",
    "#loc3 = loc(callsite(#loc2 at #loc3))",
    f'loc("{FILE}":7:1)',
    'loc("\\":1:1',
    "loc(#loc9) loc(",
    "!1 = !DILocation(line: 3, column: 1, scope: !1, inlinedAt: !1)",
    '!2 = !DIFile(filename: "kernel.py", directory: "/fuselight/0123")',
    "!3 = distinct !DISubprogram(scope: !3, file: !2, line: 99999999999999)",
    "%0 = add i32 1, 1, !dbg !1",
    f'\t.file\t1 "{FILE}"',
    '.file 1 "',
    "\t.loc\t1 7 3 // a.py:1:2 @[ kernel.py:5:6 ]",
    "\t.loc\t99999999999 1 1",
    ".loc",
    "\tadd.s32 %r1, %r2, %r3;",
    f'\t//## File "{FILE}", line 12',
    '//## File "',
    "        /*0010*/                   S2R R0, SR_TID.X ;",
    "}",
    "\x00\ud800",
]
any_text = st.one_of(
    st.text(), st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=20))).map("\n".join)
)


@settings(max_examples=300)
@given(
    st.sampled_from(["ttir", "ttgir", "llir", "ptx", "sass", "amdgcn", "other"]),
    any_text,
    st.one_of(st.just(FILE), st.text(max_size=10)),
)
def test_any_text_gives_as_many_numbers_as_lines(stage: str, text: str, file: str) -> None:
    found = line_map(stage, text, file)
    assert len(found) == len(text.split("\n"))
    assert all(type(line) is int and line >= 0 for line in found)
    assert call_site(text, file) >= 0
    assert compiling.at_call_sites(text, file).count("\n") == text.count("\n")


def test_a_location_that_refers_to_itself_ends() -> None:
    text = "#loc1 = loc(callsite(#loc2 at #loc1))\n#loc2 = loc(#loc1)\n%0 = op loc(#loc1)"
    assert line_map("ttir", text, FILE) == (0, 0, 0)
    deep = [f"#loc{index} = loc(#loc{index + 1})" for index in range(5000)]
    assert set(line_map("ttir", "\n".join([*deep, "%0 = op loc(#loc0)"]), FILE)) == {0}


def test_the_line_is_the_innermost_one_of_the_kernels_file() -> None:
    mlir = f'#loc1 = loc("{FILE}":4:1)\n#loc2 = loc("lib.py":9:1)\n#loc3 = loc("{FILE}":8:1)\n'
    mlir += "%0 = op loc(callsite(#loc2 at callsite(#loc3 at #loc1)))"
    assert line_map("ttgir", mlir, FILE)[-1] == 8
    assert call_site("lib.py:1:2 @[ kernel.py:8:1 @[ kernel.py:4:1 ] ]", FILE) == 8
    assert call_site("lib.py:1:2", FILE) == 0

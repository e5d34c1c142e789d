"""The real Triton compiles Inductor's kernels for absent GPUs."""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.shared.codec import decode, encode
from fuselight.shared.report import Assembled, Device, LaunchConfig
from tests.support.case_files import marked
from tests.support.kernels import A100, DEVICES, H100, MI300X, NO_TRITON, STAGES, line_of, lines_with, source

pytest.importorskip("triton", reason=NO_TRITON)

from torch._inductor.runtime import hints, triton_heuristics

from fuselight.adapters import triton_api
from fuselight.adapters.triton_api import assemble, compiler, names, store

pytestmark = pytest.mark.torch
newer = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="before torch 2.13 Inductor's heuristics had no such step of their own",
)
STORES = {
    "ttir": r"tt\.store",
    "ttgir": r"tt\.store",
    "llir": r"st\.global",
    "ptx": r"\bst\.global",
    "sass": r"\bSTG\b",
    "amdgcn": r"buffer_store|global_store",
}
FURTHER = {"reduction", "persistent_reduction"}
"""Kernels whose code has no part that those of the other kernels lack."""
LOADS = {"ttir": r"tt\.load", "llir": r"ld\.global", "ptx": r"\bld\.global", "sass": r"\bLDG\b"}


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_memory", type(store._memory)())


@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize(
    "name", marked(("pointwise", "reduction", "persistent_reduction", "template"), FURTHER)
)
def test_a_kernel_is_compiled_for_each_generation(name: str, device: Device) -> None:
    text = source(name)
    assembled = assemble(text, device, disassemble=True)
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
    assembled = assemble(text, H100, disassemble=True)
    wanted = {number for number, line in enumerate(text.split("\n"), 1) if "tl.load(" in line}
    for stage, pattern in LOADS.items():
        assert lines_with(assembled, stage, pattern) == wanted, stage


def test_a_library_code_counts_for_the_line_that_called_it() -> None:
    text = source("persistent_reduction")
    sums = {number for number, line in enumerate(text.split("\n"), 1) if "tl.sum(" in line}
    assert len(sums) == 2
    assembled = assemble(text, A100, disassemble=True)
    assert lines_with(assembled, "ptx", r"\bshfl\.") == sums
    assert lines_with(assembled, "sass", r"\bSHFL\b") == sums
    assert lines_with(assembled, "llir", r"nvvm\.shfl") == sums
    assert lines_with(assembled, "ttir", r"arith\.addf %tmp\d+_\d+, %tmp") <= sums


def test_keeping_the_lines_leaves_the_code_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def code(assembled: Assembled) -> list[str]:
        rows = assembled.listings["sass"].text.split("\n")
        return [row for row in rows if re.match(r"\s*/\*[0-9a-f]+\*/", row)]

    text = source("persistent_reduction")
    kept = assemble(text, H100, disassemble=True)
    monkeypatch.setattr(compiler, "at_call_sites", lambda ptx, _: ptx)
    store._memory.clear()
    plain = assemble(text, H100, disassemble=True)
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


def test_each_vendor_has_its_own_configurations() -> None:
    ours, theirs = assemble(source("reduction"), H100), assemble(source("reduction"), MI300X)
    assert ours.configs != theirs.configs
    assert torch.version.hip is None


@pytest.mark.parametrize("name", ["pointwise", "reduction"])
def test_a_vendor_has_its_configurations_in_a_process_that_compiled_for_another(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry: Any = pytest.importorskip("torch._inductor.heuristics.registry", reason="new in torch 2.15")
    importlib.import_module(f"torch._inductor.heuristics.triton_codegen.{name}")
    monkeypatch.delitem(registry._HEURISTIC_REGISTRY, (name, "hip", None), raising=False)
    monkeypatch.delitem(registry._HEURISTIC_CACHE, (name, "hip", None), raising=False)
    theirs = assemble(source(name), MI300X)
    assert theirs.failure is None
    assert theirs.configs != assemble(source(name), H100).configs


@newer
def test_the_configurations_are_those_of_the_device_and_not_of_the_source() -> None:
    text = source("reduction").replace("ReductionHint.OUTER", "ReductionHint.INNER")
    text = re.sub(r"size_hints=\{[^}]*\}", "size_hints={'x': 64, 'r0_': 8192}", text)
    blocks = {name: assemble(text, device).configs[0].values["R0_BLOCK"] for name, device in DEVICES.items()}
    assert blocks == {"sm_80": 2048, "sm_90": 2048, "sm_100": 1024}


@newer
def test_a_smaller_block_is_tried_if_registers_limit_occupancy() -> None:
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


def test_a_user_kernel_is_included() -> None:
    first, second = (assemble(USERS, H100, config=index, disassemble=True) for index in (0, 1))
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
    assembled = assemble(text, H100, disassemble=True)
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


def test_the_assembler_of_a_program() -> None:
    """Triton's name for it, which the doctor asks for."""
    path = triton_api.ptxas()
    assert path is not None
    assert os.access(path, os.X_OK)

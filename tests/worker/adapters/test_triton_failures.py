"""A broken kernel, device or Triton is reported and never raises."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.kernels import A100, H100, MI300X, NO_TRITON, STAGES, line_of, source, with_line

pytest.importorskip("triton", reason=NO_TRITON)


from fuselight.adapters.triton_api import assemble, assembler, forked_query, names, store, tools

pytestmark = pytest.mark.torch
forking = pytest.mark.skipif(
    not forked_query.FORKS, reason="where there is no fork the compiler runs in the process itself"
)


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_memory", type(store._memory)())


def test_a_dtype_that_the_device_lacks_is_named_on_its_line() -> None:
    line = "spare = tl.zeros([XBLOCK], tl.float8e4nv)"
    refused = assemble(with_line(line), A100)
    assert refused.failure is not None
    assert "fp8e4nv not supported in this architecture" in refused.failure
    assert refused.failure_line == line_of(with_line(line), line)
    assert refused.registers is None
    assert refused.configs
    assert assemble(with_line(line), H100).failure is None


def test_too_much_shared_memory_is_reported_with_what_the_compiler_wrote() -> None:
    text = source("template").replace("num_stages=1", "num_stages=5").replace("num_warps=2", "num_warps=8")
    for name, size in (("M", 128), ("N", 64), ("K", 128)):
        text = re.sub(rf"BLOCK_{name} : tl.constexpr = \d+", f"BLOCK_{name} : tl.constexpr = {size}", text)
    small = dataclasses.replace(A100, shared_kb=99, shared_sm_kb=100)
    refused = assemble(text, small, disassemble=True)
    assert refused.failure is not None
    assert re.search(
        rf"shared memory, Required: {refused.shared}, Hardware limit: {99 * 1024}", refused.failure
    )
    assert list(refused.listings) == STAGES["cuda"]
    assert refused.occupancy is None


def test_an_assembler_error_is_on_its_line_and_earlier_listings_stay(
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
def test_the_failure_contains_mlirs_output() -> None:
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
def test_a_text_without_a_kernel_is_reported(text: str, words: str) -> None:
    assembled = assemble(text, H100)
    assert assembled.failure is not None
    assert words in assembled.failure
    assert assembled.listings == {}


@settings(max_examples=12, deadline=None)  # each is a process
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
def test_a_device_without_triton_support_is_reported(change: dict[str, str], words: str) -> None:
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

    def for_ever(_: object) -> bytes:
        threading.Event().wait()
        return b""

    waitpid = os.waitpid
    monkeypatch.setattr(os, "waitpid", interrupted)
    with pytest.raises(KeyboardInterrupt):
        forked_query.ask_apart(for_ever)
    assert children[0] == children[1]
    with pytest.raises(ChildProcessError):
        waitpid(children[0], 0)


@forking
def test_a_compile_that_takes_too_long_costs_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler, "MAX_SECONDS", 0.01)
    children: list[int] = []

    def noted() -> int:
        child = fork()
        if child:
            children.append(child)
        return child

    fork = os.fork
    monkeypatch.setattr(os, "fork", noted)
    failure = assemble(source("persistent_reduction"), dataclasses.replace(H100, name="of this test")).failure
    assert failure == "the compiler did not finish within 0.01 seconds"
    assert children
    for child in children:  # others of this process may be those of other tests
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


@pytest.mark.parametrize("index", [-1, 2, 99])
def test_a_configuration_that_is_missing_is_reported(index: int) -> None:
    assembled = assemble(source("pointwise"), H100, config=index)
    assert assembled.failure == f"there is no configuration {index}: the kernel has 2, counted from 0"
    assert len(assembled.configs) == 2


def test_without_triton_the_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    failure = assemble(source("pointwise"), H100).failure
    assert failure is not None
    assert failure.startswith("Triton is not installed in this Python")


def test_a_triton_that_cannot_be_imported_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise ImportError("libtriton.so: undefined symbol")

    monkeypatch.setattr(names, "version", broken)
    failure = assemble(source("pointwise"), H100).failure
    assert failure is not None
    assert "cannot be imported (ImportError: libtriton.so: undefined symbol)" in failure


def test_a_missing_tool_costs_only_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = assemble(source("pointwise"), H100, cache=str(tmp_path / "whole"), disassemble=True)
    nowhere = SimpleNamespace(path=str(tmp_path / "nowhere"))
    knobs = SimpleNamespace(nvidia=SimpleNamespace(cuobjdump=nowhere, nvdisasm=nowhere))
    with monkeypatch.context() as patched:
        patched.setattr(tools, "names", SimpleNamespace(knobs=lambda: knobs))
        patched.setattr(store, "_memory", type(store._memory)())
        short = assemble(source("pointwise"), H100, cache=str(tmp_path), disassemble=True)
    assert [problem.partition(" (")[0] for problem in short.problems] == [
        "cuobjdump did not run",
        "nvdisasm did not run",
    ]
    assert short.registers is None
    assert short.occupancy is None
    assert list(short.listings) == ["ttir", "ttgir", "llir", "ptx"]
    assert short.shared == whole.shared
    assert list(tmp_path.glob("*.kernel")) == []  # the tool may be there the next time


def test_a_broken_binary_costs_only_its_answer() -> None:
    assert "failed" in tools.sass(b"no cubin")[1][0]
    assert tools.cubin_usage(b"no cubin")[0] == tools.Usage()
    assert tools.amd_usage("no assembly")[0] == tools.Usage()

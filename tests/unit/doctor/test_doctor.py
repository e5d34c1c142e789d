"""The doctor's checks on environments that are broken in one way each, and a misbehaving doctor process."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import types
from collections import namedtuple
from typing import TYPE_CHECKING, Any

import pytest

from fuselight.adapters.torch_api import inductor
from fuselight.doctor import Check, Status, checks, compiling, tools, versions
from fuselight.doctor.check import CheckResult
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution import doctor

if TYPE_CHECKING:
    from pathlib import Path

Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 - as shutil's


def _torch(monkeypatch: pytest.MonkeyPatch, version: str, *, cuda: str | None = None, **more: Any) -> Any:
    """A torch of that version in place of the real one."""
    module = types.ModuleType("torch")
    module.__version__ = version  # type: ignore[attr-defined]
    module.version = types.SimpleNamespace(cuda=cuda, hip=None)  # type: ignore[attr-defined]
    vars(module).update(more)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture
def toolchain(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """torch's description of its tools, set by the test."""
    namespace = types.SimpleNamespace(
        cpp_compiler=lambda: None,
        cache_folder=lambda: None,
        driver_version=lambda: None,
        matching_triton=lambda: "3.7.1",
    )
    monkeypatch.setitem(sys.modules, "fuselight.adapters.torch_api.inductor.toolchain", namespace)
    monkeypatch.setattr(inductor, "toolchain", namespace, raising=False)
    return namespace


@pytest.mark.parametrize(
    ("version", "status", "words"),
    [
        ("2.5.1", Status.FAILED, "2.6 or newer"),
        ("2.7.0", Status.WARNING, "2.11, 2.13, 2.14 and 2.15"),
        ("2.13.0+cpu", Status.OK, ""),
        ("2.14.1+cu130", Status.OK, ""),
        ("2.15.0+cu130", Status.OK, ""),
        ("2.14.0.dev1", Status.WARNING, "2.11, 2.13, 2.14 and 2.15"),
        ("2.16.0", Status.WARNING, "2.16.0 is newer than the versions Fuselight was tested with"),
        ("", Status.FAILED, "Rename that file"),
    ],
)
def test_versions_of_torch(monkeypatch: pytest.MonkeyPatch, version: str, status: Status, words: str) -> None:
    """A too old version fails, an untested one is reported, and a file that is not PyTorch is named."""
    _torch(monkeypatch, version, __file__="/project/torch.py")
    check = versions.torch_itself()
    assert (check.status, words in check.fix) == (status, True)
    assert version in check.found if version else "/project/torch.py" in check.found


def test_no_torch_ends_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that need torch do not run without it."""
    monkeypatch.setitem(sys.modules, "torch", None)  # `import torch` raises ModuleNotFoundError
    results = list(checks.quick())
    assert [check.key for check in results] == ["python", "torch"]
    assert results[-1].status is Status.FAILED


def test_a_broken_torch_says_what_it_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A library that is missing is in the words."""
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    check = versions.torch_itself()
    assert check.status is Status.FAILED
    assert "libcudart.so.12" in check.found


@pytest.mark.parametrize(
    ("installed", "status", "words"),
    [
        (None, Status.WARNING, "Kernels are generated and shown, without registers, occupancy and assembly."),
        (None, Status.WARNING, "pip install triton==3.7.1"),
        ("3.6.0", Status.WARNING, "pip install triton==3.7.1"),
        ("3.7.1", Status.OK, ""),
    ],
)
def test_a_triton_that_is_missing_or_of_another_release(
    toolchain: types.SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    installed: str | None,
    status: Status,
    words: str,
) -> None:
    del toolchain
    monkeypatch.setattr(versions, "versions", lambda: types.SimpleNamespace(triton=installed))
    check = versions.triton()
    assert (check.status, words in check.fix) == (status, True)


def test_a_compiler_that_is_missing(
    toolchain: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is named, with the package to install."""
    monkeypatch.setenv("CXX", "g++-99")
    assert tools.cpp_compiler().found == "none that starts was found (CXX=g++-99)"
    missing = str(tmp_path / "g++-99")
    toolchain.cpp_compiler = lambda: missing
    check = tools.cpp_compiler()
    assert check.status is Status.FAILED
    assert check.found == f"{missing} is not there"
    assert "CXX" in check.fix


def test_a_compiler_that_does_not_start(toolchain: types.SimpleNamespace, tmp_path: Path) -> None:
    """What it prints is in the words."""
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho 'cannot execute cc1plus' >&2\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    toolchain.cpp_compiler = lambda: str(broken)
    check = tools.cpp_compiler()
    assert check.status is Status.FAILED
    assert "cannot execute cc1plus" in check.found


def test_a_cache_folder_that_cannot_be_used(
    toolchain: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A full disk is a warning; a read-only disk or one without execution is a failure."""
    toolchain.cache_folder = lambda: str(tmp_path)
    assert tools.cache().status is Status.OK
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: Usage(1, 1, 5))
        assert tools.cache().status is Status.WARNING
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        assert "cannot be written" in tools.cache().found
    if hasattr(os, "ST_NOEXEC"):
        with monkeypatch.context() as patch:
            patch.setattr(os, "statvfs", lambda _: types.SimpleNamespace(f_flag=os.ST_NOEXEC))
            assert "noexec" in tools.cache().found


@pytest.mark.parametrize(
    ("driver", "status"), [("11.8", Status.FAILED), ("12.2", Status.OK), ("13.0", Status.OK)]
)
def test_drivers(
    toolchain: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch, driver: str, status: Status
) -> None:
    """A driver of the same major version of CUDA is sufficient; one of an older major version is not."""
    _torch(monkeypatch, "2.13.0", cuda="12.6")
    toolchain.driver_version = lambda: driver
    check = tools.driver()
    assert check.status is status
    assert driver in check.found


def test_a_gpu_that_triton_does_not_support(monkeypatch: pytest.MonkeyPatch) -> None:
    """A P100 is present, and Triton cannot generate kernels for it."""
    p100 = types.SimpleNamespace(name="Tesla P100", total_memory=16 * 2**30, major=6, minor=0)
    cuda = types.SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 1, get_device_properties=lambda _: p100
    )
    _torch(monkeypatch, "2.13.0", cuda="12.6")
    monkeypatch.setattr(sys.modules["torch"], "cuda", cuda, raising=False)
    (check,) = tools.devices()
    assert check.status is Status.FAILED
    assert "capability 6.0" in check.found


def _gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    """A GPU of that capability."""
    cuda = types.SimpleNamespace(is_available=lambda: True, get_device_capability=lambda: capability)
    _torch(monkeypatch, "2.11.0", cuda="13.0")
    monkeypatch.setattr(sys.modules["torch"], "cuda", cuda, raising=False)


@pytest.mark.skipif(sys.platform == "win32", reason="an assembler is played by a script of the shell")
def test_two_assemblers_are_reported_with_the_variable_that_makes_them_one(
    toolchain: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Their versions are reported: two copies of the same version are equal for Triton."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path, version in ((ours, "12.8"), (theirs, "13.0")):
        path.write_text(f"#!/bin/sh\necho Cuda compilation tools, release {version}, V{version}.1\n")
        path.chmod(0o755)
    triton_api = types.SimpleNamespace(ptxas=lambda: str(ours))
    monkeypatch.setitem(sys.modules, "fuselight.adapters.triton_api", triton_api)
    monkeypatch.setattr("fuselight.adapters.triton_api", triton_api, raising=False)
    _gpu(monkeypatch, (9, 0))
    toolchain.workers_assembler = lambda: str(theirs)
    check = tools.one_assembler()
    assert check.status is Status.WARNING
    assert "ours (CUDA 12.8)" in check.found
    assert "theirs (CUDA 13.0)" in check.found
    assert check.fix.startswith(f"Set TRITON_PTXAS_PATH={theirs}")
    theirs.write_text(ours.read_text())
    assert tools.one_assembler().status is Status.OK
    toolchain.workers_assembler = lambda: None
    assert tools.one_assembler().status is Status.OK
    _gpu(monkeypatch, (10, 0))
    assert tools.one_assembler().status is Status.SKIPPED


def test_variables_that_switch_the_compiler_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty variables have no effect."""
    for name in checks._OFF:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "0")
    assert checks._variables().status is Status.OK
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    check = checks._variables()
    assert check.status is Status.WARNING
    assert "TORCHDYNAMO_DISABLE=1: torch.compile does nothing" in check.found


def test_a_check_that_raises_is_a_result() -> None:
    """The others go on."""

    def check() -> CheckResult:
        raise LookupError("nowhere")

    result = checks._done("cache", "Cache folder", "compiled code is kept there", check)
    assert result.status is Status.FAILED
    assert "LookupError: nowhere" in result.found


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        (
            "print(json.dumps({'error': 'CppCompileError: ' + str(off)}))",
            Status.FAILED,
            "CppCompileError: []",
        ),
        ("print(json.dumps({'seconds': 1.25, 'difference': 2e-6}))", Status.OK, "works, in 1.2 s"),
        ("print(json.dumps({'seconds': 1.25, 'difference': 1.0}))", Status.FAILED, "eager 1.0e+00"),
        ("sys.exit('no libstdc++')", Status.FAILED, "exit code 1: no libstdc++"),
        ("os.kill(os.getpid(), 11)", Status.FAILED, "signal 11"),
    ],
)
def test_the_end_of_a_compile(
    monkeypatch: pytest.MonkeyPatch, program: str, status: Status, words: str
) -> None:
    """Variables that turn compiles off do not reach it."""
    names = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS")
    for name in names:
        monkeypatch.setenv(name, "1")
    text = f"import json, os, sys\noff = [name for name in {names} if name in os.environ]\n{program}\n"
    result = compiling.compile_on("cpu", [sys.executable, "-ISc", text], 60.0)
    assert (result.status, words in result.found) == (status, True), result.found
    assert bool(result.fix) is (status is Status.FAILED)


def _examined(program: str, tmp_path: Path) -> list[Check]:
    """The checks of an interpreter that is this shell program."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)

    async def collect() -> list[Check]:
        return [check async for check in doctor.examine(Interpreter(str(python)), os.environ)]

    return asyncio.run(collect())


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("echo 'libpython is missing' >&2; exit 127", "libpython is missing"),
        ("echo no json", "cannot be read"),
        ("echo '{\"key\": 1}'", "cannot be read"),
        ("kill -SEGV $$", "was killed by SIGSEGV"),
    ],
)
def test_an_interpreter_that_gives_no_answer(program: str, words: str, tmp_path: Path) -> None:
    """It is reported as a failed check."""
    (check,) = _examined(program, tmp_path)
    assert check.status is Status.FAILED
    assert words in check.found


def test_an_interpreter_without_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is ended after a while."""
    monkeypatch.setattr(doctor, "SILENCE", 0.2)
    (check,) = _examined("exec sleep 600", tmp_path)
    assert "gave no answer" in check.found


def test_no_interpreter(tmp_path: Path) -> None:
    """A missing interpreter is a failed check, too."""

    async def collect() -> list[Check]:
        return [check async for check in doctor.examine(Interpreter(str(tmp_path / "none")), os.environ)]

    (check,) = asyncio.run(collect())
    assert "cannot be started" in check.found
    assert doctor.failed([check])


def test_verdicts() -> None:
    """One line for each outcome."""

    def summary(*statuses: Status) -> str:
        return doctor.verdict([Check("k", "t", status, "f", "m") for status in statuses])

    assert summary(Status.OK, Status.SKIPPED).startswith("torch.compile works here: 2 checks")
    assert "1 of 2" in summary(Status.OK, Status.WARNING)
    assert summary(Status.WARNING, Status.FAILED).startswith("1 of 2 checks failed")

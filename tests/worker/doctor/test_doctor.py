"""`fuselight doctor` on the Python that runs the tests: a real compile, and an impossible one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config

from fuselight.doctor import compiling
from tests.support.command import run_cli
from tests.support.prepared import program_interpreter

TOP = Path(__file__).parents[3]


def doctor(*arguments: str) -> tuple[int, Any]:
    """Exit code, and the checks by key. The checks run in a process of their own."""
    done = run_cli("doctor", "--format", "json", "--python", sys.executable, *arguments)
    answer = json.loads(done.stdout)
    assert answer["schema"] == 1
    assert answer["interpreter"]["why"] == "--python"
    return done.exit_code, {check["key"]: check for check in answer["checks"]}


def test_a_healthy_environment_compiles() -> None:
    """The compile is real: the check reports its time and its difference from eager."""
    code, checks = doctor("--python", program_interpreter())
    assert {check["status"] for check in checks.values()} <= {"ok", "warning", "skipped"}
    assert code == 0
    assert checks["compile_cpu"]["status"] == "ok"
    assert "largest difference to eager" in checks["compile_cpu"]["found"]


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A C++ compiler that fails."""
    path = tmp_path / "c++"
    path.write_text("#!/bin/sh\necho 'no cc1plus here' >&2\nexit 1\n")
    path.chmod(0o755)
    return str(path)


def test_a_compiler_that_fails_is_reported_by_the_check(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other checks are as they were."""
    monkeypatch.setenv("CXX", broken)
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    code, checks = doctor("--no-compile")
    assert code == 1
    assert broken in checks["cpp_compiler"]["found"]
    assert checks["torch"]["status"] == "ok"
    assert checks["variables"]["status"] == "warning"


def test_a_compiler_that_fails_is_reported_by_the_compile(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process; `tests/unit/doctor` has what becomes of the error."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()
    with (
        torch._inductor.config.patch({"cpp.cxx": (None, broken)}),
        torch.random.fork_rng(devices=()),
        pytest.raises(Exception, match=r"No working C\+\+ compiler") as raised,
    ):
        compiling._measured("cpu")
    torch._dynamo.reset()
    assert broken in str(raised.value)


def test_without_the_compile_nothing_is_compiled(tmp_path: Path) -> None:
    """The option reaches the process of the checks, and there the quick checks are all."""
    given, python = tmp_path / "arguments", tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho "$@" > {given}\n'
        """echo '{"key": "torch", "title": "", "status": "ok", "found": "", "meaning": ""}'\n"""
    )
    python.chmod(0o755)
    code, value = doctor("--no-compile", "--python", str(python))
    assert (code, list(value)) == (0, ["torch"])
    *_, command, option = given.read_text().split()
    assert (command, option) == ("doctor", "--no-compile")
    program = """
import sys
from fuselight.doctor import checks, main
from fuselight.doctor.check import Check, Status
checks.quick = lambda: iter([Check("torch", "", Status.OK, "", "")])
checks.compiles = lambda seconds: iter([Check("compile_cpu", "", Status.OK, str(seconds), "")])
sys.exit(main.main(sys.argv[1:]))
"""
    keys = []
    for options in ([], [option]):
        done = subprocess.run(
            [sys.executable, "-c", program, *options],
            env={**os.environ, "PYTHONPATH": str(TOP / "compiler")},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        keys.append([json.loads(line)["key"] for line in done.stdout.splitlines()])
    assert keys == [["torch", "compile_cpu"], ["torch"]]

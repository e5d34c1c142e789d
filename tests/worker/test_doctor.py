"""`fuselight doctor` on the Python that runs the tests: a real compile, and an impossible one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[2]
DEADLINE = 600.0


def doctor(*arguments: str, **variables: str) -> tuple[int, Any]:
    """Exit code, and the checks by key."""
    command = [
        sys.executable,
        "-m",
        "fuselight_server",
        "doctor",
        "--format",
        "json",
        "--python",
        sys.executable,
    ]
    path = os.pathsep.join([str(TOP / "compiler"), str(TOP / "server")])
    done = subprocess.run(
        [*command, *arguments],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer["schema"] == 1
    assert answer["interpreter"]["why"] == "--python"
    return done.returncode, {check["key"]: check for check in answer["checks"]}


def test_a_healthy_environment_compiles() -> None:
    """The compile is real: the check reports its time and its difference from eager."""
    code, checks = doctor()
    assert {check["status"] for check in checks.values()} <= {"ok", "warning", "skipped"}
    assert code == 0
    assert checks["compile_cpu"]["status"] == "ok"
    assert "largest difference to eager" in checks["compile_cpu"]["found"]


def test_a_compiler_that_fails_is_reported_by_the_check_and_by_the_compile(tmp_path: Path) -> None:
    """Both name it; the other checks are as they were."""
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho 'no cc1plus here' >&2\nexit 1\n")
    broken.chmod(0o755)
    code, checks = doctor(CXX=str(broken))
    assert code == 1
    assert str(broken) in checks["cpp_compiler"]["found"]
    assert checks["compile_cpu"]["status"] == "failed"
    assert checks["torch"]["status"] == "ok"


def test_without_the_compile_the_check_is_quick_and_says_so() -> None:
    code, checks = doctor("--no-compile", TORCH_COMPILE_DISABLE="1")
    assert code == 0
    assert "compile_cpu" not in checks
    assert checks["variables"]["status"] == "warning"

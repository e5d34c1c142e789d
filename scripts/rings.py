"""The rings of tests, by boundary, and what each needs of the machine.

Invariant: a ring ends as passed, failed, or left out with one line that says what is missing and why; none is
ever dropped in silence.
"""

from __future__ import annotations

import os
import subprocess
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from node_tools import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bootstrap import Environment
    from node_tools import Node

ARTIFACTS = ROOT / "artifacts"
LEFT_OUT = 3
"""How a script ends that could run none of its tests on this machine."""
_PLUGINS = ("pytest_timeout", "pytest_asyncio.plugin", "_hypothesis_pytestplugin", "xdist.plugin")
"""Named one by one, since the interpreter whose torch is borrowed may have plugins of its own."""
_SECOND_TRIES = 3
"""So many failed tests are run once more, alone, on a machine that does nothing else; more are no accident."""
_CORES = min(os.cpu_count() or 1, 3)
"""Tests run beside each other, one more than there are cores, since they wait for a quarter of their time and more.
Those of the worker are trees of processes with a torch in each: a machine of many cores need not have their memory.
"""
_YIELDS = 5
"""How much rings beside another one are nicer than it: deadlines of an editor and a browser are kept that way."""


_UNITS = """\
from torch._inductor import config, cpu_vec_isa
tried = cpu_vec_isa.valid_vec_isa_list()
cpu_vec_isa.valid_vec_isa_list.cache_clear()
config.cpp.vec_isa_ok = True
print(tried == cpu_vec_isa.valid_vec_isa_list())
"""


@dataclass(frozen=True)
class Outcome:
    """How a ring ended. `left_out` is the reason why it, or a part of it, did not run."""

    ring: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    left_out: str | None = None
    suspects: tuple[str, ...] = ()
    """What failed and is to be tried once more, alone: tests of pytest's, or kinds of a script's tests."""
    script: Path | None = None
    """What ran them, where that was not pytest."""
    second_try: tuple[str, ...] = ()
    """Tests that failed beside the others and passed alone: each has a fault to be looked for, in it or in ours."""

    def __str__(self) -> str:
        if not (self.passed or self.failed):
            return f"{self.ring}: left out: {self.left_out}"
        text = f"{self.ring}: {self.passed} passed, {self.failed} failed"
        if self.skipped:
            text += f", {self.skipped} skipped"
        text += f" in {self.seconds:.0f} s"
        if self.second_try:
            text += f"; passed only at a second try, alone: {', '.join(self.second_try)}"
        return f"{text}; left out: {self.left_out}" if self.left_out else text


def pytest_ring(
    ring: str,
    environment: Environment,
    paths: Sequence[Path],
    *,
    options: Sequence[str] = (),
    processes: int | None = None,
    by_file: bool = False,
    beside: bool = False,
) -> Outcome:
    """Run pytest on `paths` in so many processes (0: its own), its output shown as it comes.

    With `by_file`, the tests of a file run in one process: what its fixtures make is made once. With `beside` another
    ring goes on, which comes first: there are fewer processes, and they are nicer.
    """
    present = [str(path.relative_to(ROOT)) for path in paths if path.exists()]
    if not present:  # pytest without a path would run everything
        return Outcome(ring, failed=1, left_out="its tests are missing")
    # In the order that is given; by itself xdist takes the files with the most tests first.
    how = ("loadfile", "--no-loadscope-reorder") if by_file else ("worksteal",)
    if processes is None:
        processes = _CORES if beside else _CORES + 1
    spread = ("-n", str(processes), "--dist", *how)
    done = _pytest(ring, environment, [*spread, *options, *present], ring, nicer=_YIELDS if beside else 0)
    failed = failed_tests(ARTIFACTS / "junit" / f"{ring}.xml")
    few = 0 < done.failed == len(failed) <= _SECOND_TRIES
    return replace(done, suspects=failed) if few else done


def try_alone(outcome: Outcome, environment: Environment) -> Outcome:
    """The outcome after another try of its suspects, for which nothing else may run."""
    if not outcome.suspects:
        return outcome
    ring = outcome.ring
    print(f"\n== {ring}, once more, alone: {', '.join(outcome.suspects)}", flush=True)
    if outcome.script is not None:
        tried = script_ring(ring, environment, outcome.script, only=outcome.suspects)
        passed = () if tried.failed else outcome.suspects
        return replace(tried, seconds=outcome.seconds + tried.seconds, second_try=passed)
    tried = _pytest(ring, environment, ["-n", "0", *outcome.suspects], f"{ring}-again")
    still = failed_tests(ARTIFACTS / "junit" / f"{ring}-again.xml") if tried.passed else outcome.suspects
    return replace(
        outcome,
        passed=outcome.passed + len(outcome.suspects) - len(still),
        failed=len(still),
        seconds=outcome.seconds + tried.seconds,
        suspects=(),
        second_try=tuple(name for name in outcome.suspects if name not in still),
    )


def _pytest(
    ring: str, environment: Environment, arguments: Sequence[str], file: str, *, nicer: int = 0
) -> Outcome:
    results = ARTIFACTS / "junit" / f"{file}.xml"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    plugins = [word for plugin in _PLUGINS for word in ("-p", plugin)]
    variables = environment.variables()
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [
        str(environment.python),
        "-m",
        "pytest",
        "-q",
        "--junitxml",
        str(results),
        *plugins,
        *arguments,
    ]
    started = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL) as process:
        if nicer and hasattr(os, "setpriority"):
            os.setpriority(os.PRIO_PROCESS, process.pid, nicer)  # before it has children, which are as nice
        code = process.wait()
    return read_junit(ring, results, code=code, seconds=time.monotonic() - started)


def node_ring(ring: str, node: Node, files: Sequence[Path]) -> Outcome:
    """Run Node's own test runner on `files`."""
    results = ARTIFACTS / "junit" / f"{ring}.xml"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    reporters = [
        *("--test-reporter=spec", "--test-reporter-destination=stdout"),
        *("--test-reporter=junit", f"--test-reporter-destination={results}"),
    ]
    started = time.monotonic()
    done = subprocess.run(
        [str(node.executable), "--test", *reporters, *(str(file.relative_to(ROOT)) for file in files)],
        cwd=ROOT,
        env=node.environment(),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return read_junit(ring, results, code=done.returncode, seconds=time.monotonic() - started)


def script_ring(
    ring: str,
    environment: Environment,
    script: Path,
    *,
    only: Sequence[str] = (),
    beside: bool = False,
) -> Outcome:
    """Run a script that drives other test runners, given the Python that has torch.

    It leaves `artifacts/junit/<ring>-*.xml`, one file a runner, and `<ring>.failed`, the kinds of tests that failed, a
    line each; or it ends with LEFT_OUT and one line that says why. `only` are kinds to be run once more. What it says
    `beside` another ring is shown when it has ended, and lies in `artifacts/<ring>.log` until then.
    """
    folder = ARTIFACTS / "junit"
    folder.mkdir(parents=True, exist_ok=True)
    told = folder / f"{ring}.failed"
    for old in [] if only else [told, *folder.glob(f"{ring}-*.xml")]:
        old.unlink(missing_ok=True)
    kinds = [word for kind in only for word in ("--only", kind)]
    command = [str(environment.python), str(script), str(environment.python), *kinds]
    started = time.monotonic()
    code = (
        _shown_at_the_end(command, environment, ARTIFACTS / f"{ring}.log")
        if beside
        else _shown(command, environment)
    )
    seconds = time.monotonic() - started
    if code == LEFT_OUT:
        return Outcome(ring, seconds=seconds, left_out="the line above says what this machine lacks")
    results = sorted(folder.glob(f"{ring}-*.xml"))
    parts = [read_junit(ring, one, code=0, seconds=0) for one in results]
    failed = sum(part.failed for part in parts)
    return Outcome(
        ring,
        passed=sum(part.passed for part in parts),
        failed=max(failed, 1) if code != 0 or not parts else failed,
        skipped=sum(part.skipped for part in parts),
        seconds=seconds,
        suspects=tuple(told.read_text(encoding="utf-8").split()) if beside and told.is_file() else (),
        script=script,
    )


def _shown(command: Sequence[str], environment: Environment) -> int:
    variables = environment.variables()
    return subprocess.run(command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, check=False).returncode


def _shown_at_the_end(command: Sequence[str], environment: Environment, log: Path) -> int:
    with log.open("wb") as file:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment.variables(),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    print(f"\n{log.read_text(encoding='utf-8', errors='replace')}", flush=True)
    return done.returncode


def read_junit(ring: str, results: Path, *, code: int, seconds: float) -> Outcome:
    """The outcome in a JUnit file; a run that left none, or failed without naming a test, counts as one failure."""
    if not results.is_file():
        return Outcome(ring, failed=1, seconds=seconds)
    try:
        cases = list(ET.parse(results).getroot().iter("testcase"))  # noqa: S314 - our own test runner wrote it
    except ET.ParseError:  # the process was killed while it wrote
        return Outcome(ring, failed=1, seconds=seconds)
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - failed - skipped
    if code != 0 and failed == 0:
        failed = 1
    return Outcome(ring, passed=passed, failed=failed, skipped=skipped, seconds=seconds)


def failed_tests(results: Path) -> tuple[str, ...]:
    """What pytest would run again of a JUnit file of its own: `tests/unit/test_wire.py::test_frames[3]`."""
    if not results.is_file():
        return ()
    try:
        cases = list(ET.parse(results).getroot().iter("testcase"))  # noqa: S314 - our own test runner wrote it
    except ET.ParseError:
        return ()
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return tuple(
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '')}" for case in failed
    )


def vector_units(environment: Environment) -> dict[str, str]:
    """The variable that spares Inductor to try the CPU's vector units, where all that the CPU names work.

    In each empty cache folder it compiles and loads a small program for each of them, which takes 8 to 10 seconds.
    """
    asked = subprocess.run(
        [str(environment.python), "-c", _UNITS],
        capture_output=True,
        text=True,
        check=False,
        env=environment.variables(),
    )
    return {"TORCHINDUCTOR_VEC_ISA_OK": "1"} if asked.stdout.strip() == "True" else {}


def keep_bytecode(environment: Environment) -> None:
    """Have our modules compiled, for the images that forbid Python to keep what it compiles itself.

    Hundreds of processes import them, each of which would take a tenth longer to start. pytest writes the modules of
    tests anew, and those of each plugin's package: in each of a dozen processes it would take seconds, kept or not.
    """
    variables = environment.variables()
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = [word for plugin in _PLUGINS for word in ("-p", plugin)]
    for arguments in (
        ["compileall", "-qq", "compiler", "server", "tests/support"],
        ["pytest", "-q", "--collect-only", *plugins, "tests/unit", "tests/server"],
    ):
        subprocess.run(
            [str(environment.python), "-m", *arguments],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,  # they run without as well
        )


def has_gpu(environment: Environment) -> bool:
    """Whether torch sees a CUDA device."""
    asked = subprocess.run(
        [str(environment.python), "-c", "import torch; print(torch.cuda.is_available())"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
    )
    return asked.stdout.strip().endswith("True")

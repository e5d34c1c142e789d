"""The rings of tests, by boundary, and what each needs of the machine.

Invariant: a ring passes, fails, or is skipped with one line that names what is missing; no ring disappears silently.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from node_tools import ROOT
from outcomes import ARTIFACTS, Ended, Outcome, equal_parts, joined, read_junit, slowest_tests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bootstrap import Environment
    from node_tools import Node

NOTHING_RAN = 3
"""Exit code of a script that could run none of its tests on this machine."""
_PLUGINS = ("pytest_timeout", "pytest_asyncio.plugin", "_hypothesis_pytestplugin", "xdist.plugin")
"""Listed by name: an interpreter whose torch is borrowed may have plugins of its own."""
_SECOND_TRIES = 3
"""Up to this many failed tests run again, alone, on an idle machine. Each that then passes is reported as a fault."""
CORES = min(os.cpu_count() or 1, 3)
"""Each worker test is a tree of processes with a torch in each, so that a machine with many cores may still lack the
memory for more.
"""
PROCESSES = CORES + 1
"""Processes of pytest where no other ring runs in parallel: tests wait for a quarter of their time. Each imports torch,
collects the tests and starts a worker, which takes 9 seconds of CPU.
"""
_COUNTED = (sys.executable, "-E", "-S", str(ROOT / "scripts" / "counted.py")) if hasattr(os, "wait4") else ()
EXAMPLE = "examples/training_step.py"
_CAPTURE = ("-m", "fuselight_server", "check", "--no-cache", "--tries", "0", EXAMPLE)
"""A fixed piece of work, the capture of one example."""
_NICENESS = 5
"""Added to a ring that shares the machine with the editor ring, whose deadlines are real ones."""


_UNITS = """\
from torch._inductor import config, cpu_vec_isa
tried = cpu_vec_isa.valid_vec_isa_list()
cpu_vec_isa.valid_vec_isa_list.cache_clear()
config.cpp.vec_isa_ok = True
print(tried == cpu_vec_isa.valid_vec_isa_list())
"""


def pytest_ring(
    ring: str,
    environment: Environment,
    paths: Sequence[Path],
    *,
    options: Sequence[str] = (),
    processes: int = PROCESSES,
    by_file: bool = False,
    shares_machine: bool = False,
    quiet: bool = False,
) -> Outcome:
    """Run pytest on `paths` in `processes` processes (0: pytest's own) and show its output as it comes.

    With `by_file`, one process runs all tests of a file, so that its fixtures are made once. With `shares_machine`,
    another ring runs in parallel and has priority. With `quiet`, the output goes to `artifacts/<ring>.log` and is shown
    at the end.
    """
    present = [str(path.relative_to(ROOT)) for path in paths if path.exists()]
    if not present:  # pytest without a path would run everything
        return Outcome(ring, failed=1, skipped_because="its tests are missing")
    # In the given order: xdist alone starts with the files that have the most tests.
    how = ("loadfile", "--no-loadscope-reorder") if by_file else ("worksteal",)
    spread = ("-n", str(processes), "--dist", *how)
    done = _pytest(
        ring,
        environment,
        [*spread, *options, *present],
        ring,
        nicer=_NICENESS if shares_machine else 0,
        quiet=quiet,
    )
    return _with_suspects(done)


def unit_ring(
    ring: str,
    environment: Environment,
    paths: Sequence[Path],
    *,
    options: Sequence[str] = (),
    shares_machine: bool = False,
) -> Outcome:
    """Run pytest on `paths`, files and folders, as CORES processes that know nothing of each other.

    xdist would collect every test in every process and send each result to another one: 4 ms of CPU per test, which is
    half of what a unit test takes. The output of the second process and of later ones is shown at the end.
    """
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("test_*.py"))]
    parts = equal_parts(ring, files, CORES)
    started = time.monotonic()
    with ThreadPoolExecutor(len(parts) or 1) as threads:
        running = [
            threads.submit(
                _pytest,
                f"{ring}-{number}",
                environment,
                [*options, *(str(file.relative_to(ROOT)) for file in part)],
                f"{ring}-{number}",
                nicer=_NICENESS if shares_machine else 0,
                quiet=number > 1,
            )
            for number, part in enumerate(parts, 1)
        ]
        done = [future.result() for future in running]
    return _with_suspects(joined(ring, done, time.monotonic() - started))


def _with_suspects(done: Outcome) -> Outcome:
    """The outcome, with its failures as suspects if they are few and each is known by name."""
    few = 0 < done.failed == len(done.failures) <= _SECOND_TRIES
    return replace(done, suspects=tuple(name for name, _ in done.failures)) if few else done


def try_alone(outcome: Outcome, environment: Environment) -> Outcome:
    """Run the suspects again, alone, and return the outcome."""
    if not outcome.suspects:
        return outcome
    ring = outcome.ring
    print(f"\n== {ring}, second try, alone: {', '.join(outcome.suspects)}", flush=True)
    if outcome.script is not None:
        tried = script_ring(ring, environment, outcome.script, only=outcome.suspects)
    else:
        tried = _pytest(ring, environment, ["-n", "0", *outcome.suspects], f"{ring}-again")
    # A process that died named no test, and shows nothing.
    seen = bool(tried.passed or tried.failures)
    still = tried.failures if seen else outcome.failures
    failed = tried.failed if seen else outcome.failed
    return replace(
        outcome,
        passed=outcome.passed + max(outcome.failed - failed, 0),
        failed=failed,
        seconds=outcome.seconds + tried.seconds,
        cpu_seconds=outcome.cpu_seconds + tried.cpu_seconds,
        suspects=(),
        failures=still,
        second_try=tuple(name for name, _ in outcome.failures if name not in dict(still)),
    )


def _pytest(
    ring: str,
    environment: Environment,
    arguments: Sequence[str],
    file: str,
    *,
    nicer: int = 0,
    quiet: bool = False,
) -> Outcome:
    results = ARTIFACTS / "junit" / f"{file}.xml"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    started = time.monotonic()
    log = ARTIFACTS / f"{ring}.log" if quiet else None
    ended = run_pytest(environment, ["-q", "--junitxml", str(results), *arguments], log=log, nicer=nicer)
    return read_junit(ring, results, ended=ended, seconds=time.monotonic() - started)


def run_pytest(
    environment: Environment, arguments: Sequence[str], *, log: Path | None = None, nicer: int = 0
) -> Ended:
    """Run pytest with these arguments and with the plugins of the tests alone."""
    variables = _variables(environment)
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = [word for plugin in _PLUGINS for word in ("-p", plugin)]
    command = [str(environment.python), "-m", "pytest", *plugins, *arguments]
    return _run(command, variables, log=log, nicer=nicer)


def _run(
    command: Sequence[str], variables: dict[str, str], *, log: Path | None = None, nicer: int = 0
) -> Ended:
    """Run a command until it ends. With a log, its output goes there and is shown at the end."""
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb")) if log is not None else None
        process = stack.enter_context(
            subprocess.Popen(
                [*_COUNTED, *command],
                cwd=ROOT,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=None if output is None else subprocess.STDOUT,
            )
        )
        if nicer and hasattr(os, "setpriority"):
            os.setpriority(os.PRIO_PROCESS, process.pid, nicer)  # children inherit it
        ended = _wait(process)
    if log is not None:
        _show(log)
    return ended


def _wait(process: subprocess.Popen[bytes]) -> Ended:
    """Wait for this process alone: rings that run in parallel are counted separately."""
    if not hasattr(os, "wait4"):
        return Ended(process.wait())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(process.returncode, usage.ru_utime + usage.ru_stime)


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
    command = [str(node.executable), "--test", *reporters, *(str(file.relative_to(ROOT)) for file in files)]
    ended = _run(command, node.environment())
    return read_junit(ring, results, ended=ended, seconds=time.monotonic() - started)


def script_ring(
    ring: str,
    environment: Environment,
    script: Path,
    *,
    only: Sequence[str] = (),
    shares_machine: bool = False,
) -> Outcome:
    """Run a script that drives other test runners, given the Python that has torch.

    In a folder that it is given, the script writes `<ring>-*.xml`, one per runner, and `<ring>.failed`, a line for each
    part of its tests that failed; or it exits with NOTHING_RAN after one line that says why. `only` names parts to run
    again. With `shares_machine`, its output goes to `artifacts/<ring>.log` and is shown at the end.
    """
    folder = ARTIFACTS / "junit" / ("again" if only else "")
    folder.mkdir(parents=True, exist_ok=True)
    failed_parts = folder / f"{ring}.failed"
    for old in [failed_parts, *folder.glob(f"{ring}-*.xml")]:
        old.unlink(missing_ok=True)
    options = ["--results", str(folder), *(word for part in only for word in ("--only", part))]
    command = [str(environment.python), str(script), str(environment.python), *options]
    started = time.monotonic()
    ended = _run(command, _variables(environment), log=ARTIFACTS / f"{ring}.log" if shares_machine else None)
    seconds = time.monotonic() - started
    if ended.code == NOTHING_RAN:
        return Outcome(ring, seconds=seconds, skipped_because="the line above says what is missing")
    results = sorted(folder.glob(f"{ring}-*.xml"))
    parts = [read_junit(ring, path, ended=Ended(0), seconds=0) for path in results]
    failed = sum(part.failed for part in parts)
    return Outcome(
        ring,
        passed=sum(part.passed for part in parts),
        failed=max(failed, 1) if ended.code != 0 or not parts else failed,
        skipped=sum(part.skipped for part in parts),
        seconds=seconds,
        cpu_seconds=ended.cpu_seconds,
        slowest=slowest_tests(parts),
        failures=tuple(failure for part in parts for failure in part.failures),
        suspects=tuple(failed_parts.read_text(encoding="utf-8").split())
        if shares_machine and failed_parts.is_file()
        else (),
        script=script,
    )


def cost_of_example(environment: Environment) -> float:
    """The processor time of the capture of an example on this machine; 0 if it cannot be measured."""
    command = [str(environment.python), *_CAPTURE, "--python", str(environment.python)]
    ended = _run(command, _variables(environment), log=Path(os.devnull))
    return ended.cpu_seconds if ended.code in {0, 1} else 0.0  # 1: it has findings


def _variables(environment: Environment) -> dict[str, str]:
    variables = environment.variables()
    # OpenMP threads that wait for work would keep a processor busy, which another process of the tests needs.
    variables.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return variables


def _show(log: Path) -> None:
    text = log.read_text(encoding="utf-8", errors="replace")
    if text:
        print(f"\n{text}", flush=True)


def vector_units(environment: Environment) -> dict[str, str]:
    """The variable that makes Inductor trust the CPU's vector units, if all that the CPU reports work.

    Without it, Inductor compiles a test program for each unit in each empty cache folder: 8 to 10 seconds.
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
    """Compile our modules and pytest's rewritten test modules once, for all processes.

    Some images set PYTHONDONTWRITEBYTECODE: hundreds of processes would each start a tenth slower, and each of a dozen
    pytest processes would spend seconds on rewriting assertions. The modules of the worker ring are rewritten before
    they fail for lack of torch, which is being installed.
    """
    variables = environment.variables()
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = [word for plugin in _PLUGINS for word in ("-p", plugin)]
    for arguments in (
        ["compileall", "-qq", "compiler", "server", "tests/support"],
        ["pytest", "-q", "--collect-only", *plugins, "tests/unit", "tests/server", "tests/worker"],
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

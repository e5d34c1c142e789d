"""`make test`: every ring of tests that this machine can run, and a closing line `N passed, N failed`.

Invariant: the exit code is 0 only if every ring that could run passed; what could not run has a line of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING

from bootstrap import ensure_environment
from editor_tools import ensure_browser, ensure_code_server, ensure_editor_tests
from node_tools import ROOT, Unavailable, npm_ci
from rings import (
    Outcome,
    has_gpu,
    keep_bytecode,
    node_ring,
    pytest_ring,
    script_ring,
    try_alone,
    vector_units,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bootstrap import Environment

TESTS = ROOT / "tests"
LONGEST = (
    "benchmark",
    "worker_life",
    "cli",
    "fidelity",
    "accuracy",
    "cases",
    "program",
    "kernel_advice",
    "kernel_cases",
    "doctor",
    "kernel_script",
    "kernels",
    "kernel_costs",
    "measure_bisection",
)
"""Files of the worker ring that begin first: of one that begins last, the end is waited for with nothing beside it."""


def unit(environment: Environment, *, beside: bool = False) -> Outcome:
    """Pure: no torch, no process."""
    return pytest_ring("unit", environment, [*sorted(TESTS.glob("test_*.py")), TESTS / "unit"], beside=beside)


def worker(environment: Environment, *, beside: bool = False) -> Outcome:
    """Real torch in the real worker, the annotated cases included."""
    if environment.no_torch:
        return Outcome("worker", left_out=environment.no_torch)
    files = sorted((TESTS / "worker").glob("test_*.py"))
    first = [TESTS / "worker" / f"test_{name}.py" for name in LONGEST]
    files = [*first, *(one for one in files if one not in first)]
    return pytest_ring("worker", environment, files, by_file=True, beside=beside)


def server(environment: Environment, *, beside: bool = False) -> Outcome:
    """The real server over stdio."""
    if environment.no_torch:
        outcome = pytest_ring("server", environment, [TESTS / "server"], options=["-m", "not torch"])
        return replace(outcome, left_out=f"its tests that run a model: {environment.no_torch}")
    return pytest_ring("server", environment, [TESTS / "server"], beside=beside)


def fetch_editor() -> None:
    """What the editor ring, and the extension's, need, unless it is there. Raises Unavailable."""
    npm_ci(ROOT)
    ensure_code_server()
    ensure_browser()
    ensure_editor_tests()


def extension(_: Environment, *, beside: bool = False) -> Outcome:
    """The extension's pure parts, in Node."""
    del beside  # seconds
    return node_ring("extension", npm_ci(ROOT), sorted(ROOT.glob("extension/test/*.test.ts")))


def editor(environment: Environment, *, beside: bool = False) -> Outcome:
    """A real VS Code. Its programs are fetched first, so that a machine that cannot have them says so."""
    if environment.no_torch:
        return Outcome("editor", left_out=environment.no_torch)
    fetch_editor()
    return script_ring("editor", environment, TESTS / "editor" / "run.py", beside=beside)


def gpu(environment: Environment, *, beside: bool = False) -> Outcome:
    """Capture on a real device."""
    del beside  # it comes last, and alone
    if environment.no_torch:
        return Outcome("gpu", left_out=environment.no_torch)
    if not has_gpu(environment):
        return Outcome("gpu", left_out="torch sees no CUDA device on this machine")
    return pytest_ring("gpu", environment, [TESTS / "gpu"], processes=0)


IN_NODE = frozenset({"extension", "editor"})
RINGS: dict[str, Callable[..., Outcome]] = {
    "unit": unit,
    "worker": worker,
    "server": server,
    "extension": extension,
    "editor": editor,
    "gpu": gpu,
}


def main() -> int:
    """Run the rings named on the command line, by default all; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run every ring of tests that this machine can run.")
    parser.add_argument("rings", nargs="*", metavar="RING", help=f"one or more of {', '.join(RINGS)}")
    names = parser.parse_args().rings or list(RINGS)
    unknown = [name for name in names if name not in RINGS]
    if unknown:
        parser.error(f"no ring {', '.join(unknown)}; there are {', '.join(RINGS)}")
    started = time.monotonic()
    try:
        outcomes = run_all(names)
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 1
    return conclude(outcomes, time.monotonic() - started)


def run_all(names: Sequence[str]) -> list[Outcome]:
    """Run these rings, what waits beside what computes; returns how each ended, in their order. Raises Unavailable.

    The pure ring needs no torch, and runs while that is installed. The editor's has one browser and one editor, which
    are waited for half of the time: it goes beside the others. What failed then is tried again when all is quiet.
    """
    done: dict[str, Outcome] = {}
    with ThreadPoolExecutor(3) as aside:
        # From the start: it waits for the network, and unpacks while pip uses one processor.
        fetching = aside.submit(fetch_editor) if "editor" in names else None
        environment = ensure_environment(torch=False)
        kept = aside.submit(keep_bytecode, environment)
        early = None
        if "unit" in names:
            print("\n== unit", flush=True)
            early = aside.submit(run, "unit", environment, kept, beside=names != ["unit"])
        if names != ["unit"]:
            environment = ensure_environment()
            if not environment.no_torch:
                os.environ.update(vector_units(environment))
        wait([kept])
        if early is not None:
            done["unit"] = early.result()
            print(done["unit"], flush=True)
        beside = None
        if "editor" in names and {"worker", "server"} & set(names):
            print("\n== editor, beside the next; what it says comes when it has ended", flush=True)
            beside = aside.submit(run, "editor", environment, fetching, beside=True)
        for name in names:
            if name in done or (name == "editor" and beside is not None):
                continue
            if name == "gpu" and beside is not None:
                wait([beside])
            print(f"\n== {name}", flush=True)
            others = beside is not None and not beside.done()
            done[name] = run(name, environment, fetching if name in IN_NODE else None, beside=others)
            print(done[name], flush=True)
        if beside is not None:
            done["editor"] = beside.result()
            print(done["editor"], flush=True)
    return [try_alone(done[name], environment) for name in names]


def run(name: str, environment: Environment, before: Future[None] | None, *, beside: bool) -> Outcome:
    """Run one ring once `before` is done: two installations of what it needs would get into each other's way."""
    try:
        if before is not None:
            wait([before])
            if name == "editor":
                before.result()
        return RINGS[name](environment, beside=beside)
    except Unavailable as why:
        return Outcome(name, left_out=str(why))


def conclude(outcomes: list[Outcome], seconds: float) -> int:
    """Print the summary; returns the exit code."""
    print(f"\n== summary, {seconds / 60:.1f} minutes")
    for outcome in outcomes:
        print(outcome)
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"{passed} passed, {failed} failed")
    # A run in which nothing ran has shown nothing.
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

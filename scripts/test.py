"""`make test`: every ring of tests that this machine can run, and a closing line `N passed, N failed`.

Invariant: the exit code is 0 only if every ring that could run passed; what could not run has a line of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from bootstrap import ensure_environment
from editor_tools import ensure_browser, ensure_code_server, ensure_editor_tests
from node_tools import ROOT, Unavailable, npm_ci
from rings import Outcome, has_gpu, keep_bytecode, node_ring, pytest_ring, script_ring, vector_units

if TYPE_CHECKING:
    from collections.abc import Callable

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


def unit(environment: Environment) -> Outcome:
    """Pure: no torch, no process."""
    return pytest_ring("unit", environment, [*sorted(TESTS.glob("test_*.py")), TESTS / "unit"])


def worker(environment: Environment) -> Outcome:
    """Real torch in the real worker, the annotated cases included."""
    if environment.no_torch:
        return Outcome("worker", left_out=environment.no_torch)
    files = sorted((TESTS / "worker").glob("test_*.py"))
    first = [TESTS / "worker" / f"test_{name}.py" for name in LONGEST]
    return pytest_ring(
        "worker", environment, [*first, *(one for one in files if one not in first)], by_file=True
    )


def server(environment: Environment) -> Outcome:
    """The real server over stdio."""
    if environment.no_torch:
        outcome = pytest_ring("server", environment, [TESTS / "server"], options=["-m", "not torch"])
        return Outcome(
            "server",
            passed=outcome.passed,
            failed=outcome.failed,
            skipped=outcome.skipped,
            seconds=outcome.seconds,
            left_out=f"its tests that run a model: {environment.no_torch}",
        )
    return pytest_ring("server", environment, [TESTS / "server"])


def fetch_editor() -> None:
    """What the editor ring, and the extension's, need, unless it is there. Raises Unavailable."""
    npm_ci(ROOT)
    ensure_code_server()
    ensure_browser()
    ensure_editor_tests()


def extension(_: Environment) -> Outcome:
    """The extension's pure parts, in Node."""
    return node_ring("extension", npm_ci(ROOT), sorted(ROOT.glob("extension/test/*.test.ts")))


def editor(environment: Environment) -> Outcome:
    """A real VS Code. Its programs are fetched first, so that a machine that cannot have them says so."""
    if environment.no_torch:
        return Outcome("editor", left_out=environment.no_torch)
    fetch_editor()
    return script_ring("editor", environment, TESTS / "editor" / "run.py")


def gpu(environment: Environment) -> Outcome:
    """Capture on a real device."""
    if environment.no_torch:
        return Outcome("gpu", left_out=environment.no_torch)
    if not has_gpu(environment):
        return Outcome("gpu", left_out="torch sees no CUDA device on this machine")
    return pytest_ring("gpu", environment, [TESTS / "gpu"], processes=0)


IN_NODE = frozenset({"extension", "editor"})
RINGS: dict[str, Callable[[Environment], Outcome]] = {
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
    outcomes = []
    with ThreadPoolExecutor(2) as aside:
        # From the start: it waits for the network, and unpacks while pip uses one processor.
        fetching = aside.submit(fetch_editor) if "editor" in names else None
        with_torch = names != ["unit"]
        try:
            environment = ensure_environment(torch=with_torch)
        except Unavailable as why:
            print(why, file=sys.stderr)
            return 1
        units = aside.submit(vector_units, environment) if with_torch and not environment.no_torch else None
        keep_bytecode(environment)
        for name in names:
            print(f"\n== {name}", flush=True)
            if name != "unit" and units is not None:
                os.environ.update(units.result())
            outcomes.append(run(name, environment, fetching if name in IN_NODE else None))
            print(outcomes[-1], flush=True)
    return conclude(outcomes, time.monotonic() - started)


def run(name: str, environment: Environment, fetching: Future[None] | None) -> Outcome:
    """Run one ring, once what is being fetched is there: two installations would get into each other's way."""
    try:
        if fetching is not None:
            wait([fetching])
            if name == "editor":
                fetching.result()
        return RINGS[name](environment)
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

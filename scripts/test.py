"""`make test`: every ring of tests that this machine can run, and a closing line `N passed, N failed`.

Invariant: the exit code is 0 only if every ring that could run passed; a ring that could not run has a line that says
why.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bootstrap import ensure_environment, environment_of
from editor_tools import ensure_browser, ensure_code_server, ensure_editor_tests
from node_tools import ROOT, Unavailable, npm_ci
from outcomes import SLOWEST, Outcome, longest_first
from ring_environments import JUPYTERLAB, RAY, ensure_packages
from rings import (
    CORES,
    EXAMPLE,
    PROCESSES,
    cost_of_example,
    has_gpu,
    keep_bytecode,
    node_ring,
    pytest_ring,
    run_pytest,
    script_ring,
    try_alone,
    unit_ring,
    vector_units,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bootstrap import Environment

TESTS = ROOT / "tests"
CONTRACT = (
    "torch_api*",
    "triton_*",
    "launched_programs",
    "generation_contract",
    "cases",
    "kernel_cases",
    "breaks",
    "break_steps",
    "advice",
    "compile_results",
    "facts",
    "forecast",
    "recompiles",
    "dispatch_keys",
    "guard_differences",
    "operators",
    "trace*",
    "accuracy",
    "fidelity",
    "suites",
    "real_ranks",
)
"""Files of the worker ring that hold what Fuselight relies on in torch: they run on each torch that users have, with
the tests marked `contract`, which the worker ring leaves out: only another torch can break them.
"""
_LEFT_OUT = ("-m", "not contract and not corpora")
"""What `make test` leaves to other torch releases and to `make corpora`."""


def unit(environment: Environment, *, shares_machine: bool = False) -> Outcome:
    """Pure code: no torch, no process. Its tests wait for nothing."""
    return unit_ring(
        "unit", environment, [*TESTS.glob("test_*.py"), TESTS / "unit"], shares_machine=shares_machine
    )


def worker(environment: Environment, *, shares_machine: bool = False) -> Outcome:
    """Real torch in the real worker, the annotated cases included."""
    if environment.no_torch:
        return Outcome("worker", skipped_because=environment.no_torch)
    files = longest_first("worker", sorted((TESTS / "worker").rglob("test_*.py")))
    processes = CORES if shares_machine else PROCESSES  # the other ring has what waiting tests leave
    return pytest_ring(
        "worker",
        environment,
        files,
        options=_LEFT_OUT,
        processes=processes,
        by_file=True,
        shares_machine=shares_machine,
    )


def server(environment: Environment, *, shares_machine: bool = False) -> Outcome:
    """The real server over stdio. Each process of pytest starts a server and a worker, which its tests share."""
    if environment.no_torch:
        outcome = pytest_ring("server", environment, [TESTS / "server"], options=["-m", "not torch"])
        return replace(outcome, skipped_because=f"tests that run a model: {environment.no_torch}")
    return pytest_ring(
        "server",
        environment,
        [TESTS / "server"],
        options=_LEFT_OUT,
        processes=CORES,
        shares_machine=shares_machine,
    )


def ray(environment: Environment, *, shares_machine: bool = False) -> Outcome:
    """Sweeps over a Ray cluster of this machine."""
    if environment.no_torch:
        return Outcome("ray", skipped_because=environment.no_torch)
    with_ray = replace(environment, python=ensure_packages(RAY, environment))
    outcome = pytest_ring(
        "ray", with_ray, [TESTS / "ray"], processes=0, shares_machine=shares_machine, quiet=shares_machine
    )
    return replace(outcome, suspects=())  # a second try would have no Ray


def fetch_editor() -> None:
    """Install what the editor ring and the extension ring need. Raises Unavailable."""
    npm_ci(ROOT)
    ensure_code_server()
    ensure_browser()
    ensure_editor_tests()


def extension(_: Environment, *, shares_machine: bool = False) -> Outcome:
    """The extension's pure parts, in Node."""
    del shares_machine  # it takes seconds
    return node_ring("extension", npm_ci(ROOT), sorted(ROOT.glob("extension/test/*.test.ts")))


def editor(environment: Environment, *, shares_machine: bool = False) -> Outcome:
    """A real VS Code. Its programs are fetched first, so that a machine without them says so."""
    if environment.no_torch:
        return Outcome("editor", skipped_because=environment.no_torch)
    fetch_editor()
    return script_ring("editor", environment, TESTS / "editor" / "run.py", shares_machine=shares_machine)


def neovim(environment: Environment, *, shares_machine: bool = False) -> Outcome:
    """A headless Neovim, with the lines of docs/editors.md. The pages that it opens are built first."""
    if environment.no_torch:
        return Outcome("neovim", skipped_because=environment.no_torch)
    if shutil.which("nvim", path=f"{environment.python.parent}{os.pathsep}{os.environ['PATH']}") is None:
        return Outcome("neovim", skipped_because="Neovim is not installed")
    npm_ci(ROOT).run(["extension/build.mjs"])
    return pytest_ring(
        "neovim",
        environment,
        [TESTS / "neovim"],
        processes=0,
        shares_machine=shares_machine,
        quiet=shares_machine,
    )


def jupyterlab(environment: Environment, *, shares_machine: bool = False) -> Outcome:
    """A real JupyterLab in a browser, which is the one of the editor ring."""
    if environment.no_torch:
        return Outcome("jupyterlab", skipped_because=environment.no_torch)
    ensure_editor_tests()
    ensure_browser()
    ensure_packages(JUPYTERLAB, environment)
    return pytest_ring(
        "jupyterlab",
        environment,
        [TESTS / "jupyterlab"],
        processes=0,
        shares_machine=shares_machine,
        quiet=shares_machine,
    )


def gpu(environment: Environment, *, shares_machine: bool = False) -> Outcome:
    """Capture, kernels and benchmarks on a real device."""
    del shares_machine  # it runs last, and alone
    if environment.no_torch:
        return Outcome("gpu", skipped_because=environment.no_torch)
    if not has_gpu(environment):
        return Outcome("gpu", skipped_because="torch sees no CUDA device on this machine")
    return pytest_ring("gpu", environment, [TESTS / "gpu"], processes=0)


WAITING = ("editor", "ray", "neovim", "jupyterlab")
"""Rings that leave processors unused: they run one after the other, in parallel with those that compute."""
COMPUTING = frozenset({"worker", "server"})
RINGS: dict[str, Callable[..., Outcome]] = {
    "unit": unit,
    "worker": worker,
    "server": server,
    "ray": ray,
    "extension": extension,
    "editor": editor,
    "neovim": neovim,
    "jupyterlab": jupyterlab,
    "gpu": gpu,
}


def main() -> int:
    """Run the rings named on the command line, by default all; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Run every ring of tests that this machine can run.",
        epilog="`-- PATH -k NAME` runs these tests alone: pytest gets every argument after `--`.",
    )
    parser.add_argument("rings", nargs="*", metavar="RING", help=f"one or more of {', '.join(RINGS)}")
    parser.add_argument(
        "--torch",
        metavar="VERSION",
        help="instead, run the contract tests, annotated cases and recordings on this torch, which is installed",
    )
    parser.add_argument(
        "--corpora",
        action="store_true",
        help="instead, run the cases that the rings leave out: `make corpora`",
    )
    arguments = sys.argv[1:]
    if "--" in arguments:
        return pytest_alone(arguments[arguments.index("--") + 1 :])
    options = parser.parse_args(arguments)
    names = options.rings or list(RINGS)
    unknown = [name for name in names if name not in RINGS]
    if unknown:
        parser.error(f"no ring {', '.join(unknown)}; the rings are {', '.join(RINGS)}")
    started = time.monotonic()
    try:
        outcomes = run_selected(options, names)
        seconds = time.monotonic() - started
        # Last, as nothing else runs then. The other rings alone may need no torch.
        is_measured = not options.torch and bool(options.corpora or COMPUTING & set(names))
        example = cost_of_example(ensure_environment()) if is_measured else 0.0
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 1
    return conclude(outcomes, seconds, example)


def pytest_alone(arguments: Sequence[str]) -> int:
    """Run pytest with these arguments and no ring around it; returns its exit code. Unit tests install no torch."""
    paths = [word for word in arguments if word.startswith("tests")]
    pure = bool(paths) and all(word.startswith(("tests/unit", "tests/test_")) for word in paths)
    try:
        environment = ensure_environment(torch=not pure)
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 1
    return run_pytest(environment, ["-n", "0", *arguments]).code


def run_selected(options: argparse.Namespace, names: Sequence[str]) -> list[Outcome]:
    """Run what the options name. Raises Unavailable."""
    if options.torch:
        return [on_torch(options.torch)]
    return [corpora()] if options.corpora else run_all(names)


def corpora() -> Outcome:
    """Run the cases marked `corpora`. Raises Unavailable."""
    environment = ensure_environment()
    if environment.no_torch:
        return Outcome("corpora", failed=1, skipped_because=environment.no_torch)
    keep_bytecode(environment)
    os.environ.update(vector_units(environment))
    print("\n== corpora", flush=True)
    files = [*sorted((TESTS / "worker").rglob("test_*.py")), *sorted((TESTS / "server").glob("test_*.py"))]
    outcome = pytest_ring("corpora", environment, files, options=("-m", "corpora"), by_file=True)
    print(outcome, flush=True)
    return outcome


def on_torch(version: str) -> Outcome:
    """Run what relies on torch on another version of it, in an environment of its own. Raises Unavailable."""
    ring = f"torch-{version}"
    environment = environment_of(version)
    if environment.no_torch:
        return Outcome(ring, failed=1, skipped_because=environment.no_torch)
    keep_bytecode(environment)
    os.environ.update(vector_units(environment))
    files = [path for name in CONTRACT for path in sorted((TESTS / "worker").rglob(f"test_{name}.py"))]
    print(f"\n== {ring}", flush=True)
    outcome = pytest_ring(ring, environment, [*files, *(TESTS / "unit").rglob("test_trace.py")], by_file=True)
    print(outcome, flush=True)
    return outcome


def run_all(names: Sequence[str]) -> list[Outcome]:
    """Run these rings, the ones that wait in parallel with the ones that compute; outcomes in the order of `names`.

    The unit ring needs no torch and runs while torch is installed. The editor ring has one browser and one editor, the
    ray ring one cluster: both wait half of their time, so they run one after the other in parallel with the others.
    Failures run again once everything else has ended. Raises Unavailable.
    """
    done: dict[str, Outcome] = {}
    with ThreadPoolExecutor(5) as background:
        # From the start: it waits for the network, and unpacks while pip uses one core.
        fetching: dict[str, Future[Any]] = {}
        if "editor" in names:
            fetching["editor"] = background.submit(fetch_editor)
        environment = ensure_environment(torch=False)
        for packages in (each for each in (RAY, JUPYTERLAB) if each.ring in names):
            fetching[packages.ring] = background.submit(ensure_packages, packages, environment)
        kept = background.submit(keep_bytecode, environment)
        early = None
        if "unit" in names:
            print("\n== unit", flush=True)
            early = background.submit(run, "unit", environment, [kept], shares_machine=names != ["unit"])
        if names != ["unit"]:
            environment = ensure_environment()
            if not environment.no_torch:
                os.environ.update(vector_units(environment))
        wait([kept])
        if early is not None:
            done["unit"] = early.result()
            print(done["unit"], flush=True)
        waiting = [name for name in WAITING if name in names] if COMPUTING & set(names) else []
        lane = background.submit(run_in_turn, waiting, environment, fetching)
        for name in names:
            if name in done or name in waiting:
                continue
            if name == "gpu":
                wait([lane])
            print(f"\n== {name}", flush=True)
            shares = not lane.done()
            done[name] = run(name, environment, needed_by(name, fetching), shares_machine=shares)
            print(done[name], flush=True)
        done.update(lane.result())
    return [try_alone(done[name], environment) for name in names]


def run_in_turn(
    names: Sequence[str], environment: Environment, fetching: dict[str, Future[Any]]
) -> dict[str, Outcome]:
    """Run these rings one after the other, each in parallel with another one; outcomes by name."""
    done = {}
    for name in names:
        print(f"\n== {name}, in parallel with the other rings; its output follows at its end", flush=True)
        done[name] = run(name, environment, needed_by(name, fetching), shares_machine=True)
        print(done[name], flush=True)
    return done


def needed_by(name: str, fetching: dict[str, Future[Any]]) -> list[Future[Any]]:
    """What must have been installed before a ring can run: the programs of the editor include those of Node."""
    needed = fetching.get("editor" if name in {"extension", "neovim"} else name)
    return [] if needed is None else [needed]


def run(name: str, environment: Environment, before: list[Future[Any]], *, shares_machine: bool) -> Outcome:
    """Run one ring after `before`, which installs what the ring needs."""
    try:
        wait(before)
        if name in WAITING:
            for future in before:
                future.result()
        return RINGS[name](environment, shares_machine=shares_machine)
    except Unavailable as why:
        return Outcome(name, skipped_because=str(why))


def conclude(outcomes: list[Outcome], seconds: float, example: float) -> int:
    """Print where the time went, slowest first, and the summary; returns the exit code.

    `example`: what the capture of the example costs on this machine in seconds of CPU; 0 if it was not measured.
    """
    slowest = sorted((time for outcome in outcomes for time in outcome.slowest), reverse=True)[:SLOWEST]
    print("\n== where the time went, slowest first")
    for outcome in sorted(outcomes, key=lambda outcome: outcome.seconds, reverse=True):
        print(f"{outcome.seconds:7.1f} s  {outcome.cpu_seconds:7.1f} s of CPU  the {outcome.ring} ring")
    cpu_seconds = sum(outcome.cpu_seconds for outcome in outcomes)
    for took, name in slowest:
        print(f"{took:7.1f} s  {name}")
    failures = [(outcome.ring, *failure) for outcome in outcomes for failure in outcome.failures]
    if failures:
        print("\n== failed")
        for ring, name, message in failures:
            print(f"{ring}: {name}\n    {message}")
    print(f"\n== summary, {seconds / 60:.1f} minutes, {cpu_seconds / 60:.1f} CPU-minutes")
    if example:
        captures = f"{cpu_seconds / example:.0f} captures of {EXAMPLE}"
        print(f"as much as {captures}, each of which takes {example:.1f} s of CPU on this machine")
    for outcome in outcomes:
        print(outcome)
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"{passed} passed, {failed} failed")
    # A run in which nothing ran has shown nothing.
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

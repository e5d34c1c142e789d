"""`make quick`: what a change breaks first, in less than a minute on a machine that has run it once.

Formatting, lint and words of everything, the types of the files that changed, and the unit tests that are not marked
as slow. `make test` and `make lint` check the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from bootstrap import ensure_environment
from lint import check_texts, conclude, passes, run_checks
from node_tools import ROOT, Unavailable
from rings import unit_ring

_TYPED = ("compiler/", "server/", "scripts/", "benchmarks/", "tests/")
_PROGRAMS = (
    "tests/cases/",
    "benchmarks/fix_truth/programs/",
    "benchmarks/studies/",
    "tests/editor/host/",
    "tests/recordings/",
)
"""Programs as users write them, and studies: mypy does not check them."""


def main() -> int:
    """Run every check; returns the exit code."""
    started = time.monotonic()
    try:
        environment = ensure_environment(torch=False)
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 1
    with ThreadPoolExecutor(2) as background:  # a check alone would leave a processor unused
        texts = background.submit(run_checks, check_texts(environment))
        types = background.submit(check_types, changed_files())
        tests = ROOT / "tests"
        os.environ["FUSELIGHT_EXAMPLES"] = "20"  # `make test` tries more of each property
        # Some images set it: each run would rewrite the assertions of each test module again.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        files = [*tests.glob("test_*.py"), tests / "unit"]
        outcome = unit_ring("quick", environment, files, options=["-m", "not slow"])
        results = {**texts.result(), "types of changed files": types.result()}
    print(outcome)
    code = conclude({**results, "unit tests": not outcome.failed})
    print(f"{time.monotonic() - started:.0f} s")
    return code


def changed_files() -> list[str]:
    """Python files that differ from the branch `main`, else from the last commit, and files that git does not know."""
    base = "main" if _git("rev-parse", "--verify", "-q", "main") else "HEAD"
    names = _git("diff", "--name-only", "--diff-filter=d", base)
    names += _git("ls-files", "--others", "--exclude-standard")
    typed = {name for name in names if name.startswith(_TYPED) and name.endswith(".py")}
    return sorted(name for name in typed if not name.startswith(_PROGRAMS))


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def check_types(files: list[str]) -> bool:
    """Check these files with mypy, which needs torch's own types."""
    environment = ensure_environment() if files else None
    if environment is None or environment.no_torch:
        return True
    return passes("mypy", [str(environment.python), "-m", "mypy", *files], environment.variables())


if __name__ == "__main__":
    sys.exit(main())

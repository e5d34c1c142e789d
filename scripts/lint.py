"""`make lint`: formatting, lint and types, of the Python and of the TypeScript. Every check runs; any failure fails.

Invariant: the checks of texts come first, and need neither torch nor Node.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from bootstrap import ensure_environment
from node_tools import ROOT, Unavailable, npm_ci

if TYPE_CHECKING:
    from bootstrap import Environment

Check = tuple[list[str], dict[str, str]]
"""A command and its environment variables."""


def main() -> int:
    """Run every check; returns the exit code."""
    try:
        results = run_checks(check_texts(ensure_environment(torch=False)))
        environment = ensure_environment()
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 1
    if environment.no_torch:
        print(f"types: left out, they need torch's: {environment.no_torch}")
    else:
        results |= run_checks(check_types(environment))
    try:
        variables = npm_ci(ROOT).environment(environment.variables())
    except Unavailable as why:
        print(f"TypeScript: left out: {why}")
    else:
        results |= run_checks(check_typescript(variables))
    return conclude(results)


def check_texts(environment: Environment) -> dict[str, Check]:
    """The checks that read the files alone, by name."""
    python, variables = str(environment.python), environment.variables()
    return {
        "ruff check": ([python, "-m", "ruff", "check", "."], variables),
        "ruff format": ([python, "-m", "ruff", "format", "--check", "."], variables),
        "words": ([python, "scripts/check_words.py"], variables),
        "types of the pages": ([python, "scripts/message_types.py", "--check"], variables),
    }


def check_types(environment: Environment) -> dict[str, Check]:
    """The checks of Python's types, by name."""
    python, variables = str(environment.python), environment.variables()
    return {
        "mypy": ([python, "-m", "mypy"], variables),
        "basedpyright": ([python, "-m", "basedpyright", "--pythonpath", python], variables),
    }


def check_typescript(variables: dict[str, str]) -> dict[str, Check]:
    """The checks of the TypeScript and of the JSON, by name."""
    tools = ROOT / "node_modules" / ".bin"
    checked = ("extension", "server/fuselight_server/sweep", "tests/editor")
    files = ("package.json", "tsconfig.json", "biome.json")
    return {
        "biome": ([str(tools / "biome"), "ci", *checked, *files], variables),
        "tsc": ([str(tools / "tsc"), "--noEmit", "-p", "."], variables),
        "tsc of the window": ([str(tools / "tsc"), "--noEmit", "-p", "extension/webview"], variables),
    }


def run_checks(checks: dict[str, Check]) -> dict[str, bool]:
    """Run each check, its output shown; whether each passed, by name."""
    return {name: passes(name, *check) for name, check in checks.items()}


def passes(name: str, command: list[str], variables: dict[str, str]) -> bool:
    """Run one check, its output shown."""
    print(f"== {name}", flush=True)
    return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode == 0


def conclude(results: dict[str, bool]) -> int:
    """Print the summary; returns the exit code."""
    failed = [name for name, passed in results.items() if not passed]
    named = f": {', '.join(failed)}" if failed else ""
    print(f"\n{len(results) - len(failed)} checks passed, {len(failed)} failed{named}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

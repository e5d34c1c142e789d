"""`make lint`: formatting, lint and types, of the Python and of the TypeScript. Every check runs; any failure fails."""

from __future__ import annotations

import subprocess
import sys

from bootstrap import ensure_environment
from node_tools import ROOT, Unavailable, npm_ci


def main() -> int:
    """Run every check; returns the exit code."""
    try:
        environment = ensure_environment()
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 1
    python = str(environment.python)
    checks = {
        "ruff check": [python, "-m", "ruff", "check", "."],
        "ruff format": [python, "-m", "ruff", "format", "--check", "."],
        "mypy": [python, "-m", "mypy"],
        "basedpyright": [python, "-m", "basedpyright", "--pythonpath", python],
        "words": [python, "scripts/check_words.py"],
        "types of the pages": [python, "scripts/message_types.py", "--check"],
    }
    if environment.no_torch:
        print(f"types: left out, they need torch's: {environment.no_torch}")
        del checks["mypy"], checks["basedpyright"]
    variables = environment.variables()
    try:
        variables = npm_ci(ROOT).environment(variables)
    except Unavailable as why:
        print(f"TypeScript: left out: {why}")
    else:
        tools = ROOT / "node_modules" / ".bin"
        checks["biome"] = [
            str(tools / "biome"),
            "ci",
            "extension",
            "server/fuselight_server/sweep",
            "tests/editor",
            "package.json",
            "tsconfig.json",
            "biome.json",
        ]
        checks["tsc"] = [str(tools / "tsc"), "--noEmit", "-p", "."]
        checks["tsc of the window"] = [str(tools / "tsc"), "--noEmit", "-p", "extension/webview"]
    return conclude({name: passes(name, command, variables) for name, command in checks.items()})


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

"""Questions to git about a repository that nobody has vouched for.

Invariant: nothing of the repository runs (hooks, monitors, filters, programs that show diffs); nothing is fetched or
written.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_COMMAND = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=")
_SECONDS = 60.0
_VARIABLES = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_EXTERNAL_DIFF"})
"""They would have git answer for another folder, or start a program."""


def ask_git(folder: str | Path, *question: str) -> bytes:
    """Return what git prints. Raises OSError if git is missing, fails (its last line is the text) or takes too long."""
    return _output(folder, *_without_filters(folder), *question)


def _without_filters(folder: str | Path) -> list[str]:
    """Options that turn off the filters of files: programs that the repository's own settings name. Raises OSError."""
    names = os.fsdecode(_output(folder, "config", "--null", "--name-only", "--list")).split("\0")
    filters = {
        name.rpartition(".")[0] for name in names if name.startswith("filter.") and name.count(".") > 1
    }
    if any("=" in name for name in filters):
        raise OSError("a filter in its settings has a name with `=`, which cannot be turned off")
    values = ("clean=", "smudge=", "process=", "required=false")
    return [part for name in sorted(filters) for value in values for part in ("-c", f"{name}.{value}")]


def _output(folder: str | Path, *question: str) -> bytes:
    variables = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    try:
        answer = subprocess.run(  # noqa: S603 - a fixed command
            (*_COMMAND, *question),
            cwd=folder,
            env={**variables, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"git did not answer within {_SECONDS:.0f} s") from None
    if answer.returncode:
        lines = answer.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError(lines[-1] if lines else f"git ended with exit code {answer.returncode}")
    return answer.stdout

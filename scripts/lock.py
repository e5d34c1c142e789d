"""`make lock`: write the lock files of pyproject.toml, for every supported Python and platform.

Invariant: torch is never in it, and no registry's address is.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

from bootstrap import LOCK, ensure_environment
from node_tools import ROOT, Unavailable
from ring_environments import JUPYTERLAB, PAGES, RAY, write_lock

if TYPE_CHECKING:
    from pathlib import Path


def main() -> int:
    """Write the lock; returns the exit code."""
    try:
        python = ensure_environment(torch=False).python
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 1
    subprocess.run(
        [
            str(python),
            *("-m", "uv", "pip", "compile", "pyproject.toml"),
            *(
                "--universal",
                "--python-version",
                "3.10",
                "--group",
                "dev",
                "--group",
                "models",
                "--group",
                "clients",
            ),
            *("--generate-hashes", "--no-annotate", "--quiet", "--upgrade"),
            *("--custom-compile-command", "make lock", "--output-file", str(LOCK)),
        ],
        cwd=ROOT,
        check=True,
    )
    _lock_ray(python)
    write_lock(JUPYTERLAB, python, ["--group", "jupyterlab"])
    write_lock(PAGES, python, ["--group", "site"], is_apart=True)
    heavy = re.findall(
        r"^(?:torch|triton|nvidia-[\w-]+)==.*$", LOCK.read_text(encoding="utf-8"), re.MULTILINE
    )
    if heavy:
        print(
            f"torch must stay out of the lock, but a dependency brought: {', '.join(heavy)}", file=sys.stderr
        )
        return 1
    return 0


def _lock_ray(python: Path) -> None:
    """Write the lock of the extra `ray`, for the ring that has it."""
    extra = re.search(
        r'^ray = \["([^"]+)"\]', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    if extra is None:
        raise ValueError("pyproject.toml has no extra `ray`")
    write_lock(RAY, python, ["-"], extra[1])


if __name__ == "__main__":
    sys.exit(main())

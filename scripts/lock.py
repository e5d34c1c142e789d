"""`make lock`: write `requirements-dev.lock` from pyproject.toml, for every supported Python and platform.

Invariant: torch is never in it, and no registry's address is.
"""

from __future__ import annotations

import re
import subprocess
import sys

from bootstrap import LOCK, ensure_environment
from node_tools import ROOT, Unavailable


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
            *("--universal", "--python-version", "3.10", "--group", "dev", "--group", "models"),
            *("--generate-hashes", "--no-annotate", "--quiet", "--upgrade"),
            *("--custom-compile-command", "make lock", "--output-file", str(LOCK)),
        ],
        cwd=ROOT,
        check=True,
    )
    heavy = re.findall(
        r"^(?:torch|triton|nvidia-[\w-]+)==.*$", LOCK.read_text(encoding="utf-8"), re.MULTILINE
    )
    if heavy:
        print(
            f"torch must stay out of the lock, but a dependency brought: {', '.join(heavy)}", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

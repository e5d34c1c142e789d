"""`make bench`, or `bench.py NAME ...` for some: measure what the project promises, print the table (benchmarks/)."""

from __future__ import annotations

import os
import subprocess
import sys

from bootstrap import environment_with_torch
from node_tools import ROOT


def main() -> int:
    """Run the benchmarks named on the command line, by default all; returns the exit code."""
    environment = environment_with_torch("nothing to measure without torch")
    if environment is None:
        return 1
    variables = environment.variables()
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), variables.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.run(
        [str(environment.python), "-m", "benchmarks", *sys.argv[1:]], cwd=ROOT, env=variables, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())

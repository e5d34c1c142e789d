"""`make demo`: findings and kernels of examples in the terminal, then an editor with the extension running.

Invariant: the terminal part needs no editor; `EDITOR_UI=none`, CI or the lack of a terminal stops after it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from bootstrap import environment_with_torch
from demo_editor import open_editor
from node_tools import ROOT, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bootstrap import Environment

EXAMPLE = ROOT / "examples" / "gpt2_breaks.py"
SMALL = ROOT / "examples" / "clean.py"
"""The source for `fuselight kernels`: few kernels, in seconds."""
DEVICE = "h100"
_FOUND_SOMETHING = 1
"""Exit code of `fuselight check` if there are findings; the example has some."""


def main() -> int:
    """Show both parts; returns the exit code."""
    environment = environment_with_torch("the demo compiles a model, and there is no torch")
    if environment is None:
        return 1
    code = show_findings(environment) or show_kernels(environment)
    if code != 0:
        return code
    reason = no_editor(os.environ, terminal=sys.stdin.isatty() and sys.stdout.isatty())
    if reason is not None:
        print(f"\nThe editor part is left out: {reason}.")
        return 0
    try:
        open_editor(environment, EXAMPLE)
    except Unavailable as why:
        print(f"\nThe editor part is left out: {why}")
    return 0


def show_findings(environment: Environment) -> int:
    """Run `fuselight check` on the example; returns 0 if it reported findings."""
    shown = EXAMPLE.relative_to(ROOT)
    print(f"\n{EXAMPLE.name} is a small GPT-2 with four habits that cost speed under torch.compile.")
    print("Fuselight calls it with three inputs, on this machine, and says what the compiler made of it.")
    code = _fuselight(environment, "check", str(shown))
    if code != _FOUND_SOMETHING:
        print(f"fuselight check ended with {code}; the example has findings, so 1 was due", file=sys.stderr)
        return code or 1
    return 0


def show_kernels(environment: Environment) -> int:
    """Run `fuselight kernels` on the small example, for a GPU that need not be here; returns 0 if it has them."""
    print(
        f"\nThe kernels that {SMALL.name} would become on an {DEVICE.upper()}, which need not be here:",
        end="",
    )
    print(" each line's part, then every launch.")
    code = _fuselight(environment, "kernels", str(SMALL.relative_to(ROOT)), "--device", DEVICE)
    if code != 0:
        print(f"fuselight kernels ended with {code}; the example has kernels, so 0 was due", file=sys.stderr)
    return code


def _fuselight(environment: Environment, *arguments: str) -> int:
    """Show a command and run it; returns its exit code."""
    print(f"\n$ fuselight {' '.join(arguments)}\n", flush=True)
    command = [str(environment.python), "-m", "fuselight_server", *arguments]
    command += ["--python", str(environment.python)]
    return subprocess.run(command, cwd=ROOT, env=environment.variables(), check=False).returncode


def no_editor(variables: Mapping[str, str], *, terminal: bool) -> str | None:
    """Why no editor is opened here, or None."""
    if variables.get("EDITOR_UI") == "none":
        return "EDITOR_UI is none"
    if variables.get("CI"):
        return "CI is set"
    if not terminal:
        return "this is not a terminal"
    return None


if __name__ == "__main__":
    sys.exit(main())

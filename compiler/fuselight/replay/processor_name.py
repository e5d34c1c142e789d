"""The processor's name: part of the key of a tuned result, and of the description of a benchmark's machine.

Invariant: it imports no torch, so that code and tests that read only the processor need none.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

_SECONDS = 5.0


def processor_name(root: Path = Path("/")) -> str:
    """The processor's name as the manufacturer or the system reports it."""
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    reported = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    if reported is not None:
        return reported[1].strip()
    if sys.platform == "darwin":
        try:
            asked = subprocess.run(
                ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
                capture_output=True, text=True, timeout=_SECONDS, check=True,
            )  # fmt: skip
            return asked.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass
    return platform.processor() or platform.machine()

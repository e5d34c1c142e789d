"""The cores that this process may use, in an order in which the two threads of one physical core are neighbors.

Two programs on the threads of one physical core slow each other, so shares of this order disturb each other least.
"""

from __future__ import annotations

import os
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")


def allowed_cores(topology: Path = _TOPOLOGY) -> list[int]:
    """The numbers of the cores; empty where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(os.sched_getaffinity(0), key=lambda core: (_first_thread(core, topology), core))


def _first_thread(core: int, topology: Path) -> int:
    """The lowest thread of its physical core: of `3,67` and `6-7` the 3 and the 6."""
    try:
        text = (topology / f"cpu{core}" / "topology" / "thread_siblings_list").read_text(encoding="ascii")
        return int(text.replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return core

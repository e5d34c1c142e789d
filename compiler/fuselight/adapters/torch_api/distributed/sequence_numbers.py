# ruff: noqa: SLF001 - private names are this package's business
"""How many collectives the process groups of this process have started."""

from __future__ import annotations

import sys
from typing import Any

UNCOUNTED = -1
"""Stands for a group whose backend does not count."""


def sequence_numbers() -> tuple[int, ...]:
    """A number for each process group of more than one rank, which a collective changes; empty without such groups."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not c10d.is_initialized():
        return ()
    numbers = []
    for group in list(getattr(c10d._world, "pg_map", {})):
        try:
            if group.size() > 1:
                numbers.append(int(group._get_sequence_number_for_group()))
        except (AttributeError, RuntimeError):
            numbers.append(UNCOUNTED)
    return tuple(numbers)

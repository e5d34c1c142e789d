# ruff: noqa: SLF001 - private names are this package's business
"""Compiles that neither use nor leave anything of the other compiles of this process.

Invariant: after the block, Dynamo holds no code that was compiled inside it, and its counters are as before.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.utils


@contextlib.contextmanager
def isolated_compiles() -> Iterator[None]:
    """Start without compiled code, and leave none. What was compiled before compiles again when it is next called."""
    before = _copied_counters()
    torch._dynamo.reset()
    try:
        yield
    finally:
        torch._dynamo.reset()
        _restore_counters(before)


def _counters() -> Any:
    return getattr(torch._dynamo.utils, "counters", None)


def _copied_counters() -> dict[str, collections.Counter[str]]:
    counters = _counters()
    return (
        {} if counters is None else {name: collections.Counter(counter) for name, counter in counters.items()}
    )


def _restore_counters(before: dict[str, collections.Counter[str]]) -> None:
    """Put the counts back into the counters that torch's modules hold."""
    counters = _counters()
    if counters is None:
        return
    for name in {*counters, *before}:
        counters[name].clear()
        counters[name].update(before.get(name, {}))

"""Fuselight's compiler side: a guest in the user's interpreter that needs torch and the standard library alone.

A program may use `fuselight.tuned_options` and the backend of torch.compile, `backend="fuselight"` (docs/replay.md).
"""

from __future__ import annotations

import os
from typing import Any

PACKAGE = os.path.dirname(os.path.abspath(__file__))
"""The folder of this package."""


def __getattr__(name: str) -> Any:
    """Import `tuned_options`, which needs torch, when it is first used."""
    if name == "tuned_options":
        from fuselight.replay.arguments import tuned_options  # noqa: PLC0415 - torch is imported with it

        return tuned_options
    raise AttributeError(f"module 'fuselight' has no attribute {name!r}")

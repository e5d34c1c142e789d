"""Fuselight's compiler side: a guest in the user's interpreter that needs torch and the standard library alone.

A program may use `fuselight.tuned_options` and the backend of torch.compile, `backend="fuselight"` (docs/replay.md).
A notebook may use `%load_ext fuselight` (docs/notebooks.md).
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


def load_ipython_extension(shell: Any) -> None:
    """Add the magics of notebooks: IPython calls this for `%load_ext fuselight`."""
    from fuselight.notebook import load  # noqa: PLC0415 - a worker has no use for it

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove them: IPython calls this for `%unload_ext fuselight`."""
    from fuselight.notebook import unload  # noqa: PLC0415 - the same

    unload(shell)

"""In the kernel of a notebook: records what torch.compile does there, and shows it below the cell that asks.

Invariant: the state of torch is the user's: nothing is reset unless the user asks, hooks run at compile time only, and
unloading removes all of it. An error in Fuselight never ends a cell. torch and IPython are imported by the user alone.
"""

from __future__ import annotations

from typing import Any

from fuselight.notebook.magics import Magics

_loaded: dict[int, Magics] = {}
"""The magics of each shell of this process, by `id`."""


def load(shell: Any) -> None:
    """Add the magics to a shell of IPython, and start recording."""
    unload(shell)
    magics = _loaded[id(shell)] = Magics(shell)
    magics.register()


def unload(shell: Any) -> None:
    """Remove the magics from a shell, and stop recording."""
    magics = _loaded.pop(id(shell), None)
    if magics is not None:
        magics.remove()

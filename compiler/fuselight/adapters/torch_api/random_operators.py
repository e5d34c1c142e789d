"""Operators that draw random numbers, and the places that call them.

Invariant: an operator counts only by torch's own tag; one without it is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MAX_PLACES = 64


class RandomOperatorCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, the places of operators that draw random numbers are kept, each once, in their order."""

    def __init__(self, where: Callable[[], Any]) -> None:
        """`where`: gives the place of the code that runs."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.places: dict[Any, str] = {}
        """The name of the first operator of each."""
        self._where = where

    def __torch_dispatch__(self, func: Any, _types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """Run an operator."""
        if torch.Tag.nondeterministic_seeded in func.tags and len(self.places) < MAX_PLACES:
            self.places.setdefault(self._where(), str(func.overloadpacket.__name__))
        return func(*args, **(kwargs or {}))

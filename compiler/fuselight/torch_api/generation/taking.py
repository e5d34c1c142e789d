"""The launches of a compiled graph as they are made, with what they are given, so that one can be made again alone.

Invariant: while launches are taken the graph computes what it does else; afterwards its module is as before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class TakenLaunch:
    """One launch of a generated kernel."""

    name: str
    again: Callable[[], object]
    """Launches it again, with the same arguments; what it changes in place, it changes again."""


class _Taking:
    """Stands for a kernel: notes each launch, and makes it."""

    def __init__(self, name: str, kernel: Any, note: Callable[[TakenLaunch], None]) -> None:
        self._name, self._kernel, self._note = name, kernel, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """A C++ kernel is called."""
        return self._made(self._kernel, args, named)

    def run(self, *args: Any, **named: Any) -> Any:
        """A Triton kernel is run."""
        return self._made(self._kernel.run, args, named)

    def _made(self, launch: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        self._note(TakenLaunch(self._name, lambda: launch(*args, **named)))
        return launch(*args, **named)


@contextlib.contextmanager
def taking_launches(module: ModuleType, names: Iterable[str]) -> Iterator[list[TakenLaunch]]:
    """Inside, launches of these kernels of a wrapper's module are noted in order, in the list that this gives."""
    taken: list[TakenLaunch] = []
    before = {name: vars(module)[name] for name in set(names) if name in vars(module)}
    for name, kernel in before.items():
        setattr(module, name, _Taking(name, kernel, taken.append))
    try:
        yield taken
    finally:
        for name, kernel in before.items():
            setattr(module, name, kernel)

"""Records the kernel launches of a compiled graph with their arguments, so that each can be repeated alone.

Invariant: recording does not change what the graph computes, and the module is restored afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from fuselight.torch_api.patching import patched


@dataclass(frozen=True)
class TakenLaunch:
    """One launch of a generated kernel."""

    name: str
    again: Callable[[], object]
    """Launches it again, with the same arguments; what it changes in place, it changes again."""


class _Taking:
    """Replaces a kernel: records each launch and forwards it."""

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
    """Record the launches of these kernels of a wrapper's module, in order, in the list that this yields."""
    taken: list[TakenLaunch] = []
    with contextlib.ExitStack() as stack:
        for name in set(names) & vars(module).keys():
            kernel = _Taking(name, vars(module)[name], taken.append)
            stack.enter_context(patched(module, name, kernel))
        yield taken

"""Which module of the target runs: by hooks in eager mode.

Invariant: hooks are removed at the end, as code that is compiled with them would be other code.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch


class ModuleStack:
    """The qualified names of the modules that run, the innermost last."""

    def __init__(self) -> None:
        self._names: list[str] = []

    @property
    def current(self) -> str:
        """The innermost module; empty for the target itself, and outside of it."""
        return self._names[-1] if self._names else ""

    @contextlib.contextmanager
    def following(self, module: torch.nn.Module | None) -> Iterator[None]:
        """Follow the modules inside `module`."""
        handles: list[Any] = []
        for name, part in module.named_modules() if module is not None else ():
            if name and not isinstance(part, torch.jit.ScriptModule):
                handles.append(
                    part.register_forward_pre_hook(functools.partial(self._enter, name), prepend=True)
                )
                handles.append(
                    part.register_forward_hook(functools.partial(self._leave, name), always_call=True)
                )
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._names.clear()

    def _enter(self, name: str, _module: torch.nn.Module, _args: Any) -> None:
        self._names.append(name)

    def _leave(self, name: str, _module: torch.nn.Module, _args: Any, _output: Any) -> None:
        while self._names and self._names.pop() != name:
            pass  # the recomputation of a checkpoint ends within modules that it does not leave


def owners(module: torch.nn.Module | None) -> dict[int, str]:
    """The qualified name of the module of each parameter and buffer, by the tensor's `id`; of a tied one, the first."""
    names: dict[int, str] = {}
    for name, part in module.named_modules() if module is not None else ():
        for tensor in (*part.parameters(recurse=False), *part.buffers(recurse=False)):
            names.setdefault(id(tensor), name)
    return names

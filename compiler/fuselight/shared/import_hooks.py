"""Calls a function immediately after a module is imported, without importing it."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

Around = Callable[[], "AbstractContextManager[object]"]


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then` once, immediately after the module `name` is imported, then removes itself.

    The module is executed within the context that `around` makes. A program that only asks where the module is, as
    `importlib.util.find_spec` does, imports nothing.
    """

    def __init__(self, name: str, then: Callable[[], None], around: Around = contextlib.nullcontext) -> None:
        self._name, self._then, self._around = name, then, around

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the import system's signature
        target: types.ModuleType | None = None,  # noqa: ARG002 - the same
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module as if this finder were not there, and wrap its loader."""
        if fullname != self._name or self not in sys.meta_path:
            return None
        place = sys.meta_path.index(self)
        del sys.meta_path[place]
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(place, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _NotifyingLoader(spec.loader, self._imported, self._around)
        return spec

    def withdraw(self) -> None:
        """Stop waiting for the module."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _imported(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._then()


class _NotifyingLoader(importlib.abc.Loader):
    def __init__(self, real: Any, then: Callable[[], None], around: Around) -> None:
        self._real, self._then, self._around = real, then, around

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        module: types.ModuleType | None = self._real.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        with self._around():
            self._real.exec_module(module)
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        parent, _, name = module.__name__.rpartition(".")
        if parent:  # the import machinery sets it after us, and what `then` imports needs it
            setattr(sys.modules[parent], name, module)
        self._then()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

"""The functions of Python's own as they were before any user code ran.

Invariant: user code may replace any function of Python's own, as tests do that mock them. They are saved before, and no
builtin is looked up to restore them.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from fuselight import PACKAGE
from fuselight.adapters.torch_api.dynamo import namespace_versions
from fuselight.shared.report import is_installed, is_user_file
from fuselight.worker.child.reads import loaded_outside
from fuselight.worker.processes.limits import SystemLimits

Replaced = list[tuple[dict[str, Any], str, Any, str]]
"""Namespace, name, the replacement, and the dotted name for a message."""

_SavedModule = tuple[str, dict[str, Any], dict[str, Any]]
"""Name, namespace, and the functions and classes in it."""
_ABSENT = object()
_FOR_MESSAGES = frozenset(
    {
        "builtins",
        "contextlib",
        "dataclasses",
        "enum",
        "functools",
        "json",
        "json.encoder",
        "os",
        "posixpath",
        "ntpath",
        "typing",
        "zlib",
    }
)
"""Modules whose functions run while a message is sent."""
# Bound before any user code runs.
getpid, exit_now = os.getpid, os._exit
_all, _map, _is = all, map, operator.is_


class _WatchedModules:
    """Modules whose functions and classes were saved."""

    def __init__(self, saved: Sequence[_SavedModule]) -> None:
        self._saved = saved
        self._versions = namespace_versions.version_reader(namespace for _, namespace, _ in saved)
        self._intact = self._versions()
        """The version of each namespace when it last had all that was saved."""

    def changed(self) -> list[_SavedModule]:
        """Those that have something else now."""
        changed: list[_SavedModule] = []
        index = 0
        for version in self._versions():
            if version is None or version != self._intact[index]:
                _, namespace, saved = self._saved[index]
                if _all(_map(_is, _map(namespace.get, saved), saved.values())):
                    self._intact[index] = version
                else:
                    changed.append(self._saved[index])
            index += 1  # noqa: SIM113 - `enumerate` may be user code by now
        return changed


class Originals:
    """The functions and classes of the standard library's modules that are loaded."""

    def __init__(self) -> None:
        self._saved: list[_SavedModule] = [
            (name, vars(module), {key: value for key, value in vars(module).items() if callable(value)})
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] in sys.stdlib_module_names and module is not None
        ]
        self._modules = {name: sys.modules[name] for name, _, _ in self._saved}
        self._modules.update(
            (name, module)
            for name, module in sys.modules.items()
            if name.partition(".")[0] in {"torch", "fuselight"}
        )
        self._saved_by_name = {saved[0]: saved for saved in self._saved}
        self._watched = _WatchedModules(self._saved)
        self._for_messages = _WatchedModules([saved for saved in self._saved if saved[0] in _FOR_MESSAGES])
        self._loaded = sys.modules
        self._version_of_loaded = namespace_versions.version_reader([sys.modules])
        self._intact = self._version_of_loaded()
        """The version of `sys.modules` when it last had all modules."""
        self._recursion_limit = sys.getrecursionlimit()
        self._limit_now, self._set_limit = sys.getrecursionlimit, sys.setrecursionlimit

    def save(self, module: str, name: str) -> None:
        """Save what a module has under a name now."""
        _, namespace, saved = self._saved_by_name[module]
        saved[name] = namespace[name]

    def restore(self, *, for_message: bool = False) -> Replaced:
        """Restore all originals, or those that a message to the host needs. Returns what user code had replaced."""
        if self._limit_now() < self._recursion_limit:
            self._set_limit(self._recursion_limit)
        replaced: Replaced = [] if for_message else self._restore_modules()
        for module, namespace, saved in (self._for_messages if for_message else self._watched).changed():
            for name, value in saved.items():
                result = namespace.get(name, _ABSENT)
                if result is not value:
                    namespace[name] = value
                    replaced.append((namespace, name, result, f"{module}.{name}"))
        return replaced

    def forget_modules(self, removed: Iterable[str]) -> None:
        """Restore none of these modules: files of the user's have their names."""
        for name in removed:
            self._modules.pop(name, None)

    def accept_modules(self) -> None:
        """Take `sys.modules` as it is: no user code has run, and what was removed is forgotten.

        To look for what is missing would copy the page of each module in a fork.
        """
        self._intact = self._version_of_loaded()

    def _restore_modules(self) -> Replaced:
        """Restore the entries of `sys.modules`; those of torch and ours alone count if all are changed."""
        replaced: Replaced = []
        loaded = sys.modules
        version = self._version_of_loaded() if loaded is self._loaded else None
        if version == self._intact and version != [None]:
            return replaced
        for name, module in self._modules.items():
            actual_module = loaded.get(name, _ABSENT)
            if actual_module is not module and not _has_file(actual_module):
                loaded[name] = module
                replaced.append((loaded, name, actual_module, f'sys.modules["{name}"]'))
        if not replaced and version is not None:
            self._intact = version
        return replaced

    @staticmethod
    def put_back(replaced: Replaced) -> None:
        """Undo `restore`: user code goes on with what it had."""
        for namespace, name, original, _ in replaced:
            if original is _ABSENT:
                namespace.pop(name, None)
            else:
                namespace[name] = original


def _has_file(module: object) -> bool:
    """Whether this is a module from a file: another one of the same name, or one that was imported again."""
    return isinstance(module, ModuleType) and getattr(module, "__file__", None) is not None


def names_of(replaced: Replaced, roots: Sequence[str]) -> tuple[str, ...]:
    """Return the dotted names that user code replaced, as `builtins.len`; torch and the recorder replace some too."""
    names = []
    for *_, original, name in replaced:
        code = getattr(original, "__code__", None)
        if code is None or (
            is_user_file(code.co_filename, roots) and not code.co_filename.startswith(PACKAGE)
        ):
            names.append(name)
    return tuple(names)


class Loaded:
    """The loaded modules, and their originals. A host reads them before its forks: in a fork, to read is to copy."""

    def __init__(self) -> None:
        self.modules = frozenset(sys.modules)
        self.last = next(reversed(sys.modules))
        """Name of the module that was imported last."""
        self.originals = Originals()
        self.outside = loaded_outside()
        self.limits = SystemLimits()
        self.torch_files = tuple(
            path
            for name in ("torch", "torch.version")
            if (path := getattr(sys.modules.get(name), "__file__", None))
        )

    def last_before(self, roots: Sequence[str]) -> str:
        """The last loaded module before those of the user; empty if a run with these roots may have others before it.

        A host has loaded packages, and a root may be inside of one.
        """
        is_users = is_user_file(getattr(sys.modules.get(self.last), "__file__", None) or "", roots)
        return "" if is_users or any(map(is_installed, roots)) else self.last

    @property
    def is_current(self) -> bool:
        """Whether nothing was imported since."""
        return len(sys.modules) == len(self.modules)

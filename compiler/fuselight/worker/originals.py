"""Python's own functions, saved before user code runs, which may replace any of them.

Invariant: `restore` and `put_back` look up no builtin and call nothing that user code can replace.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from fuselight.report.place import is_user_file

Replaced = list[tuple[dict[str, Any], str, Any, str]]
"""Namespace, name, the replacement, and the dotted name for a message."""

_ABSENT = object()


class Originals:
    """The functions and classes of the standard library's modules that are loaded."""

    def __init__(self) -> None:
        self._saved = [
            (name, vars(module), {key: value for key, value in vars(module).items() if callable(value)})
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] in sys.stdlib_module_names and module is not None
        ]
        self._recursion_limit = sys.getrecursionlimit()
        self._limit_now, self._set_limit = sys.getrecursionlimit, sys.setrecursionlimit

    def restore(self) -> Replaced:
        """Restore all originals. Returns what user code had replaced."""
        if self._limit_now() < self._recursion_limit:
            self._set_limit(self._recursion_limit)
        replaced: Replaced = []
        for module, namespace, saved in self._saved:
            for name, value in saved.items():
                found = namespace.get(name, _ABSENT)
                if found is not value:
                    namespace[name] = value
                    replaced.append((namespace, name, found, f"{module}.{name}"))
        return replaced

    @staticmethod
    def put_back(replaced: Replaced) -> None:
        """Undo `restore`: user code goes on with what it had."""
        for namespace, name, found, _ in replaced:
            if found is _ABSENT:
                namespace.pop(name, None)
            else:
                namespace[name] = found


def names_of(replaced: Replaced, roots: Sequence[str]) -> tuple[str, ...]:
    """Return the dotted names that user code replaced, as `builtins.len`; torch and the recorder replace some too."""
    return tuple(name for *_, found, name in replaced if _is_of_user(found, roots))


def _is_of_user(found: Any, roots: Sequence[str]) -> bool:
    code = getattr(found, "__code__", None)
    return code is None or is_user_file(code.co_filename, roots)

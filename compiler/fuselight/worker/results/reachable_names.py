"""The global names that a call can read, by the code of what it reaches.

Invariant: a name may be here that no call reads, and never the other way round: code that looks names up by their text,
as with `globals()[...]`, counts as reading every name.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

import torch

_NOT_USERS = ("torch", "builtins")
_BY_TEXT = frozenset({"globals", "vars", "eval", "exec", "getattr", "locals"})


class ReachableNames:
    """Names that are read by code which begins with what is called."""

    def __init__(self, reached: Iterable[Any], namespaces: Iterable[Mapping[str, Any]]) -> None:
        """`reached`: what is called, and its arguments; `namespaces`: globals of the user's files."""
        self._namespaces = list(namespaces)
        self._names: set[str] = set()
        self._seen: set[int] = set()
        self._pending = [code for value in reached for code in _codes_of(value)]
        while self._pending:
            self._read(self._pending.pop())

    def __contains__(self, name: str) -> bool:
        """Whether the call may read a global of this name."""
        return name in self._names or not _BY_TEXT.isdisjoint(self._names)

    def _read(self, code: CodeType) -> None:
        if id(code) in self._seen:
            return
        self._seen.add(id(code))
        self._pending += [part for part in code.co_consts if isinstance(part, CodeType)]
        for name in set(code.co_names) - self._names:
            self._names.add(name)
            for names in self._namespaces:
                if name in names:
                    self._pending += _codes_of(names[name])


def _codes_of(value: Any) -> Iterator[CodeType]:
    """The code of a function, of the methods of a class, and of those of an object's class. None of it runs."""
    if isinstance(value, types.FunctionType):
        yield from _codes_of_function(value)
    elif isinstance(value, types.MethodType):
        yield value.__func__.__code__
        yield from _codes_of(value.__self__)
    elif isinstance(value, functools.partial):
        yield from _codes_of(value.func)
    elif isinstance(value, torch.nn.Module):
        for kind in {type(module) for _, module in torch.nn.Module.named_modules(value)}:
            yield from _codes_of_class(kind)
    else:
        yield from _codes_of_class(value if isinstance(value, type) else type(value))


def _codes_of_function(function: types.FunctionType) -> Iterator[CodeType]:
    yield from _own_codes(function)
    for cell in function.__closure__ or ():  # what a decorator keeps
        with contextlib.suppress(ValueError):  # not assigned yet
            yield from _own_codes(cell.cell_contents)


def _codes_of_class(kind: type) -> Iterator[CodeType]:
    for base in kind.__mro__:
        if base.__module__.startswith(_NOT_USERS):
            continue
        for item in list(vars(base).values()):
            for accessor in (item.fget, item.fset) if isinstance(item, property) else (item,):
                yield from _own_codes(accessor)


def _own_codes(value: Any) -> Iterator[CodeType]:
    """The code of a function, a method, or what `staticmethod` and `classmethod` hold."""
    function = value.__func__ if isinstance(value, (types.MethodType, staticmethod, classmethod)) else value
    if isinstance(function, types.FunctionType):
        yield function.__code__
        yield from _own_codes(vars(function).get("__wrapped__"))

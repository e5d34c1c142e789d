"""What the user's program gives to torch.compile, by the names that a user can write: `Net`, `Trainer._step`.

Invariant: nothing is kept alive; an object that the program has dropped is found no more. A method and a callable
object are named by the class, a function by its qualified name without `<locals>`, as the calls that a run records are.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from fuselight.capture.dynamo.stacks import calling_frames
from fuselight.shared.inputs.records import arguments_of
from fuselight.shared.report import Location

MAX_ROOTS = 4096
"""Compiled functions and modules of one program that are distinguished."""
_CALL = "_call_impl"
"""The method of a module that `nn.Module.compile` compiles."""


@dataclass(frozen=True)
class CompiledRoot:
    """One function, method or module that the program has compiled."""

    name: str
    location: Location | None
    """The line that compiles it."""
    _callable: weakref.ref[Any]

    @property
    def callable(self) -> Any:
        """What the program calls; None once it is gone."""
        return self._callable()

    @property
    def original(self) -> Any:
        """What it compiles: a module, a bound method or a function; None once it is gone."""
        function = self._callable()
        return getattr(function, "_orig_mod", getattr(function, "_torchdynamo_orig_callable", function))


@dataclass
class CompiledRoots:
    """All that the program has compiled so far."""

    _roots: list[CompiledRoot] = field(default_factory=list)
    codes: set[CodeType] = field(default_factory=set)
    """The code objects of the functions and methods."""

    def note_compile(self, model: Any, compiled: Any) -> None:
        """Note what one torch.compile took and returned."""
        owner = getattr(model, "__self__", None)
        in_place = isinstance(owner, torch.nn.Module) and getattr(model, "__name__", "") == _CALL
        called, original = (owner, owner) if in_place else (compiled, model)
        name = name_of(original)
        if name is None or len(self._roots) >= MAX_ROOTS:
            return
        above = calling_frames(limit=1)
        try:
            root = CompiledRoot(name, above[-1] if above else None, weakref.ref(called))
        except TypeError:  # an object without weak references
            return
        self._roots.append(root)
        # torch puts a function of its own around one of its files, such as the wrapper of torch.no_grad().
        self.codes.update(code for code in map(_code_of, (original, root.original)) if code is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is compiled, each once, in the order of the compiles."""
        return tuple(dict.fromkeys(root.name for root in self._roots))

    def of_frame(self, code: CodeType, values: Mapping[str, Any]) -> CompiledRoot | None:
        """The root whose call a frame is, by its variables; the newest of several."""
        first = _first(code, values)
        wrapped = values.get("fn") if "fn" in code.co_freevars else None  # torch puts a frame around its own
        if code not in self.codes and not isinstance(first, torch.nn.Module) and wrapped is None:
            return None  # cheap
        return next(
            (root for root in reversed(self._roots) if _is_call(root, code, values, first, wrapped)), None
        )


def name_of(original: Any) -> str | None:
    """The name of a module's or a callable object's class, of a method or of a function; None for all else."""
    original = getattr(original, "_torchdynamo_orig_callable", getattr(original, "_orig_mod", original))
    if isinstance(original, torch.nn.Module):
        return type(original).__qualname__.replace(".<locals>", "")
    if isinstance(original, MethodType):
        return f"{type(original.__self__).__qualname__}.{original.__name__}".replace(".<locals>", "")
    is_object = isinstance(getattr(type(original), "__call__", None), FunctionType)  # noqa: B004 - of Python, not of C
    name = getattr(type(original) if is_object else original, "__qualname__", None)
    return name.replace(".<locals>", "") if isinstance(name, str) else None


def _is_call(root: CompiledRoot, code: CodeType, values: Mapping[str, Any], first: Any, wrapped: Any) -> bool:
    original = root.original
    if isinstance(original, torch.nn.Module):
        return original is wrapped or (original is first and code.co_name == "forward")
    if wrapped is not None and original == wrapped:
        return True
    if original is None or _code_of(original) is not code:
        return False
    if isinstance(original, MethodType):
        return original.__self__ is first
    return all(values.get(name, cell) is cell for name, cell in _closure(original))


def _first(code: CodeType, values: Mapping[str, Any]) -> Any:
    """The first argument of a call, also of a wrapper that takes any."""
    if code.co_argcount:
        return values.get(code.co_varnames[0])
    rest = (
        values.get(code.co_varnames[code.co_kwonlyargcount]) if code.co_flags & inspect.CO_VARARGS else None
    )
    return rest[0] if isinstance(rest, tuple) and rest else None


def _code_of(function: Any) -> CodeType | None:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code if isinstance(code, CodeType) and not isinstance(function, torch.nn.Module) else None


def _closure(function: Any) -> Iterator[tuple[str, Any]]:
    """The variables of a function's closure that have a value."""
    if not isinstance(function, FunctionType):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def call_of(
    root: CompiledRoot, code: CodeType, values: Mapping[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What the program called in a frame, and its arguments."""
    bound = isinstance(root.original, (torch.nn.Module, MethodType))
    args, kwargs = arguments_of(code, values, bound=bound and bool(code.co_argcount))
    is_wrapper = bound and not code.co_argcount and not isinstance(root.original, torch.nn.Module)
    return root.callable, tuple(args[1:] if is_wrapper else args), kwargs

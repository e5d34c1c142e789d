"""The function that a compiled frame runs: for a library's wrapper, the function that it wraps.

torch puts `wrap_inline.inner(*args, **kwargs)` around a module of its own and around a `functools.partial`, and
transformers decorates `forward` with wrappers of that kind. Invariant: a frame counts as a wrapper only if it accepts
any arguments and holds exactly one function, module or partial in its closure. A wrapper that the user wrote keeps its
own name; its arguments have the names of the wrapped function if `wrapped_function` finds one that gets them as they
are.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, MethodType
from typing import TypeVar

import torch

from fuselight.adapters.torch_api.dynamo import frames
from fuselight.capture.dynamo import stacks
from fuselight.capture.dynamo.wrapped_function import wrapped_function
from fuselight.shared.report import Guard, GuardCause, GuardFailure, Location, Mismatch, Symbol

_ANYTHING = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_BOXED = re.compile(rf"(?<![\w.])(?:(?P<local>L\[')?{frames.BOXED}(?(local)'\]))\[(?P<number>\d+)\]")
_POSITION = r"(?<![\w.]){}\[(\d+)\]"
_KEYWORD = r"(?<![\w.]){}\[(['\"])(\w+)\1\]"
_AS_A_WHOLE = (
    (re.compile(r"^args$"), "positional arguments"),
    (re.compile(r"^kwargs$"), "keyword arguments"),
    (re.compile(r"(?<![\w.])len\(args\)"), "the number of positional arguments"),
    (re.compile(r"(?<![\w.])len\(kwargs\)"), "the number of keyword arguments"),
    (re.compile(r"^kwargs(?= was )"), "the dict of keyword arguments"),
)
"""A wrapper's `*args` and `**kwargs` themselves, which the function that takes them has no names for."""


Sourced = TypeVar("Sourced", Guard, Symbol)


@dataclass(frozen=True)
class Callee:
    """The function of a frame, and its argument names if the frame has none."""

    function: str
    location: Location
    parameters: tuple[str, ...]
    positional: tuple[str, ...] = ()
    """The names that the wrapped function gives to `args[0]`, `args[1]`, ... of the wrapper."""
    module: str | None = None
    """The wrapper's variable for the module or callable object that it calls: `self` to that itself."""
    wrapper: Location | None = None
    """Location of the wrapper's code; None if the frame is the function itself."""
    wraps: Location | None = None
    """The `def` line of the function that a wrapper of the user's passes its arguments to."""
    wrapped: str = ""
    """The name of that function."""
    star: str = "args"
    """The wrapper's name for further positional arguments."""
    stars: str = "kwargs"
    """The wrapper's name for further keyword arguments."""
    partial: str = ""
    """The wrapper's variable for the `functools.partial` that it calls."""
    given: tuple[str, ...] = ()
    """The names of the arguments that the partial holds by position."""
    boxed: tuple[str, ...] = ()
    """The names of what a resume function takes over in one list."""

    @property
    def passes_on(self) -> bool:
        """Whether its arguments have other names where they come from: it is called by a wrapper."""
        return self.wrapper is not None or self.wraps is not None

    @property
    def inner_function(self) -> tuple[str, Location] | None:
        """The name and `def` line of the function that a wrapper calls; None if the frame is no wrapper's."""
        if self.wrapper is not None:
            return self.function, self.location
        return None if self.wraps is None else (self.wrapped, self.wraps)

    @property
    def has_other_names(self) -> bool:
        """Whether torch names its values in another way than the user's code."""
        return self.passes_on or bool(self.boxed)

    def in_its_words(self, text: str) -> str:
        """`args[0].size(0) was 16, now 12` as `input.size(0) was 16, now 12`."""
        text = self.unboxed(text)
        if not self.passes_on:
            return text
        if self.stars:
            text = re.sub(_KEYWORD.format(self.stars), r"\2", text)
        if self.star:
            text = re.sub(_POSITION.format(self.star), _name_of(self.positional), text)
        if self.partial:
            text = re.sub(_KEYWORD.format(rf"{self.partial}\.keywords"), r"\2", text)
            text = re.sub(_POSITION.format(rf"{self.partial}\.args"), _name_of(self.given), text)
        if self.wrapper is None:
            return text
        for pattern, words in _AS_A_WHOLE:
            text = pattern.sub(words, text)
        if self.module is None:
            return text
        return re.sub(rf"(?<![\w.]){self.module}(?=[.\[]|$)", "self", text)

    def unboxed(self, text: str) -> str:
        """`__resume_frame_values[1].size(0) == 4` as `x.size(0) == 4`."""
        return _BOXED.sub(self._taken_over, text) if self.boxed else text

    def _taken_over(self, match: re.Match[str]) -> str:
        """A value of the list by its name, in words of torch or in those of the user."""
        number = int(match["number"])
        if number >= len(self.boxed):
            return match[0]
        return f"L['{self.boxed[number]}']" if match["local"] else self.boxed[number]

    def mismatches(self, mismatches: tuple[Mismatch, ...]) -> tuple[Mismatch, ...]:
        """Failed guards with the callee's argument names; the expressions stay Dynamo's, but for a list of values."""
        if not self.has_other_names:
            return mismatches
        return tuple(
            replace(mismatch, failures=tuple(self._failure(failure) for failure in mismatch.failures))
            for mismatch in mismatches
        )

    def _failure(self, failure: GuardFailure) -> GuardFailure:
        return replace(
            failure,
            source=self.in_its_words(failure.source),
            code=self.unboxed(failure.code),
            difference=self.in_its_words(failure.difference),
            cause=GuardCause.ARGUMENTS if failure.source in {"args", "kwargs"} else failure.cause,
            sizes=tuple(replace(size, name=self.in_its_words(size.name)) for size in failure.sizes),
        )

    def sources(self, sourced: tuple[Sourced, ...]) -> tuple[Sourced, ...]:
        """Guards or symbolic sizes with the callee's argument names."""
        if not self.has_other_names:
            return sourced
        return tuple(replace(guard, source=self.in_its_words(guard.source)) for guard in sourced)


def _name_of(names: Sequence[str]) -> Callable[[re.Match[str]], str]:
    """The replacement of an argument's number by its name."""
    return lambda match: names[int(match[1])] if int(match[1]) < len(names) else match[0]


def callee_of(code: CodeType, f_locals: Mapping[str, object], roots: Sequence[str]) -> Callee:
    """The callee of a frame that is about to be compiled."""
    original = frames.original_code(code)
    plain = Callee(
        stacks.qualified_name(code),
        stacks.def_location(code),
        stacks.parameters(original),
        boxed=frames.boxed_values(code),
    )
    if stacks.is_user_code(original.co_filename, roots):
        return _with_wrapped_names(plain, original, f_locals)
    held = [
        name
        for name in code.co_freevars
        if isinstance(f_locals.get(name), (FunctionType, MethodType, torch.nn.Module, functools.partial))
    ]
    held = held or [name for name in code.co_freevars if _call_method(f_locals.get(name)) is not None]
    if original.co_flags & _ANYTHING != _ANYTHING or len(held) != 1:
        return plain
    method = _call_method(f_locals[held[0]])
    wrapped = method or f_locals[held[0]]
    partial = wrapped if isinstance(wrapped, functools.partial) else None
    wrapped = wrapped if partial is None else partial.func
    is_module = isinstance(wrapped, torch.nn.Module)
    function = inspect.unwrap(type(wrapped).forward if is_module else wrapped)  # type: ignore[attr-defined, arg-type]
    inner = getattr(function, "__code__", None)
    if inner is None:
        return plain
    # a module and a bound method come with their `self`, a decorated function takes it among what the wrapper passes on
    given = 1 if is_module or isinstance(wrapped, MethodType) else 0
    held_here = 0 if partial is None else len(partial.args)
    taken = original.co_argcount + given + held_here
    return Callee(
        type(wrapped).__name__ if is_module else stacks.qualified_name(inner),
        stacks.def_location(inner),
        stacks.parameters(inner),
        inner.co_varnames[taken : inner.co_argcount],
        held[0] if partial is None and (is_module or method is not None) else None,
        wrapper=plain.location,
        partial="" if partial is None else held[0],
        given=inner.co_varnames[given : given + held_here],
    )


def _call_method(value: object) -> MethodType | None:
    """What a call of an object runs, where its class defines that in Python."""
    call = getattr(type(value), "__call__", None)  # noqa: B004 - the function, to see whether it is one of Python's
    is_module = isinstance(value, torch.nn.Module)  # it runs `forward`
    return MethodType(call, value) if isinstance(call, FunctionType) and not is_module else None


def _with_wrapped_names(plain: Callee, code: CodeType, f_locals: Mapping[str, object]) -> Callee:
    """The callee of a function of the user's; one that passes its arguments on has the names of who gets them."""
    passed = wrapped_function(code, f_locals)
    if passed is None:
        return plain
    return replace(
        plain,
        parameters=passed.parameters,
        positional=passed.positional,
        wraps=stacks.def_location(passed.code),
        wrapped=stacks.qualified_name(passed.code),
        star=passed.star,
        stars=passed.stars,
    )

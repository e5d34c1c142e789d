"""Names that a test got wrong: errors that name the one that was probably meant.

Invariant: a call with right names is passed on unchanged, and its type is that of the function.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def unknown_name(place: str, name: str, known: Iterable[str]) -> str:
    """An error's text: `expect() has no `graph`. Did you mean `graphs`?`."""
    names = list(known)
    meant = _meant(name, names)
    return f"{place} has no `{name}`. " + (f"Did you mean `{meant}`?" if meant else f"Use {_listed(names)}.")


def _meant(name: str, known: list[str]) -> str | None:
    """The known name that is like this one, or like a word in it: `breaks` for `graph_breaks`."""
    words = name.lower().split("_")
    for text, cutoff in (
        (name.lower(), 0.8),
        *((word, 0.8) for word in reversed(words)),
        (name.lower(), 0.6),
    ):
        near = difflib.get_close_matches(text, known, 1, cutoff)
        if near:
            return near[0]
    return None


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def named_arguments(place: str, advice: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Explain wrong arguments of a method: an unknown name by the nearest, any others by `advice`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        known = [name for name, value in signature.parameters.items() if value.kind is value.KEYWORD_ONLY]

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            __tracebackhide__ = True
            problem = ""
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                unknown = next((name for name in kwargs if name not in signature.parameters), None)
                problem = unknown_name(place, unknown, known) if unknown else f"{place}: {error}. {advice}"
            if problem:
                raise TypeError(problem)
            return function(*args, **kwargs)

        return call

    return decorate

"""Directives that can be read and do not fit what they call: what is wrong, and what to write instead."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from typing import Any

import torch

from fuselight.shared.inputs import OPTIONS, Directive, DirectiveError
from fuselight.shared.inputs.corrections import nearest_name
from fuselight.shared.inputs.grammar import dtype_of

_MAX_NAMES = 8


def check_arguments(directive: Directive, function: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Find arguments that do not fit the callee before the call: the directive is then what is wrong."""
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return  # no signature: the call itself tells
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        names = list(signature.parameters)
        words = f"these arguments do not fit: {error}"
        unknown = next(
            (word for word in directive.call.keywords if f"argument '{word.arg}'" in str(error)), None
        )
        if unknown is not None and unknown.arg not in names:
            near = nearest_name(str(unknown.arg), [*names, *OPTIONS])
            start, end = directive.span(unknown)
            words += f", did you mean `{near}`?" if near else _takes(names)
            raise DirectiveError(words, start, end) from None
        if inspect.isfunction(function) and names[:1] == ["self"] and "." in function.__qualname__:
            owner = directive.source(directive.callee).rpartition(".")[0]
            words += f". `{owner}` is a class: write `{owner}()` for an object of it"
        else:
            words += _takes(names)
        start, end = directive.span(directive.call)
        callee_end = directive.span(directive.callee)[1]
        raise DirectiveError(words, max(start, callee_end), end) from None


def _takes(names: Sequence[str]) -> str:
    """What parameters a callee has, as the end of a message."""
    shown = ", ".join(names[:_MAX_NAMES]) + (", ..." if len(names) > _MAX_NAMES else "")
    return f"; it takes ({shown})"


def uncallable_words(directive: Directive, function: Any) -> str:
    """Why what a directive calls cannot be called."""
    kind = type(function).__name__
    if isinstance(directive.callee, ast.Call) and isinstance(function, torch.Tensor):
        return f"`{directive.source(directive.callee)}` is the call already, and its {kind} cannot be called again"
    return f"{kind} objects cannot be called"


def uncalled_words(directive: Directive, kind: type) -> str:
    """What to write for a directive that makes an object and does not call it."""
    call, name = directive.call, directive.source(directive.callee)
    inputs = [node for node in call.args if dtype_of(node) is not None or directive.is_scalar_tensor(node)]
    if inputs and len(inputs) == len(call.args) and not call.keywords:
        spelled = f"{name}({'...' if _required(kind) else ''})({', '.join(map(directive.source, inputs))})"
    else:
        spelled = f"{directive.text.rstrip()}(f32[4, 8])"
    return f"this makes a {kind.__name__} but does not call it: write `{spelled}`"


def _required(kind: type) -> list[str]:
    """The arguments without which an object of a class cannot be made."""
    try:
        parameters = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = (*positional, inspect.Parameter.KEYWORD_ONLY)
    return [
        item.name for item in parameters if item.kind in named and item.default is inspect.Parameter.empty
    ]

"""Records how a module was constructed, so that a recorded call can be repeated: `Net(dim=64)(f32[4, 64])`.

Invariant: has a cost only while a module of the user's is constructed, and keeps no module alive.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fuselight.shared.inputs.describe import describe_call, device_option
from fuselight.shared.report import is_user_file

MAX_CALLS = 500
"""Calls that one run records."""
_RESUMED = "torch_dynamo_resume_in_"


class ConstructorCalls:
    """Remembers the constructor call of each module whose class lies in one of `roots`."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = tuple(roots)
        self._texts: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._undo: Callable[[], None] | None = None

    def listen(self) -> None:
        """Begin to remember, until `stop`."""
        module: Any = importlib.import_module("torch.nn").Module
        is_compiling = importlib.import_module("torch.compiler").is_compiling
        real = module.__init__
        calls = self

        @functools.wraps(real)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands in for it
            real(self, *args, **kwargs)
            if (
                not is_compiling() and calls.listens
            ):  # a constant to Dynamo: what it traces is torch's own constructor alone
                calls.note(self, sys._getframe(1))  # noqa: SLF001 - the constructor that called us

        def undo() -> None:
            if (
                module.__init__ is __init__
            ):  # else another tool has wrapped it since, and ours stays without effect
                module.__init__ = real

        module.__init__ = __init__
        self._undo = undo

    @property
    def listens(self) -> bool:
        """Whether constructor calls are remembered now."""
        return self._undo is not None

    def stop(self) -> None:
        """Remember no more calls, and restore the constructor of `torch.nn.Module`."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def note(self, module: Any, frame: types.FrameType | None) -> None:
        """Read the arguments of the outermost constructor of `module` above `frame`."""
        outermost = None
        while frame is not None and frame.f_code.co_name == "__init__" and first_argument(frame) is module:
            outermost, frame = frame, frame.f_back
        if outermost is not None and is_user_file(outermost.f_code.co_filename, self._roots):
            self._texts[module] = _constructor_text(type(module).__qualname__, outermost)

    def text(self, module: Any) -> str | None:
        """Return the constructor call of `module`, None if it was not seen."""
        return self._texts.get(module)


def first_argument(frame: types.FrameType) -> Any:
    """Return the first argument of a call, None if it takes none."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def arguments_of(
    code: types.CodeType, values: Mapping[str, Any], *, bound: bool
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call of `code` whose variables are `values`; without the first one if `bound`."""
    count, at = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    args = [values[name] for name in code.co_varnames[int(bound) : count] if name in values]
    kwargs = {name: values[name] for name in code.co_varnames[count:at] if name in values}
    if code.co_flags & inspect.CO_VARARGS:
        args += values.get(code.co_varnames[at], ())
        at += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(values.get(code.co_varnames[at], {}))
    return args, kwargs


def _constructor_text(kind: str, frame: types.FrameType) -> str:
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    return describe_call(kind, (), {name: values[name] for name in names if name in values}, limit=1000)


def is_resumed(code: types.CodeType) -> bool:
    """Whether Dynamo wrote this code, to resume a function after a graph break: it is no call of the user's."""
    return code.co_name.startswith(_RESUMED)


def call_text(
    code: types.CodeType, f_locals: Mapping[str, Any], constructors: ConstructorCalls
) -> tuple[str, str]:
    """Write a call of `code` in directive notation. Returns the name of the target, and the text.

    A module whose constructor call was not seen appears as `<Net>`, which is no notation.
    """
    target = getattr(code, "co_qualname", code.co_name).replace(".<locals>", "")
    callee = target
    owner = owner_of(code, f_locals)
    if owner is not None:
        kind = type(owner).__qualname__
        target = kind if code.co_name == "forward" else f"{kind}.{code.co_name}"
        text = constructors.text(owner) or f"<{kind}>"
        callee = text if code.co_name == "forward" else f"{text}.{code.co_name}"
    return target, text_of_call(callee, code, f_locals)


def owner_of(code: types.CodeType, f_locals: Mapping[str, Any]) -> Any:
    """Return the object of a call of a method; None for a function."""
    names = code.co_varnames[: code.co_argcount]
    return f_locals.get(names[0]) if names and names[0] == "self" else None


def text_of_call(callee: str, code: types.CodeType, f_locals: Mapping[str, Any]) -> str:
    """Write a call of `callee` with the arguments and in the modes of a call of `code`."""
    owner = owner_of(code, f_locals)
    args, kwargs = arguments_of(code, f_locals, bound=owner is not None)
    device = device_option([*args, *kwargs.values()])
    modes = [*_modes(owner), *([device] if device is not None else [])]
    options = [mode for mode in modes if mode.partition("=")[0] not in code.co_varnames]
    return describe_call(callee, args, kwargs, limit=2000, exact=True, options=options)


def _modes(owner: Any) -> list[str]:
    """The modes of a call that is being compiled, as run options: those of a call without options are left out."""
    has_gradients = bool(importlib.import_module("torch").is_grad_enabled())
    trains = bool(getattr(owner, "training", False))
    if has_gradients and trains:
        return ["train=True"]
    return [*(["training=True"] if trains else []), *(["no_grad=False"] if has_gradients else [])]

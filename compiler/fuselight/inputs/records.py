"""How a module was made, so that a recorded call can be made again: `Net(dim=64)(f32[4, 64])`.

Invariant: costs something only while a module of the user's is constructed, and holds no module alive.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import types
import weakref
from collections.abc import Sequence
from typing import Any

from fuselight.inputs.describe import describe_call


class ConstructorCalls:
    """Remembers the constructor call of each module whose class lies in one of `roots`."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = tuple(root.rstrip(os.sep) + os.sep for root in roots)
        self._texts: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def listen(self) -> None:
        """Begin to remember, for as long as the process lives."""
        module: Any = importlib.import_module("torch.nn").Module
        is_compiling = importlib.import_module("torch.compiler").is_compiling
        real = module.__init__
        calls = self

        @functools.wraps(real)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands in for it
            real(self, *args, **kwargs)
            if not is_compiling():  # a constant to Dynamo: what it traces is torch's own constructor alone
                calls.note(self, sys._getframe(1))  # noqa: SLF001 - the constructor that called us

        module.__init__ = __init__

    def note(self, module: Any, frame: types.FrameType | None) -> None:
        """Read the arguments of the outermost constructor of `module` above `frame`."""
        outermost = None
        while frame is not None and frame.f_code.co_name == "__init__" and _first(frame) is module:
            outermost, frame = frame, frame.f_back
        if outermost is not None and outermost.f_code.co_filename.startswith(self._roots):
            self._texts[module] = _constructor_text(type(module).__qualname__, outermost)

    def text(self, module: Any) -> str | None:
        """Return the constructor call of `module`, None if it was not seen."""
        return self._texts.get(module)


def module_text(module: Any, calls: ConstructorCalls) -> str:
    """Write how `module` was made; `<Net>`, which is no notation, where that was not seen."""
    return calls.text(module) or f"<{type(module).__qualname__}>"


def _first(frame: types.FrameType) -> Any:
    names = frame.f_code.co_varnames
    return frame.f_locals.get(names[0]) if names else None


def _constructor_text(kind: str, frame: types.FrameType) -> str:
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames[1 : code.co_argcount]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    named = {name: values[name] for name in (*names, *keywords) if name in values}
    return describe_call(kind, (), named, limit=1000)

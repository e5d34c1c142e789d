# ruff: noqa: SLF001 - private names are this package's business
"""The frames that Dynamo traces, with their arguments: which of them fails, breaks, or does not come to an end.

Invariant: what `_compile` and `log_graph_break` do stays as it is, and they are torch's own again after the block.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CellType, CodeType
from typing import Any, Protocol

import torch
import torch._dynamo
import torch._dynamo.convert_frame
import torch._dynamo.symbolic_convert

from fuselight.adapters.torch_api.dynamo import errors, frames
from fuselight.adapters.torch_api.patching import wrapped

_RUN = torch._dynamo.symbolic_convert.InstructionTranslatorBase.run.__code__
"""What traces one function."""


@dataclass(frozen=True)
class TracedFrame:
    """A call that Dynamo traces: the code, and the values that it has at its start."""

    code: CodeType
    names: Mapping[str, Any]
    """Globals of the module."""
    arguments: Mapping[str, Any]
    """By parameter."""
    free: Mapping[str, Any]
    """Variables of functions around it."""
    is_whole: bool = False
    """Whether a graph break is an error (`fullgraph=True`)."""

    def passed(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of the call: those by position, and those by keyword."""
        code, given = self.code, self.arguments
        names, end = code.co_varnames, code.co_argcount + code.co_kwonlyargcount
        positional = [given.get(name) for name in names[: code.co_argcount]]
        named = {name: given.get(name) for name in names[code.co_argcount : end]}
        if code.co_flags & inspect.CO_VARARGS:
            positional += list(given.get(names[end]) or ())
            end += 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            named |= dict(given.get(names[end]) or {})
        return positional, named


class FrameListener(Protocol):
    """What `traced_frames` calls."""

    def frame_started(self, frame: TracedFrame) -> None:
        """Dynamo begins with a frame. Of what it resumes after a break, the frame is that of the whole function."""

    def frame_broke(self, reason: str, error: Any) -> None:
        """A graph ends early in the frame that started last."""

    def frame_ended(self, error: BaseException | None) -> None:
        """The compile of the frame that started last is over; an exception of this method ends the program."""


@contextlib.contextmanager
def traced_frames(listener: FrameListener) -> Iterator[None]:
    """Report frames to `listener` until the block ends."""
    known: dict[CodeType, TracedFrame] = {}

    def compile_(real: Callable[..., Any], code: CodeType, *args: Any, **kwargs: Any) -> Any:
        listener.frame_started(_started(known, code, args))
        error: BaseException | None = None
        try:
            return real(code, *args, **kwargs)
        except BaseException as raised:
            error = raised
            raise
        finally:
            # A frame that is skipped, as for a break in a loop, has come to its end, too.
            listener.frame_ended(None if isinstance(error, errors.CONTROL_FLOW) else error)
            error = None  # a local that holds an exception holds this frame

    def log_graph_break(
        real: Callable[..., Any], self: Any, code_options: Any, reason: str = "", exc: Any = None, **rest: Any
    ) -> Any:
        listener.frame_broke(reason, exc)
        return real(self, code_options, reason, exc, **rest)

    translator = torch._dynamo.symbolic_convert.InstructionTranslatorBase
    with contextlib.ExitStack() as stack:
        stack.enter_context(wrapped(torch._dynamo.convert_frame, "_compile", compile_))
        if hasattr(translator, "log_graph_break"):
            stack.enter_context(wrapped(translator, "log_graph_break", log_graph_break))
        yield


def traced_functions(thread: int) -> list[tuple[str, str]]:
    """File and name of the functions that Dynamo traces on a thread, outermost first; empty if it traces none."""
    functions: dict[int, tuple[str, str]] = {}
    running = sys._current_frames().get(thread)
    while running is not None:
        if running.f_code is _RUN:
            tracer = running.f_locals["self"]
            functions[id(tracer)] = tracer.f_code.co_filename, tracer.f_code.co_name
        running = running.f_back
    return list(reversed(functions.values()))


def _started(known: dict[CodeType, TracedFrame], code: CodeType, args: tuple[Any, ...]) -> TracedFrame:
    """The frame. After the code, `_compile` gets globals, locals, builtins, the closure, the compiler, `one_graph`."""
    original, whole = frames.original_code(code), 5
    is_whole = len(args) > whole and args[whole] is True
    if original is not code and original in known:
        return known[original]
    names, values = args[0], {name: _held(value) for name, value in dict(args[1]).items()}
    cells = args[3] if len(args) > 3 and isinstance(args[3], tuple) else ()  # noqa: PLR2004 - the closure
    free = dict(zip(code.co_freevars, map(_held, cells), strict=False))
    frame = known[original] = TracedFrame(original, names, values, free, is_whole)
    return frame


def _held(value: Any) -> Any:
    """What a cell holds; any other value itself."""
    if not isinstance(value, CellType):
        return value
    try:
        return value.cell_contents
    except ValueError:
        return None


def originally(value: Any) -> Any:
    """The function or module that was given to torch.compile, for what it returned; any other value itself."""
    for name in ("_torchdynamo_orig_callable", "_orig_mod"):
        try:
            inside = vars(value).get(name) or vars(value).get("_modules", {}).get(name)
        except TypeError:
            return value
        if inside is not None:
            return originally(inside)
    return value


def forget_breaks() -> None:
    """Have torch forget which graph breaks it has counted; `torch.compiler.reset` keeps them."""
    counters = getattr(importlib.import_module("torch._dynamo.utils"), "counters", None)
    if isinstance(counters, dict):
        counters.pop("graph_break", None)


def torch_place(error: BaseException) -> str:
    """The function of torch that raised an exception, as `_dynamo/variables/lists.py: call_method`; empty for none.

    Functions that only raise do not count.
    """
    folder = torch.__path__[0]
    own = (errors.exceptions.__file__, str(getattr(torch._dynamo.convert_frame, "__file__", "")))
    place, inner = "", getattr(error, "inner_exception", None) or error
    traceback = inner.__traceback__ or error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(folder) and code.co_filename not in own:
            place = f"{code.co_filename[len(folder) + 1 :]}: {code.co_name}"
        traceback = traceback.tb_next
    return place

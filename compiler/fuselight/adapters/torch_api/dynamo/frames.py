# ruff: noqa: SLF001 - private names are this package's business
"""Frames: those that Dynamo traces, those of Python above them, and the functions in which Dynamo resumes.

Invariant: only the code object, the line and the positions of a frame are read, never its
values; a translator and the hooks of a compile are found as values of Dynamo's own frames.
"""

from __future__ import annotations

import dis
import functools
import importlib
import itertools
import re
import traceback
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.convert_frame
import torch._dynamo.symbolic_convert
import torch._guards

CARRIED = re.compile(r"___stack\d+")
"""An argument of a resume function for a value that was on Python's stack at the break."""
BOXED = "__resume_frame_values"
"""The argument of a resume function that deletes a variable: the list of all that it takes over (torch 2.13)."""
RESUME = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d+)$")

Positions = dict[tuple[str, int, str], tuple["int | None", "int | None", "int | None"]]
"""File, line and function of a frame, to its column, end line and end column."""

_KEPT = "_fuselight_positions"


def current_compile_id() -> str | None:
    """The compile that is going on in this thread."""
    compile_id = torch._guards.CompileContext.current_compile_id()
    return None if compile_id is None else str(compile_id)


def has_guard_filter() -> bool | None:
    """Whether the program gave the compile that is going on a `guard_filter_fn`; None if that cannot be known.

    torch.compile takes it out of the options before a backend sees them. The frames of Dynamo that call the backend
    have it.
    """
    kind: Any = getattr(importlib.import_module("torch._dynamo.hooks"), "Hooks", ())
    for frame, _ in traceback.walk_stack(None):
        if frame.f_code.co_filename == torch._dynamo.convert_frame.__file__:
            hooks = frame.f_locals.get("hooks")
            if isinstance(hooks, kind):
                return getattr(hooks, "guard_filter_fn", None) is not None
    return None


def user_stack() -> list[Any]:
    """The traced frames at this moment, outermost first, as `traceback.FrameSummary`; empty outside a trace."""
    context = torch._guards.TracingContext.try_get()
    return [] if context is None else list(torch._guards.TracingContext.extract_stack())


def real_stack(error: BaseException) -> list[Any]:
    """The traced frames that an exception of Dynamo carries, outermost first."""
    stack = getattr(error, "real_stack", None)
    if not stack and isinstance(error, torch._dynamo.exc.InternalTorchDynamoError):
        # it stands for the exception that the tracer raised, and that one has the stack
        stack = getattr(error.__context__, "real_stack", None)
    innermost = getattr(error, "innermost_user_frame_summary", None)
    return list(stack or ([] if innermost is None else [innermost]))


def traced_codes() -> list[CodeType]:
    """The functions that the trace of this moment inlined; empty where this torch does not say."""
    context = torch._guards.TracingContext.try_get()
    return list(getattr(context, "traced_code", None) or ())


def root_code(translator: Any) -> CodeType:
    """The code object of the frame that is being compiled, for a translator of any depth in it."""
    code: CodeType = translator.output.root_tx.f_code
    return code


def checkpoint_line(translator: Any) -> int | None:
    """The line of the last place at which a translator's frame can be resumed; None where it has none."""
    line = getattr(getattr(translator, "current_speculation", None), "lineno", None)
    return line if isinstance(line, int) else None


def original_code(code: CodeType) -> CodeType:
    """The user's code object for that of a resume function; itself for any other."""
    module = importlib.import_module("torch._dynamo.resume_execution")
    cache = getattr(getattr(module, "ContinueExecutionCache", None), "generated_code_metadata", {})
    for _ in range(8):
        if code not in cache:
            return code
        code = cache[code].code
    return code


@functools.lru_cache(maxsize=1024)
def boxed_values(code: CodeType) -> tuple[str, ...]:
    """The names of what a resume function takes over in one list, as `("___stack0", "x")`; empty for any other code.

    Its first instructions take each item out, and store it in the variable whose value it is.
    """
    if BOXED not in code.co_varnames[: code.co_argcount]:
        return ()
    names: dict[int, str] = {}
    instructions = [item for item in dis.get_instructions(code) if item.opname != "EXTENDED_ARG"]
    for (load, index, read), then in zip(_runs(instructions, 3), instructions[3:], strict=False):
        if load.argval == BOXED and index.opname.startswith("LOAD_") and read.opname.startswith("BINARY_"):
            is_variable = then.opname == "STORE_FAST"
            number = int(index.argval)
            names.setdefault(number, str(then.argval) if is_variable else f"___stack{number}")
    return tuple(names.get(number, f"{BOXED}[{number}]") for number in range(max(names, default=-1) + 1))


def _runs(instructions: list[dis.Instruction], length: int) -> Iterator[tuple[dis.Instruction, ...]]:
    return zip(*(instructions[start:] for start in range(length)), strict=False)


def is_generated(code: CodeType) -> bool:
    """Whether Dynamo wrote this code object, in the place of a function of the user's."""
    return code in getattr(torch._dynamo.convert_frame, "orig_code_map", ())


def frames_above(start: FrameType) -> Iterator[FrameType]:
    """Python frames outside Dynamo, innermost first: everything above the frames of the compile that `start` is in."""

    def converts(frame: FrameType) -> bool:
        return frame.f_code.co_filename == torch._dynamo.convert_frame.__file__

    every = (frame for frame, _ in traceback.walk_stack(start))
    return itertools.dropwhile(converts, itertools.dropwhile(lambda frame: not converts(frame), every))


def own_limit(start: FrameType) -> int | None:
    """The argument `recompile_limit` of the torch.compile whose compile `start` is in; None if it has none."""
    for frame, _ in traceback.walk_stack(start):
        if frame.f_code.co_filename == torch._dynamo.convert_frame.__file__:
            converter: Any = frame.f_locals.get("self")
            if hasattr(converter, "_recompile_limit"):  # from torch 2.13 on
                limit = converter._recompile_limit
                return limit if isinstance(limit, int) else None
    return None


def traced_places(translator: Any) -> Iterator[tuple[str, int]]:
    """File and line at which a translator is, and those of the ones that inline it, innermost first."""
    while translator is not None:
        yield translator.f_code.co_filename, translator.lineno
        translator = getattr(translator, "parent", None)


def positions(error: BaseException | None, *translators: Any) -> Positions:
    """Where in its line each traced frame was, for a torch whose summaries of frames lack columns (2.11).

    By file, line and function. An inlined frame's translator is found in the traceback of the exception that ended it.
    """
    positions: Positions = dict(getattr(error, _KEPT, ()))
    for translator in (*_translators(error), *translators):
        at = getattr(getattr(translator, "current_instruction", None), "positions", None)
        if at is not None and at.lineno == translator.lineno:
            code = translator.f_code
            columns = (at.col_offset, at.end_lineno, at.end_col_offset)
            positions.setdefault((code.co_filename, translator.lineno, code.co_name), columns)
    return positions


def keep_positions(error: BaseException) -> None:
    """Keep on an exception what `positions` says of it: fullgraph=True raises it on without its traceback."""
    if any(getattr(frame, "colno", None) is None for frame in real_stack(error)):
        setattr(error, _KEPT, positions(error))


def _translators(error: BaseException | None) -> Iterable[Any]:
    """The translators among the receivers of a traceback's frames, innermost first."""
    kind = torch._dynamo.symbolic_convert.InstructionTranslatorBase
    out: list[Any] = []
    for frame, _ in traceback.walk_tb(None if error is None else error.__traceback__):
        receiver = frame.f_locals.get("self")
        if isinstance(receiver, kind) and not any(receiver is value for value in out):
            out.insert(0, receiver)
    return out

"""Finds the first call of a target in a program (the `__main__` block, or another file), to make the call itself.

Invariant: the program ends at that call, before the call runs. Nothing is compiled on the way: compiled code runs in
eager mode, so that the call can be intercepted.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.capture.calls.calls import PlannedCall, Prepared, module_of
from fuselight.capture.calls.programs import ProgramError
from fuselight.capture.calls.rungs import Answered, Silent, resolve
from fuselight.shared.inputs import Options, describe_call
from fuselight.shared.inputs.records import arguments_of, first_argument
from fuselight.shared.protocol import Target
from fuselight.shared.report import Location, Rung


class _CallReached(BaseException):
    """Raised in the user's code where it calls the target."""


@dataclass(frozen=True)
class Program:
    """What is run for its first call of a target."""

    words: str
    """As in messages: "the `__main__` block"."""
    path: str
    """Its file."""
    run: Callable[[Callable[[], bool]], object]
    """Runs it. It gets a function that says whether the call has been reached."""
    names: Callable[[], Mapping[str, Any]]
    """The names by which the target is known."""
    rung: Rung = Rung.MAIN
    line: int | None = None


def first_call(target: Target, program: Program) -> Answered:
    """Run a program up to its first call of the target. Raises Silent if it makes none."""
    reached: list[tuple[Prepared, Location | None]] = []

    def on_event(frame: types.FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or (code.co_name != "forward" and code.co_filename != target.path):
            return  # cheap, before the thorough test
        prepared = _call_of(target, frame, program.names())
        if prepared is not None:
            sys.setprofile(None)
            reached.append((prepared, _line_above(frame, program.path)))
            raise _CallReached

    before = sys.getprofile()
    try:
        with torch.compiler.set_stance("force_eager"), contextlib.suppress(_CallReached):
            sys.setprofile(on_event)
            program.run(lambda: bool(reached))
    except SystemExit:
        if not reached:
            raise Silent(f"{program.words} exits before it calls {target.name}") from None
    except ProgramError as why:
        raise Silent(str(why)) from None
    finally:
        sys.setprofile(before)
    if not reached:
        raise Silent(f"{program.words} does not call {target.name}")
    prepared, place = reached[0]
    text = describe_call(target.name, prepared.args, prepared.kwargs)
    return Answered(program.rung, program.line, (PlannedCall(text, place, lambda: prepared),))


def _call_of(target: Target, frame: types.FrameType, names: Mapping[str, Any]) -> Prepared | None:
    try:
        wanted = resolve(target, names)
    except Silent:
        return None  # not defined yet
    owner, is_forward = first_argument(frame), frame.f_code.co_name == "forward"
    if isinstance(wanted, torch.nn.Module):
        inner = getattr(wanted, "_orig_mod", wanted)
        return _prepared(wanted, frame, bound=True) if owner is inner and is_forward else None
    if inspect.isclass(wanted):
        is_target = isinstance(owner, torch.nn.Module) and _is_same(type(owner), wanted) and is_forward
        return _prepared(owner, frame, bound=True) if is_target else None
    if not _is_same_code(_code_of(wanted), frame.f_code):
        return None
    if "." in target.name and not isinstance(wanted, types.MethodType) and owner is not None:
        return _prepared(getattr(owner, target.name.rpartition(".")[2]), frame, bound=True)
    return _prepared(wanted, frame, bound=isinstance(wanted, types.MethodType))


def _is_same(kind: type, wanted: type) -> bool:
    """Whether two classes are one: a program may import the file under another name than ours."""
    if kind is wanted:
        return True
    files = [getattr(sys.modules.get(kind.__module__), "__file__", None) for kind in (kind, wanted)]
    return kind.__qualname__ == wanted.__qualname__ and files[0] is not None and files[0] == files[1]


def _is_same_code(code: types.CodeType | None, other: types.CodeType) -> bool:
    """As `_is_same`, for the code of functions."""
    if code is None or code is other:
        return code is not None
    place = (code.co_filename, code.co_firstlineno, code.co_name)
    return place == (other.co_filename, other.co_firstlineno, other.co_name)


def _code_of(function: Any) -> types.CodeType | None:
    function = getattr(function, "_torchdynamo_orig_callable", function)
    function = getattr(inspect.unwrap(function), "__func__", inspect.unwrap(function))
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def _prepared(function: Any, frame: types.FrameType, *, bound: bool) -> Prepared:
    args, kwargs = arguments_of(frame.f_code, frame.f_locals, bound=bound)
    module = module_of(function)
    trains = module is not None and module.training and torch.is_grad_enabled()
    return Prepared(function, tuple(args), kwargs, Options(train=trains))


def _line_above(frame: types.FrameType, path: str) -> Location | None:
    for above, line in traceback.walk_stack(frame.f_back):
        if above.f_code.co_filename == path:
            return Location(path, line, function=above.f_code.co_name)
    return None

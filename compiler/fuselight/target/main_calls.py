"""Finds the first call of a target in the file's `__main__` block, for a job that makes the call itself.

Invariant: the block ends at that call, before the call runs. Nothing is compiled on the way: compiled code runs in
eager mode, so that the call can be intercepted.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from fuselight.inputs import Options, describe_call
from fuselight.protocol import Target
from fuselight.report import Location, Rung
from fuselight.target.calls import PlannedCall, Prepared
from fuselight.target.rungs import Answered, Silent, resolve

_VARARGS, _VARKEYWORDS = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS


class _CallReached(BaseException):
    """Raised in the user's code where it calls the target."""


def first_call(target: Target, line: int | None, run_main: Callable[[], object]) -> Answered:
    """Run the `__main__` block up to its first call of the target. Raises Silent if it makes none."""
    reached: list[tuple[Prepared, Location | None]] = []

    def on_event(frame: types.FrameType, event: str, _: object) -> None:
        if event != "call" or not _may_be(target, frame.f_code):
            return
        prepared = _call_of(target, frame, vars(sys.modules["__main__"]))
        if prepared is not None:
            sys.setprofile(None)
            reached.append((prepared, _line_above(frame, target.path)))
            raise _CallReached

    before = sys.getprofile()
    try:
        with torch.compiler.set_stance("force_eager"), contextlib.suppress(_CallReached):
            sys.setprofile(on_event)
            run_main()
    except SystemExit:
        if not reached:
            raise Silent(f"the `__main__` block exits before it calls {target.name}") from None
    finally:
        sys.setprofile(before)
    if not reached:
        raise Silent(f"the `__main__` block does not call {target.name}")
    prepared, place = reached[0]
    text = describe_call(target.name, prepared.args, prepared.kwargs)
    return Answered(Rung.MAIN, line, (PlannedCall(text, place, lambda: prepared),))


def _may_be(target: Target, code: types.CodeType) -> bool:
    """Whether a frame of this code may be the target's: a cheap test before the thorough one."""
    return code.co_name == "forward" or code.co_filename == target.path


def _call_of(target: Target, frame: types.FrameType, names: Mapping[str, Any]) -> Prepared | None:
    """Return the call that this frame is, if it is one of the target."""
    try:
        wanted = resolve(target, names)
    except Silent:
        return None  # not defined yet
    owner = _first_argument(frame)
    if isinstance(wanted, torch.nn.Module):
        inner = getattr(wanted, "_orig_mod", wanted)
        return _prepared(wanted, frame, bound=True) if owner is inner and _is_forward(frame) else None
    if inspect.isclass(wanted):
        made = isinstance(owner, torch.nn.Module) and type(owner) is wanted and _is_forward(frame)
        return _prepared(owner, frame, bound=True) if made else None
    if _code_of(wanted) is not frame.f_code:
        return None
    if "." in target.name and not isinstance(wanted, types.MethodType) and owner is not None:
        return _prepared(getattr(owner, target.name.rpartition(".")[2]), frame, bound=True)
    return _prepared(wanted, frame, bound=isinstance(wanted, types.MethodType))


def _is_forward(frame: types.FrameType) -> bool:
    return frame.f_code.co_name == "forward"


def _code_of(function: Any) -> types.CodeType | None:
    function = getattr(function, "_torchdynamo_orig_callable", function)
    function = getattr(inspect.unwrap(function), "__func__", inspect.unwrap(function))
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def _first_argument(frame: types.FrameType) -> Any:
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def _prepared(function: Any, frame: types.FrameType, *, bound: bool) -> Prepared:
    code, values = frame.f_code, frame.f_locals
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    args = [values[name] for name in code.co_varnames[int(bound) : count]]
    kwargs = {name: values[name] for name in code.co_varnames[count : count + keywords]}
    at = count + keywords
    if code.co_flags & _VARARGS:
        args += values[code.co_varnames[at]]
        at += 1
    if code.co_flags & _VARKEYWORDS:
        kwargs.update(values[code.co_varnames[at]])
    module = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
    trains = isinstance(module, torch.nn.Module) and module.training and torch.is_grad_enabled()
    return Prepared(function, tuple(args), kwargs, Options(train=trains))


def _line_above(frame: types.FrameType, path: str) -> Location | None:
    above = frame.f_back
    while above is not None:
        if above.f_code.co_filename == path:
            return Location(path, above.f_lineno, function=above.f_code.co_name)
        above = above.f_back
    return None

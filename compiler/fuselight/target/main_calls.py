"""Finds the first call of a target in the file's `__main__` block, for a job that makes the call itself.

Invariant: the block ends at that call, before the call runs. Nothing is compiled on the way: compiled code runs in
eager mode, so that the call can be intercepted.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from fuselight.inputs import Options, describe_call
from fuselight.inputs.records import arguments_of, first_argument
from fuselight.protocol import Target
from fuselight.report import Location, Rung
from fuselight.target.calls import PlannedCall, Prepared, module_of
from fuselight.target.rungs import Answered, Silent, resolve


class _CallReached(BaseException):
    """Raised in the user's code where it calls the target."""


def first_call(target: Target, line: int | None, run_main: Callable[[], object]) -> Answered:
    """Run the `__main__` block up to its first call of the target. Raises Silent if it makes none."""
    reached: list[tuple[Prepared, Location | None]] = []

    def on_event(frame: types.FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or (code.co_name != "forward" and code.co_filename != target.path):
            return  # cheap, before the thorough test
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
        made = isinstance(owner, torch.nn.Module) and type(owner) is wanted and is_forward
        return _prepared(owner, frame, bound=True) if made else None
    if _code_of(wanted) is not frame.f_code:
        return None
    if "." in target.name and not isinstance(wanted, types.MethodType) and owner is not None:
        return _prepared(getattr(owner, target.name.rpartition(".")[2]), frame, bound=True)
    return _prepared(wanted, frame, bound=isinstance(wanted, types.MethodType))


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

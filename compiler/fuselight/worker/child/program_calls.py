"""Calls of what a program compiles, taken from the program itself, for jobs that repeat them.

The program runs in eager mode until the target has been called `MAX_LOOKED` times or it ends. Invariant: a call is
repeated with the objects of the program and in the modes of torch in which the program made it: gradients, autocast,
training. Containers are copied when the call begins, because the call may change them (`recorded_arguments`), and so
are gradients and what optimizers keep, which the program drops after a step (`training_state`).
"""

from __future__ import annotations

import contextlib
import dis
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType, FunctionType
from typing import Any

import torch

from fuselight.capture.calls.calls import PlannedCall, Prepared, module_of
from fuselight.capture.calls.rungs import Answered, Silent
from fuselight.shared.inputs import Options, describe_call
from fuselight.shared.inputs.records import arguments_of
from fuselight.shared.protocol import Target
from fuselight.shared.report import Location, Rung, is_user_file
from fuselight.worker.child.compiled_roots import CompiledRoot, CompiledRoots, call_of
from fuselight.worker.child.recorded_arguments import ArgumentCopier, CallModes, current_modes
from fuselight.worker.child.training_state import TrainingState

MAX_LOOKED = 8
"""Calls of the target that are looked at: the program runs up to the last of them."""
MAX_KEPT = 3
"""Calls that are repeated: the first two, and a later one with other shapes."""
_FIRST = 2


_Call = tuple[str, Any, tuple[Any, ...], dict[str, Any]]
"""Its name, what is called, and its arguments."""


class _Reached(BaseException):
    """Raised in the user's code where enough calls have been made."""


@dataclass
class ProgramCalls:
    """Collects the calls of one target while its program runs."""

    target: Target
    roots: CompiledRoots
    user_folders: tuple[str, ...]
    most_looked: int = MAX_LOOKED
    most_kept: int = MAX_KEPT
    _planned: list[PlannedCall] = field(default_factory=list)
    _shapes: set[str] = field(default_factory=set)
    _looked: int = 0
    _has_wrapper: bool = False
    _unkept: str = ""
    """Why a call cannot be repeated."""
    _running: dict[FrameType, _LiveCall] = field(default_factory=dict)
    """The calls that are kept and have not ended."""

    def collect(self, run_program: Callable[[], object], rung: Rung, line: int | None) -> Answered:
        """Run the program up to its last call that is wanted. Raises Silent if it makes none."""
        before = sys.getprofile()
        ended = ""
        try:
            with torch.compiler.set_stance("force_eager"), contextlib.suppress(_Reached):
                threading.setprofile(self._on_event)
                sys.setprofile(self._on_event)
                run_program()
        except SystemExit:
            ended = " before it exits"
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
            self._running.clear()
        if not self._planned:
            raise Silent(self._why_not(ended))
        return Answered(rung, line, tuple(self._planned))

    def _why_not(self, ended: str) -> str:
        names = self.roots.names
        if self._unkept:
            return f"{self.target.name}: {self._unkept}"
        if self.target.name.replace(".<locals>", "") in names:
            return f"the program compiles {self.target.name}, but does not call it{ended}"
        known = f"it compiles {', '.join(names[:5])}" if names else "it compiles nothing"
        return f"the program does not compile {self.target.name}: {known}{ended}"

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame in self._running:
            self._running.pop(frame).has_returned = _is_at_return(frame)
        code = frame.f_code
        is_wrapper = code.co_name == self._name and code not in self.roots.codes
        if event != "call" or not (is_wrapper or code.co_name == "forward" or code in self.roots.codes):
            return  # cheap, before the thorough test
        if self._looked >= self.most_looked or len(self._planned) >= self.most_kept:
            self._end()
            return
        values = dict(frame.f_locals)
        root = self.roots.of_frame(code, values)
        if root is not None and code in self.roots.codes and isinstance(root.original, torch.nn.Module):
            return  # a frame of torch around the module, whose `forward` is the call
        call: _Call | None = None
        if root is not None and self._is_wanted(root):
            call = (root.name, *call_of(root, code, values))
        elif is_wrapper:
            call = self._call_of_wrapper(frame, values)
        if call is None:
            return
        self._looked += 1
        try:
            self._keep(call, frame)
        except Exception as error:  # noqa: BLE001 - reading the user's objects may run the user's code
            self._unkept = f"its arguments cannot be copied ({type(error).__name__}: {error})"[:200]
        if len(self._planned) >= self.most_kept or self._looked >= self.most_looked:
            self._end()

    def _end(self) -> None:
        sys.setprofile(None)
        if threading.current_thread() is threading.main_thread():
            raise _Reached

    def _is_wanted(self, root: CompiledRoot) -> bool:
        at, target = root.location, self.target
        if root.name == target.name.replace(".<locals>", ""):
            return True
        is_there = at is not None and (at.path, at.line) == (target.path, target.line)
        return is_there and not self._has_wrapper  # its compiled part may be on the target's former line

    @property
    def _name(self) -> str:
        return self.target.name.rpartition(".")[2]

    def _call_of_wrapper(self, frame: FrameType, values: Mapping[str, Any]) -> _Call | None:
        """The call of a function of the target's name that compiles nothing itself, as one that a fix has split does.

        The compiled part then has another name and other arguments: the call that users make is that of the wrapper.
        """
        code, name = frame.f_code, self.target.name
        if code.co_filename != self.target.path or name in self.roots.names:
            return None
        owner = values.get(code.co_varnames[0]) if "." in name and code.co_argcount else None
        function = frame.f_globals.get(name) if owner is None else getattr(type(owner), self._name, None)
        if not isinstance(function, FunctionType) or function.__code__ is not code:
            return None
        if owner is not None and f"{type(owner).__qualname__}.{self._name}" != name:
            return None
        self._has_wrapper = True
        args, kwargs = arguments_of(code, values, bound=False)
        return name, function, tuple(args), kwargs

    def _keep(self, call: _Call, frame: FrameType) -> None:
        name, function, args, kwargs = call
        consumed = _iterators(args, kwargs)
        if consumed:
            self._unkept = (
                f"it is called with an iterator ({consumed}), which can be read only once: pass a list"
            )
            return
        text = describe_call(name, args, kwargs)
        if len(self._planned) >= _FIRST and text in self._shapes:
            return
        self._shapes.add(text)
        copier = ArgumentCopier()
        kept, modes = copier.keep_values((args, kwargs)), current_modes()
        state = TrainingState.of(function, (args, kwargs))
        live = self._running[frame] = _LiveCall(function, copier, kept, modes, state)
        self._planned.append(PlannedCall(text, _line_above(frame, self.user_folders), live.build))


@dataclass
class _LiveCall:
    """One call with the objects of the program."""

    function: Any
    copier: ArgumentCopier
    kept: Any
    modes: CallModes
    state: TrainingState
    has_returned: bool = False
    """Whether the call ended in the program without an exception."""

    def build(self) -> Prepared:
        args, kwargs = self.copier.fresh(self.kept)
        self.state.restore()
        module = module_of(self.function)
        trains = self.modes.grad and (module is None or module.training)
        return Prepared(
            self.function,
            args,
            kwargs,
            Options(train=trains),
            during=self.modes.active,
            is_live=True,
            has_returned=self.has_returned,
        )


def _is_at_return(frame: FrameType) -> bool:
    """Whether a frame that ends does so by a return: Python reports an exception as a return of None, too."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")


def _iterators(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The type of the first argument that a call uses up; empty if there is none."""
    values = (*args, *kwargs.values())
    return next((type(value).__name__ for value in values if isinstance(value, Iterator)), "")


def _line_above(frame: FrameType, folders: tuple[str, ...]) -> Location | None:
    for above, line in traceback.walk_stack(frame.f_back):
        if is_user_file(above.f_code.co_filename, folders):
            return Location(above.f_code.co_filename, line, function=above.f_code.co_name)
    return None

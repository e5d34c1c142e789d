"""One run of a generated program: in this process, which is a fork that has torch, or as a user runs it.

Invariant: a program shows the fault only if it ends with exit status 1 and the words for it; what rounding explains in
eager mode is not one.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import linecache
import math
import os
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo.traced_frames import forget_breaks, torch_place
from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.torch_api.rounding_noise import RoundingNoise
from fuselight.capture.calls.tensors import tensors_in
from fuselight.shared.protocol import ScriptRequest
from fuselight.shared.report import (
    MARK,
    TIMEOUT,
    UNLESS_EAGER,
    Report,
    Reproduction,
    ScriptOutcome,
    ScriptState,
)
from fuselight.shared.report.failure import first_line
from fuselight.shared.script_end import HIDDEN, NAME, outcome_of_end
from fuselight.worker.child.request_results import RequestResult
from fuselight.worker.child.state import RunState

_NOISES = 3
_LOOK_EVERY = 0.1
_WAITS = 6
_AS_FAR = 0.25
"""As in measure/accuracy/rounding.py."""
_NEAR = 1e-6
_WORDS = 2000
_NO_END = ScriptOutcome(ScriptState.ERROR, "it did not end")


@dataclass
class ScriptResult(RequestResult):
    """What the program showed."""

    outcome: ScriptOutcome = _NO_END

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult."""
        return replace(report, reproduction=Reproduction(outcome=self.outcome))


def run_script(state: RunState) -> None:
    """Run the program of the request."""
    request = state.job.request
    if not isinstance(request, ScriptRequest):
        raise TypeError(f"{type(request).__name__} has no program")
    result = state.result = ScriptResult()
    path = os.path.join(state.job.directory, NAME)
    with open(path, "w", encoding="utf-8") as file:
        file.write(request.script)
    with state.step("script", NAME):
        if request.fresh:
            result.outcome = _in_own_process(path, request)
        else:
            result.outcome = _in_this_process(path, request)


def _in_own_process(path: str, request: ScriptRequest) -> ScriptOutcome:
    """The outcome of `python repro.py`, which sees nothing of this process but its environment."""
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    command = [sys.executable, path, *request.arguments]
    folder = os.path.dirname(path)
    ended = subprocess.run(  # noqa: S603 - our own text
        command, capture_output=True, text=True, env=environment, cwd=folder, check=False
    )
    folders = (f"{folder}{os.sep}", f"{os.path.dirname(torch.__path__[0])}{os.sep}")
    return outcome_of_end(ended.returncode, ended.stderr, ended.stdout, folders)


def _in_this_process(path: str, request: ScriptRequest) -> ScriptOutcome:
    outcome = _executed(path, request.script, request.arguments)
    if outcome.state is not ScriptState.FAULT or UNLESS_EAGER not in request.script:
        return outcome
    plain = _executed(
        path, request.script, ("eager",)
    )  # smaller programs may fail without compiled code, too
    if plain.state is ScriptState.RIGHT:
        return outcome
    return ScriptOutcome(ScriptState.ERROR, plain.text or "it fails without compiled code")


def _executed(path: str, script: str, arguments: Sequence[str]) -> ScriptOutcome:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = [path, *arguments]
    torch.compiler.reset()
    forget_breaks()
    lines = script.splitlines(keepends=True)
    linecache.cache[path] = (len(script), None, lines, path)  # Dynamo and the program may read it
    try:
        with settings.inductor_without_workers(), _timed():
            exec(compile(script, path, "exec"), vars(main))  # noqa: S102 - our own text
    except SystemExit as ended:
        words = str(ended.code)
        if not words.startswith(MARK):
            state = ScriptState.ERROR if ended.code else ScriptState.RIGHT
            return ScriptOutcome(state, words)
        cause = ended.__context__
        outcome = _looked_at(vars(main), words.removeprefix(MARK)[:_WORDS])
        return replace(outcome, place=torch_place(cause) if cause is not None else "")
    except _TooLongError:
        return ScriptOutcome(ScriptState.FAULT, TIMEOUT)
    except Exception as error:  # noqa: BLE001 - a part of a graph may be what eager mode cannot run
        return ScriptOutcome(ScriptState.ERROR, f"{type(error).__name__}: {first_line(error)}"[:_WORDS])
    return ScriptOutcome(ScriptState.RIGHT)


class _TooLongError(BaseException):
    """A program takes longer than it gives itself."""


@contextlib.contextmanager
def _timed() -> Iterator[None]:
    """Have the time limit of a program end the program and not the process.

    The limit is processor time, because a machine may be busy; a program that waits gets some times as much.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    over = threading.Event()

    def watch(seconds: float) -> None:
        start, began = time.process_time(), time.monotonic()
        while not over.wait(_LOOK_EVERY):
            if time.process_time() - start > seconds or time.monotonic() - began > _WAITS * seconds:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_TooLongError))
                return

    def later(seconds: float, **_: Any) -> None:
        threading.Thread(target=watch, args=(seconds,), daemon=True).start()

    try:
        with patched(faulthandler, "dump_traceback_later", later):
            yield
    finally:
        over.set()


def _looked_at(names: dict[str, Any], words: str) -> ScriptOutcome:
    """A fault, or why it is none: eager mode moves as far by other rounding."""
    eager, compiled = tensors_in(names.get("eager")), tensors_in(names.get("compiled"))
    if not eager or len(eager) != len(compiled):
        return ScriptOutcome(ScriptState.FAULT, words)
    distances = [_distance(ours, theirs) for ours, theirs in zip(compiled, eager, strict=True)]
    differing = tuple(index for index, distance in enumerate(distances) if distance > _NEAR)
    if not differing:
        return ScriptOutcome(ScriptState.FAULT, words)
    moved = [0.0] * len(eager)
    for seed in range(_NOISES):
        try:
            other = tensors_in(names["call"](functools.partial(_rounded, names["f"], seed)))
        except Exception:  # noqa: BLE001 - an operator that cannot be run with other rounding
            break
        if len(other) != len(eager):
            break
        moved = [max(far, _distance(*pair)) for far, *pair in zip(moved, other, eager, strict=True)]
    if all(moved[index] >= _AS_FAR * distances[index] for index in differing):
        return ScriptOutcome(ScriptState.ROUNDING, words, differing)
    return ScriptOutcome(ScriptState.FAULT, words, differing)


def _rounded(function: Callable[..., Any], seed: int, *args: Any) -> Any:
    """Call a function with other rounding; its arguments were made without."""
    with RoundingNoise(seed):
        return function(*args)


def _distance(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The root mean square difference by the size of the expected tensor; infinite where kinds or places differ."""
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return math.inf
    mine, other = (tensor.detach().cpu().to(torch.complex128).reshape(-1) for tensor in (ours, theirs))
    is_same = (mine == other) | ~(mine.isinf() | other.isinf())
    places = (mine.isnan() & other.isnan()) | (is_same & (mine.isnan() == other.isnan()))
    if not bool(places.all()):
        return math.inf
    finite = mine.isfinite() & other.isfinite()
    if not bool(finite.any()):
        return 0.0
    size = float(other[finite].abs().square().mean().sqrt()) or 1.0
    return float((mine[finite] - other[finite]).abs().square().mean().sqrt()) / size

"""Failures that end a run early: culprit, location, and next step.

Invariant: every message is one line that names the culprit, and every failure has a next step. Stacks hold user and
library frames only, not ours or torch's.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fuselight import PACKAGE
from fuselight.shared.inputs import UserCallError
from fuselight.shared.inputs.corrections import tensor_lookalikes
from fuselight.shared.protocol import (
    AccuracyRequest,
    GraphsRequest,
    MeasureRequest,
    OutputsRequest,
    RunRequest,
    Target,
    TuneRequest,
    VerifyRequest,
)
from fuselight.shared.report import Call, Culprit, Failure, Location, Note, Stack, is_user_file
from fuselight.shared.report.failure import LONGEST, first_line, safe_text
from fuselight.shared.report.visible import visible

if TYPE_CHECKING:
    from fuselight.capture.calls.calls import PlannedCall
    from fuselight.capture.calls.refused_calls import EagerAttempt
    from fuselight.capture.calls.rungs import DirectiveFault

INTERNAL = 70
"""Exit status of a child that failed by itself (`EX_SOFTWARE`)."""

OUT_OF_MEMORY = 71
"""Exit status of a child that had no memory to build the target (`EX_OSERR`)."""

_CORRECT_DIRECTIVE = "correct the inputs in the directive, or the code that refuses them"
_ONLY_COMPILED = (
    "The same call works without torch.compile (tried). Put torch.compiler.disable on this function."
)
_REFUSED_BY_OPERATOR = "TorchRuntimeError"
"""Type of the exception by which torch.compile reports that an operator refused fake tensors."""

_WITHOUT_FAKE = re.compile("no fake impl")
"""In the messages by which torch says that an operator has no fake implementation."""

_INTERNAL_ERROR = "InternalTorchDynamoError"
_RESTORE = "restore what the code replaces before the compiled call, or do not replace it"
_NAMED_AS_OURS = ("fuselight.py", os.path.join("fuselight", "__init__.py"))
_OURS = PACKAGE + os.sep


def user_stack(error: BaseException, roots: Sequence[str]) -> Stack:
    """Read the frames of an exception that are not ours, outermost first."""
    return stack_of(traceback.extract_tb(error.__traceback__), roots)


def stack_of(frames: Sequence[traceback.FrameSummary], roots: Sequence[str]) -> Stack:
    """Keep the frames that are useful to the user."""
    return tuple(
        Location(
            frame.filename,
            frame.lineno or 1,
            getattr(frame, "colno", None),
            getattr(frame, "end_lineno", None),
            getattr(frame, "end_colno", None),
            function=frame.name,
        )
        for frame in frames
        if is_shown(frame.filename, roots)
    )


def with_unknown_values(failure: Failure, unknown: str) -> Failure:
    """`failure` of the user's code, which may come from values that are not those of a GPU; `unknown` says which."""
    if not unknown or failure.culprit is not Culprit.USER or failure.kind != "exception":
        return failure
    doubt = f"It may come from values that are not those of a GPU: {unknown}."
    return replace(failure, next_step=f"{doubt} {failure.next_step}".rstrip())


def is_ours(path: str) -> bool:
    """Whether a frame of `path` is of Fuselight, or of what Python itself runs a program with."""
    return path.startswith((_OURS, "<"))


def is_shown(path: str, roots: Sequence[str]) -> bool:
    """Whether a frame of `path` is useful to the user: user code, or a library other than torch."""
    if is_ours(path):
        return False
    library = f"{os.sep}torch{os.sep}" in path and "site-packages" in path
    return is_user_file(path, roots) or not (library or path.startswith(sys.base_prefix + os.sep))


def note_exit(report: Callable[[int, types.FrameType], None]) -> None:
    """Make `os._exit` call `report` with the status and the caller's frame first. Nothing else can detect that call.

    The process ends whatever `report` raises: a fork of user code must never return into the host's code.

    Dynamo traces into the replacement and breaks at the real `os._exit` inside it, with the same message as without us;
    `stacks.from_summaries` removes our frame.
    """
    import torch  # noqa: PLC0415 - takes a second

    from fuselight.adapters.torch_api.dynamo import targets  # noqa: PLC0415 - the same

    really, caller = os._exit, sys._getframe  # noqa: SLF001 - the one way to the line that calls it

    def _exit(status: int) -> None:
        try:
            if not traced():
                report(status, caller(1))
        finally:
            really(status)

    # Dynamo skips this frame: the form that it traces reports nothing.
    skipped = targets.skip_frames(_exit.__code__)
    traced: Callable[[], bool] = torch.compiler.is_dynamo_compiling if skipped else lambda: False
    os._exit = _exit  # type: ignore[assignment]


def exit_failure(status: object, stack: Stack, *, call: int | None, phase: str) -> Failure:
    """Describe a run whose code called `sys.exit` or `os._exit`."""
    shown = "0" if status is None else safe_text(status, 80)
    step = 'keep what ends a program under `if __name__ == "__main__":`, out of what the target imports and calls'
    if phase == "main":
        step = (
            "if the program needs arguments, write them after `--`: `fuselight check PROGRAM -- ARGS`; in an editor, "
            "record it with them first: `fuselight run PROGRAM ARGS`"
        )
    return Failure(
        Culprit.USER,
        "exit",
        f"the code ended the process with exit status {shown}{_during(phase)}",
        step,
        exception="SystemExit",
        stack=stack,
        call=call,
        phase=phase,
    )


def ended_early(done: BaseException, roots: Sequence[str]) -> Note:
    """Note where the `__main__` block of a run on save was ended, as its calls compiled nothing new."""
    stack = user_stack(done, roots)
    where = f" at line {stack[0].line}" if stack else ""
    text = f"this run on save ended{where}, where further calls compiled nothing new"
    return Note("ended_early", text, stack[0] if stack else None)


def without_aot(graphs: int) -> Note:
    """Note that some graphs of a program were too large to be traced by AOTAutograd as well."""
    what = "1 graph was" if graphs == 1 else f"{graphs:,} graphs were"
    text = f"{what} captured by TorchDynamo alone, because AOTAutograd takes long for large ones"
    return Note("without_aot", f"{text}: `fuselight run` shows what it specializes or refuses")


def replaced_failure(failure: Failure, names: Sequence[str], target: Target) -> Failure:
    """Describe a failure of torch or Fuselight in a process where user code had replaced functions of Python's own."""
    shown = ", ".join(f"`{name}`" for name in names[:3]) + (" and others" if len(names) > 3 else "")  # noqa: PLR2004
    return replace(
        failure,
        culprit=Culprit.USER,
        kind="exception",
        message=f"the code replaced {shown}, which torch.compile and Fuselight need: {failure.message}",
        next_step=_RESTORE,
        stack=failure.stack or (Location(target.path, target.line, function=target.name),),
        gb_id=None,
    )


def shadowed_failure(failure: Failure, error: BaseException, folders: Sequence[str]) -> Failure | None:
    """Describe an import of a module of the user's with our name; None where that is not what failed."""
    if not isinstance(error, (ImportError, AttributeError)) or "fuselight" not in failure.message:
        return None
    files = (os.path.join(folder, name) for folder in folders for name in _NAMED_AS_OURS)
    own = next((path for path in files if os.path.isfile(path) and not path.startswith(_OURS)), None)
    if own is None:
        return None
    shown = (
        os.path.basename(own) if own.endswith("fuselight.py") else os.path.join("fuselight", "__init__.py")
    )
    return replace(
        failure,
        culprit=Culprit.USER,
        kind="import",
        message=f"the code imports its own `{shown}`, but Fuselight's package has that name: {failure.message}",
        next_step=f"rename `{shown}`: a run of Fuselight always imports its own package under this name",
    )


CORRECT_DIRECTIVE = (
    "correct the directive: write a Python call, with tensors as `f32[4, 8]` "
    "(docs/inputs.md lists the notation)"
)
CORRECT_REFERENCE = (
    "correct `reference=`: it names a function of this file that takes the inputs of the call and returns the tensors "
    "that the target returns (docs/triton.md)"
)


def directive_failure(
    fault: DirectiveFault, *, call: int | None, next_step: str = CORRECT_DIRECTIVE
) -> Failure:
    """Describe a directive that is wrong."""
    return Failure(
        Culprit.USER,
        "inputs",
        fault.message,
        next_step,
        stack=(fault.location,),
        call=call,
        phase="build",
        directive_line=fault.location.line,
    )


def may_be_of_inputs(failure: Failure) -> bool:
    """Whether a call may have failed for its inputs: its code, or an operator in it, raised an exception.

    Some releases of torch raise what the code raised while it was traced as an internal error of the tracer.
    """
    if failure.exception == _INTERNAL_ERROR:
        return failure.culprit is Culprit.COMPILER
    is_of_code = failure.culprit is Culprit.USER and failure.kind == "exception"
    return is_of_code and failure.next_step != _RESTORE


def with_eager(
    failure: Failure,
    eager: EagerAttempt,
    planned: PlannedCall,
    roots: Sequence[str],
    raised: BaseException | None = None,
) -> Failure:
    """Describe the failure of a directive's call, now that the same call was made without torch.compile.

    `raised`: the exception of the failure.
    """
    if failure.exception == _INTERNAL_ERROR:
        kind = type(eager.error).__name__
        message = f"{kind}: {first_line(eager.error)}" if eager.error is not None else ""
        if not message or message not in failure.message:
            return failure
        failure = replace(failure, culprit=Culprit.USER, kind="exception", message=message, exception=kind)
    if eager.error is None:
        if failure.handler is not None:
            return replace(failure, handler=replace(failure.handler, is_tried=True))
        if failure.exception != _REFUSED_BY_OPERATOR:
            return replace(failure, next_step=_ONLY_COMPILED)
        return _on_fake_tensors(failure, raised, roots)
    failure = replace(failure, handler=None)
    place = planned.location
    if eager.refusal and place is not None:
        return replace(
            failure,
            kind="inputs",
            message=eager.refusal,
            next_step=_CORRECT_DIRECTIVE,
            exception=None,
            stack=(*user_stack(eager.error, roots), place),
            directive_line=place.line,
        )
    step = "The call fails without torch.compile, too. Correct this line"
    if place is not None:
        step += f", or the inputs in the directive on line {place.line}"
        lookalike = next(tensor_lookalikes(planned.text), None)
        step += ": it passes `{}`, and a tensor is written as `{}`".format(*lookalike) if lookalike else ""
    return replace(failure, next_step=_other_error(failure, eager.error, roots) or f"{step}.")


def _on_fake_tensors(failure: Failure, raised: BaseException | None, roots: Sequence[str]) -> Failure:
    """Describe what an operator raised on the fake tensors with which torch.compile runs it, and only on them."""
    works = "The same call works without torch.compile"
    while raised is not None and type(raised).__module__.startswith("torch._dynamo"):
        raised = raised.__cause__ or raised.__context__
    if raised is None or _WITHOUT_FAKE.search(safe_text(raised)):
        step = (
            f"{works}: an operator on this line lacks a fake (meta) implementation. Register one with "
            "torch.library.register_fake."
        )
        return replace(failure, next_step=step)
    inner = user_stack(raised, roots)
    if not inner:
        step = (
            f"{works} (tried): only the code by which torch finds the shapes of the result refuses these inputs. Put "
            "torch.compiler.disable on this function."
        )
        return replace(failure, next_step=step)
    place = inner[-1]
    is_users = is_user_file(place.path, roots)
    where = "this line" if is_users else f"line {place.line} of {os.path.basename(place.path)}"
    step = (
        f"{works} (tried). torch.compile runs {where} with fake tensors, which have shapes and dtypes, but no values, "
        "and are of a class of their own. "
    )
    step += (
        "Have the line accept them."
        if is_users
        else "Put torch.compiler.disable on the function that calls it."
    )
    return replace(failure, next_step=step, stack=(*failure.stack, *inner))


def _other_error(failure: Failure, error: Exception, roots: Sequence[str]) -> str:
    """What to do where the call without torch.compile raises another exception; empty if it is the same.

    It is the same if it comes from the same line and has the same type, or the failure names it: an exception of an
    operator is wrapped into one of torch.compile.
    """
    raised = _user_line(user_stack(error, roots), roots)
    line = _user_line(failure.stack, roots)
    kind = type(error).__name__
    if raised is None or line is None:
        return ""
    what = f"`{kind}: {first_line(error)}`"
    if (raised.path, raised.line) != (line.path, line.line):
        file = "" if raised.path == line.path else f" of {os.path.basename(raised.path)}"
        return (
            f"Without torch.compile, the call fails on line {raised.line}{file}: {what}. Correct that line first. "
            "This line fails under torch.compile, whether or not that line is correct."
        )
    if kind == failure.exception or kind in failure.message or failure.exception == _REFUSED_BY_OPERATOR:
        return ""
    return f"Without torch.compile, the call fails on this line, too, with {what}. Correct both."


def _user_line(stack: Stack, roots: Sequence[str]) -> Location | None:
    """The innermost line of the user's files."""
    return next((place for place in reversed(stack) if is_user_file(place.path, roots)), None)


def not_repeatable(failure: Failure, eager: EagerAttempt) -> Failure:
    """Describe the failure of a call that returned in the program, now that it was made without torch.compile."""
    if eager.error is None:
        return failure
    return replace(
        failure,
        culprit=Culprit.FUSELIGHT,
        kind="internal",
        message=f"the call cannot be repeated alone: {type(eager.error).__name__}: {first_line(eager.error)}",
        next_step=_NAME_A_CALL,
        exception=None,
        handler=None,
    )


_NAME_A_CALL = (
    "The call returned in the program and fails here without torch.compile, too: it needs a state that the program had "
    "only then. Write a call that needs none as a `# fuselight:` comment above it, or name another target."
)


def build_failure(error: UserCallError, planned: PlannedCall, request: RunRequest, *, call: int) -> Failure:
    """Describe an exception of the code that a directive calls, on the user's line if it got there."""
    from fuselight.capture.calls.refused_calls import unfit_argument  # noqa: PLC0415 - the same
    from fuselight.capture.dynamo import failure_of  # noqa: PLC0415 - loads torch

    cause = error.__cause__ or error
    failure = failure_of(cause, roots=request.roots, call=call, phase="build")
    line = planned.location.line if planned.location else None
    refusal = unfit_argument(cause)
    if refusal and planned.location is not None:
        return replace(
            failure,
            kind="inputs",
            message=refusal,
            next_step=_CORRECT_DIRECTIVE,
            exception=None,
            stack=(*failure.stack, planned.location),
            directive_line=line,
        )
    if user_stack(cause, request.roots) or planned.location is None:
        return replace(failure, directive_line=line)
    place = planned.location
    column = place.column or 0
    span = Location(place.path, place.line, column + error.start, place.line, column + error.end)
    return replace(
        failure,
        kind="inputs",
        culprit=Culprit.USER,
        message=f"{type(cause).__name__}: {first_line(cause)}",
        next_step="correct the arguments of this call in the directive",
        stack=(span,),
        directive_line=line,
    )


def no_inputs(target: Target, reasons: Sequence[str], example: str) -> Failure:
    """Describe a target for which no rung of the ladder answers; `example` is a call as a directive writes it."""
    why = f": {'; '.join(reasons)}" if reasons else ""
    return Failure(
        Culprit.USER,
        "inputs",
        f"no inputs are known for {target.name}{why}"[:1000],
        f"write a directive above it, as `# fuselight: {example}`, or a function example_inputs()",
        stack=(Location(target.path, target.line, function=target.name),),
        phase="build",
    )


def whole_program(target: Target) -> Failure:
    """Describe a job that repeats a call, for a `__main__` block from which no single call is known."""
    return Failure(
        Culprit.USER,
        "inputs",
        "the `__main__` block is a whole program: only a call of a class or function can be repeated and compared",
        "name a class or function, and write above it how it is called, as `# fuselight: Net()(f32[4, 8])`",
        stack=(Location(target.path, target.line),),
        phase="build",
    )


def no_program_calls(target: Target, why: str) -> Failure:
    """Describe a target of which the program has no call that can be repeated."""
    return Failure(
        Culprit.USER,
        "inputs",
        why,
        "write a call as a `# fuselight:` comment above it, or name another target",
        stack=(Location(target.path, target.line),),
        phase="main",
    )


def descriptors_failure(request: RunRequest, phase: str, call: int | None, calls: Sequence[Call]) -> Failure:
    """Describe a run whose code closed descriptors that it had not opened, on the line of the current call.

    The line that closed them is unknown: a replacement of `os.close` would be traced and guarded as user code, and by
    the time the pipe's other end notices, the run has moved on.
    """
    place = Location(request.target.path, request.target.line, function=request.target.name)
    if call is not None and calls[call].location is not None:
        place = calls[call].location or place
    return Failure(
        Culprit.USER,
        "descriptors",
        f"the code closed file descriptors that it had not opened{_during(phase)}",
        "close only what the program opened; nothing was lost here, but progress is no longer shown",
        stack=(place,),
        call=call,
        phase=phase,
    )


def needs_values(request: RunRequest) -> bool:
    """Whether a run makes no sense on fake tensors: nothing fake can be timed or compared."""
    return isinstance(request, _NEEDS_VALUES)


def less_memory(request: RunRequest) -> str:
    """What makes a run need less memory: a directive of its inputs can ask for fake tensors, and a program has none."""
    if request.target.kind in {"main", "call"} or not request.target.name:
        return "use smaller sizes in the program (`fuselight memory` estimates which lines hold most)"
    return "use smaller inputs" + ("" if needs_values(request) else ", write fake=True in the directive")


def signal_failure(
    number: int, request: RunRequest, stack: Stack, phase: str | None, last: Location | None
) -> Failure:
    """Describe a run that a signal ended. `last` is its last known position, used if there is no stack."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    crash = number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
    step = (
        "a native library crashed: run the same call without torch.compile to see whether it does so there, too"
        if crash
        else f"if the system ran out of memory, {less_memory(request)}, or free memory on this machine"
    )
    return _ended("signal", f"the process died of {name}", step, stack=stack, phase=phase, last=last)


def timeout_failure(
    seconds: float,
    stack: Stack,
    phase: str | None,
    last: Location | None,
    *,
    setting: str = "fuselight.limits.seconds",
) -> Failure:
    """Describe a run that exceeded the time limit of a setting. `last` is its last known position."""
    step = f"use smaller inputs, or raise the setting `{setting}`"
    what = f"killed after {round(seconds, 1) or seconds:g} s"
    return _ended("timeout", what, step, stack=stack, phase=phase, last=last)


def memory_failure(
    request: RunRequest,
    stack: Stack,
    phase: str | None,
    last: Location | None,
    *,
    limit_mb: int | None = None,
) -> Failure:
    """Describe a run that exceeded its memory limit. `last` is its last known position.

    `limit_mb`: of a process of the run that has another limit.
    """
    step = f"{less_memory(request)}, or raise the setting `fuselight.limits.memoryMb`"
    what = f"killed for using more than {limit_mb or request.limits.memory_mb} MB"
    return _ended("memory", what, step, stack=stack, phase=phase, last=last)


def system_memory_failure(request: RunRequest, phase: str | None, last: Location | None) -> Failure:
    """Describe a run that the system ended because the machine had no memory left. `last` is as above."""
    step = f"{less_memory(request)}, or free memory on this machine"
    what = "killed by the system, which had no memory left"
    return _ended("memory", what, step, stack=(), phase=phase, last=last)


_NEEDS_VALUES = (AccuracyRequest, GraphsRequest, MeasureRequest, OutputsRequest, TuneRequest, VerifyRequest)


def _ended(
    kind: str, what: str, step: str, *, stack: Stack, phase: str | None, last: Location | None
) -> Failure:
    """A run that did not end by itself, where it was when it was ended."""
    where = _during(phase)
    if stack:
        where = f" at {os.path.basename(stack[-1].path)}:{stack[-1].line}"
    elif last is not None:
        where += f"; last seen at {os.path.basename(last.path)}:{last.line}"
    place = stack or ((last,) if last else ())
    return Failure(Culprit.USER, kind, f"{what}{where}", step, stack=place, phase=phase)


def internal_failure(text: str) -> Failure:
    """Describe an internal failure."""
    last = text.strip().splitlines()[-1] if text.strip() else "the run ended without an answer"
    return Failure(
        Culprit.FUSELIGHT,
        "internal",
        visible(last[:500]),
        "report it with the command Fuselight: Report a Problem; the log has the details",
        traceback=visible(text[-LONGEST:]),
    )


def _during(phase: str | None) -> str:
    words = {
        "import": " while the file was imported",
        "build": " while the target was built",
        "call": " in the call",
        "trace": " in the call",
        "main": " in the __main__ block",
        "program": " in the program that gives the inputs",
    }
    return words.get(phase or "", "")


def lost_failure() -> Failure:
    """Describe a run that ended normally but whose answer is missing."""
    return Failure(
        Culprit.FUSELIGHT,
        "damaged_answer",
        "the run's answer is lost: the folder where it was put is gone, or is full",
        "have the code leave alone what it did not make in the folder for temporary files, or make room there",
    )

"""The program's side of `fuselight run`: runs a user's script like `python SCRIPT ARGS`, with the recorder active.

Invariant: the program cannot detect it, but for variables that the processes it starts need. argv, `sys.path[0]`,
`__main__`, streams, exit code and fatal signal are those of a plain run, its own backend compiles, and none of our code
runs outside of a compile, of a fork, of an import before the first compile, and of the moment when a module gets or
loses a hook, no thread and no signal handler either. The recorder starts when torch's compiler is first imported. The
report is replaced after each compile, so that it exists however the program ends.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib.machinery
import io
import os
import runpy
import signal
import sys
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fuselight.adapters.environment import environment, versions
from fuselight.shared import import_times
from fuselight.shared.codec import decode
from fuselight.shared.import_hooks import AfterImport
from fuselight.shared.incremental_json import GrowingJson
from fuselight.shared.inputs.records import MAX_CALLS, ConstructorCalls, call_text, is_resumed
from fuselight.shared.report import (
    Call,
    Failure,
    Imports,
    Inputs,
    Location,
    Problem,
    Recorded,
    Report,
    Rung,
    TargetRef,
    Tier,
    Versions,
    is_user_file,
)
from fuselight.worker.child import run_failures
from fuselight.worker.child.started_processes import StartedProcesses
from fuselight.worker.processes import process

if TYPE_CHECKING:
    from fuselight.capture.dynamo import Recorder

_STARTED_IN = os.getcwd()


def main(arguments: Sequence[str]) -> int:
    """Run the program that `arguments` name. Returns its exit code; a fatal signal also ends this process."""
    options = _options(arguments)
    started = StartedProcesses(os.path.abspath(options.processes)) if options.processes else None
    session = _Session(options.report, options.root or [os.getcwd()], options.program[0], started)
    try:
        with session:
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            return _run(options.program, session)
    except KeyboardInterrupt as error:  # while the last report is written
        return _end_by_interrupt(error)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuselight run", allow_abbrev=False)
    parser.add_argument("--report", required=True, help="file to write the report to")
    parser.add_argument("--root", action="append", help="folder whose files are the user's")
    parser.add_argument("--processes", help="folder for what the processes record that the program starts")
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:at])
    options.program = words[at + 1 :]
    if options.program in ([], ["-m"]):
        parser.error("expected -- SCRIPT [ARGS] or -- -m MODULE [ARGS]")
    return options


def _run(program: Sequence[str], session: _Session) -> int:
    """Run the script or module; prints its exceptions as Python does."""
    try:
        if program[0] == "-m":
            sys.argv = ["-m", *program[2:]]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            run_script(program)
    except SystemExit:
        raise  # the interpreter's own way to the exit code
    except KeyboardInterrupt as error:
        return _end_by_interrupt(error)
    except BaseException as error:  # noqa: BLE001 - a plain run ends on any of them with its traceback and 1
        session.failed(error)
        _print_exception(error)
        return 1
    return 0


def _end_by_interrupt(error: BaseException) -> int:
    """Print the traceback and end by the signal, as Python does: the parent process must see it."""
    _print_exception(error)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    process.flush_output()
    os.kill(os.getpid(), signal.SIGINT)
    return 130


def run_script(program: Sequence[str]) -> None:
    """Run a script as `python SCRIPT ARGS` does. Raises what it raises."""
    script = program[0]
    sys.argv = list(program)
    if not os.path.exists(script):
        what = (
            f"can't open file {os.path.abspath(script)!r}: [Errno {errno.ENOENT}] {os.strerror(errno.ENOENT)}"
        )
        print(f"{sys.executable}: {what}", file=sys.stderr)  # noqa: T201 - as Python itself says it, and ends
        raise SystemExit(2)
    if os.path.isdir(script):
        runpy.run_path(script, run_name="__main__")
        return
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    script = os.path.abspath(script)  # as Python itself does for __file__, but not for argv
    module = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", script)
    module.__dict__.update(
        __file__=script, __loader__=loader, __spec__=None, __builtins__=sys.modules["builtins"]
    )
    sys.modules["__main__"] = module
    with io.open_code(script) as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - running the user's script is what was asked for


def _print_exception(error: BaseException) -> None:
    """Print a traceback without our frames, through the program's own hook if it has set one."""
    shown = _skipped(error.__traceback__, lambda path: run_failures.is_shown(path, ()))
    if shown is None:  # the program is a part of torch, such as its launcher
        shown = _skipped(error.__traceback__, lambda path: not run_failures.is_ours(path))
    error.__traceback__ = shown
    sys.excepthook(type(error), error, shown)


def _skipped(
    trace: types.TracebackType | None, is_first: Callable[[str], bool]
) -> types.TracebackType | None:
    """The traceback from the first frame on whose file is what is asked for."""
    while trace is not None and not is_first(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


class _Session:
    """The recording of one program, from start to end."""

    def __init__(
        self, report: str, roots: Sequence[str], script: str, started: StartedProcesses | None = None
    ) -> None:
        self._started = started
        self._path = os.path.abspath(report)
        self._roots = tuple(os.path.abspath(root) for root in roots)
        self._script = os.path.abspath(script)
        self._pid = os.getpid()
        self._recorder: Recorder | None = None
        self._calls: list[Call] = []
        self._recorded: dict[Recorded, None] = {}
        self._problems: list[Problem] = []
        self._failures: tuple[Failure, ...] = ()
        self._constructors = ConstructorCalls(self._roots)
        self._json = GrowingJson()
        self._versions: Versions | None = None
        self._times = import_times.install()
        self._imports: Imports | None = None
        self._finders = (
            AfterImport("torch", self._listen, contextlib.nullcontext if started is None else started.hidden),
            AfterImport("torch._dynamo", self._enter),
        )

    def __enter__(self) -> _Session:  # noqa: PYI034 - `Self` is younger than Python 3.10
        sys.meta_path[:0] = self._finders
        self._times.begin_program()
        return self

    def __exit__(self, *exc: object) -> None:
        self._write()

    def _listen(self) -> None:
        """Record constructor calls: torch has just been imported."""
        with self._times.paused():
            self._constructors.listen()
            if self._started is not None:
                self._started.record_import()

    def _enter(self) -> None:
        """Start recording: torch's compiler has just been imported."""
        if os.getpid() != self._pid:
            return  # a process that the program forked writes its own log
        try:
            with self._times.paused():
                from fuselight.capture.dynamo import Recorder  # noqa: PLC0415 - torch, which was imported by now

            recorder = Recorder(roots=self._roots, on_call=self._called, on_compiled=self._write)
            recorder.__enter__()  # stays active until the process ends
            self._recorder = recorder
        except Exception as error:  # noqa: BLE001 - the program goes on as if we were not there
            why = f"{type(error).__name__}: {error}"
            self._problems.append(Problem("dynamo", "the program could not be recorded", why))

    def failed(self, error: BaseException) -> None:
        """Record the exception that ends the program, which compiled code or a launcher may have raised."""
        if self._started is not None:
            self._started.record_failure(error)
        if os.getpid() != self._pid or self._recorder is None:
            return
        from fuselight.capture.dynamo import failure_of  # noqa: PLC0415 - torch, which has been imported by now

        failure = failure_of(error, roots=self._roots, phase="main", nodes=self._recorder.nodes)
        if failure.kind == "memory":
            from fuselight.worker.child.tensor_holders import with_holders  # noqa: PLC0415 - torch, as above

            failure = with_holders(failure, error, self._roots)
        self._failures = (failure,)

    def _called(self, code: types.CodeType, f_locals: Mapping[str, object]) -> None:
        """Record the inputs of a call that is being compiled."""
        if os.getpid() != self._pid:
            return
        if self._imports is None:
            self._note_imports()
        if is_resumed(code) or len(self._calls) >= MAX_CALLS:
            return
        if not run_failures.is_shown(code.co_filename, self._roots):
            return
        target, text = call_text(code, f_locals, self._constructors)
        caller = _caller(code, self._roots)
        self._calls.append(Call(len(self._calls), text, caller))
        self._recorded.setdefault(Recorded(_absolute(code.co_filename), target, code.co_firstlineno, text))

    def _note_imports(self) -> None:
        """Keep what the program has imported: it begins to compile, or has ended."""
        data = self._times.stop_and_report()
        if data is not None:
            self._imports = decode(Imports, data)

    def _write(self) -> None:
        """Replace the report. Dynamo compiles one frame at a time, so writes do not race."""
        if os.getpid() != self._pid or (self._recorder is None and not self._problems):
            return  # a process that the program forked, or nothing to report
        try:
            folder, name = os.path.split(self._path)
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=name)  # mode 0600
            try:
                with open(handle, "wb") as file:
                    file.write(self._json.dump(self._report()))
                os.replace(temporary, self._path)
            except BaseException:
                os.unlink(temporary)
                raise
        except Exception as error:  # noqa: BLE001 - the program must not fail for our report
            if not any(
                problem.stage == "report" for problem in self._problems
            ):  # a full disk fails at each compile
                self._problems.append(Problem("report", "the report could not be written", str(error)))

    def _report(self) -> Report:
        if self._versions is None:
            self._versions = versions()
        report = Report(
            versions=self._versions,
            target=TargetRef(self._script, "", 1, "main"),
            tier=Tier.CAPTURE,
            generation=0,
            inputs=Inputs(Rung.PROGRAM, self._script, None, tuple(self._calls)),
            environment=environment(),
            problems=tuple(self._problems),
            roots=self._roots,
            recorded=tuple(self._recorded),
            imports=self._imports,
        )
        if self._recorder is None:
            return report
        parts = vars(self._recorder.parts())
        problems = (*parts["problems"], *report.problems)
        return replace(report, **{**parts, "problems": problems, "failures": self._failures})


def _absolute(path: str) -> str:
    """The path of a code object's file; that of the script is as the user typed it."""
    return path if path.startswith("<") else os.path.normpath(os.path.join(_STARTED_IN, path))


def _caller(code: types.CodeType, roots: Sequence[str]) -> Location | None:
    """Find the user's line that made the call."""
    from fuselight.adapters.torch_api.dynamo import frames  # noqa: PLC0415 - torch, which has been imported by now

    for frame in frames.frames_above(sys._getframe(1)):  # noqa: SLF001 - where we are
        place = frame.f_code
        path = _absolute(place.co_filename)
        if place is not code and is_user_file(path, roots):
            return Location(path, frame.f_lineno, function=place.co_name)
    return None

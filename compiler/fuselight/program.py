"""The program's side of `fuselight run`: a user's script run as `python SCRIPT ARGS`, with the recorder listening.

Invariant: the program cannot tell. argv, `sys.path[0]`, `__main__`, streams, exit code and the signal it dies of are
those of a plain run, its own backend compiles, and outside of a compile nothing of ours runs, no thread and no signal
handler either: the recorder is entered when torch's compiler is first imported, and the report is put in place after
each compile, so that it is there however the program ends.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import runpy
import signal
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fuselight.environment import environment, versions
from fuselight.growing import GrowingJson
from fuselight.inputs import describe_call
from fuselight.inputs.records import ConstructorCalls, module_text
from fuselight.report import (
    Call,
    Inputs,
    Location,
    Problem,
    Recorded,
    Report,
    Rung,
    TargetRef,
    Tier,
    Versions,
)
from fuselight.worker import endings

if TYPE_CHECKING:
    from fuselight.dynamo import Recorder

_MAX_CALLS = 500
_STARTED_IN = os.getcwd()
_RESUMED = "torch_dynamo_resume_in_"


def main(arguments: Sequence[str]) -> int:
    """Run the program that `arguments` name. Returns its exit code; a signal that ends it ends this process."""
    options = _options(arguments)
    session = _Session(options.report, options.root or [os.getcwd()], options.program[0])
    with session:
        return _run(options.program)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuselight run", allow_abbrev=False)
    parser.add_argument("--report", required=True, help="file to write the report to")
    parser.add_argument("--root", action="append", help="folder whose files are the user's")
    own, separator, program = _parted(arguments)
    options = parser.parse_args(own)
    if not separator or not program or program == ["-m"]:
        parser.error("expected -- SCRIPT [ARGS] or -- -m MODULE [ARGS]")
    options.program = program
    return options


def _parted(arguments: Sequence[str]) -> tuple[list[str], bool, list[str]]:
    words = list(arguments)
    if "--" not in words:
        return words, False, []
    at = words.index("--")
    return words[:at], True, words[at + 1 :]


def _run(program: Sequence[str]) -> int:
    """Run the script or module; what it raises is printed as Python itself prints it."""
    try:
        if program[0] == "-m":
            sys.argv = ["-m", *program[2:]]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            _run_script(program)
    except SystemExit:
        raise  # the interpreter's own way to the exit code
    except KeyboardInterrupt as error:
        _print_exception(error)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _flush()
        os.kill(os.getpid(), signal.SIGINT)  # as Python does: whoever waits for us must see the signal
        return 130
    except BaseException as error:  # noqa: BLE001 - a plain run ends on any of them with its traceback and 1
        _print_exception(error)
        return 1
    return 0


def _run_script(program: Sequence[str]) -> None:
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
    """Print a traceback without our frames, by the program's own hook if it has set one."""
    trace = error.__traceback__
    while trace is not None and not endings.is_shown(trace.tb_frame.f_code.co_filename, ()):
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.excepthook(type(error), error, trace)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


class _Session:
    """The recording of one program, from its start to its end."""

    def __init__(self, report: str, roots: Sequence[str], script: str) -> None:
        self._path = os.path.abspath(report)
        self._roots = tuple(os.path.abspath(root) for root in roots)
        self._script = os.path.abspath(script)
        self._pid = os.getpid()
        self._recorder: Recorder | None = None
        self._calls: list[Call] = []
        self._recorded: dict[Recorded, None] = {}
        self._problems: list[Problem] = []
        self._constructors = ConstructorCalls(self._roots)
        self._json = GrowingJson()
        self._versions: Versions | None = None
        self._finders = (
            _AfterImport("torch", self._constructors.listen),
            _AfterImport("torch._dynamo", self._enter),
        )

    def __enter__(self) -> _Session:  # noqa: PYI034 - `Self` is younger than Python 3.10
        sys.meta_path[:0] = self._finders
        return self

    def __exit__(self, *exc: object) -> None:
        self._write()

    def _enter(self) -> None:
        """Begin to record: torch's compiler has just been imported."""
        try:
            dynamo = importlib.import_module("fuselight.dynamo")
            recorder: Recorder = dynamo.Recorder(
                roots=self._roots, on_call=self._called, on_compiled=self._write
            )
            recorder.__enter__()  # for as long as the process lives
            self._recorder = recorder
        except Exception as error:  # noqa: BLE001 - the program goes on as if we were not there
            why = f"{type(error).__name__}: {error}"
            self._problems.append(Problem("dynamo", "the program could not be recorded", why))

    def _called(self, code: types.CodeType, f_locals: Mapping[str, object]) -> None:
        """Take down the inputs of a call that is being compiled."""
        if os.getpid() != self._pid:
            return
        if code.co_name.startswith(_RESUMED) or len(self._calls) >= _MAX_CALLS:
            return
        if not endings.is_shown(code.co_filename, self._roots):
            return
        target, text = _call_text(code, f_locals, self._constructors)
        caller = _caller(code, self._roots)
        self._calls.append(Call(len(self._calls), text, caller))
        self._recorded.setdefault(Recorded(_absolute(code.co_filename), target, code.co_firstlineno, text))

    def _write(self) -> None:
        """Put the report of now in place. Dynamo compiles one frame at a time, so that this has no rival."""
        if os.getpid() != self._pid or (self._recorder is None and not self._problems):
            return  # a process that the program forked, or nothing to tell
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
            if not any(one.stage == "report" for one in self._problems):  # a full disk is met at each compile
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
        )
        if self._recorder is None:
            return report
        parts = self._recorder.parts()
        fields = {name: getattr(parts, name) for name in ("frames", "compiles", "breaks", "recompiles")}
        fields |= {name: getattr(parts, name) for name in ("not_compiled", "failures")}
        changes: dict[str, Any] = {**fields, "texts": dict(parts.texts)}
        changes["problems"] = (*parts.problems, *report.problems)
        return _replaced(report, changes)


def _replaced(report: Report, changes: dict[str, Any]) -> Report:
    return Report(**{**{name: getattr(report, name) for name in report.__dataclass_fields__}, **changes})


def _call_text(
    code: types.CodeType, f_locals: Mapping[str, object], constructors: ConstructorCalls
) -> tuple[str, str]:
    """Write the call in directive notation. Returns the target's name, and the text."""
    count = code.co_argcount
    names = code.co_varnames[:count]
    keywords = code.co_varnames[count : count + code.co_kwonlyargcount]
    target = getattr(code, "co_qualname", code.co_name).replace(".<locals>", "")
    callee = target
    owner = f_locals.get(names[0]) if names and names[0] == "self" else None
    if owner is not None:
        names = names[1:]
        kind = type(owner).__qualname__
        target = kind if code.co_name == "forward" else f"{kind}.{code.co_name}"
        made = module_text(owner, constructors)
        callee = made if code.co_name == "forward" else f"{made}.{code.co_name}"
    args = [f_locals[name] for name in names if name in f_locals]
    at = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & 0x04:  # *args
        args += list(f_locals.get(code.co_varnames[at], ()))  # type: ignore[call-overload]
        at += 1
    kwargs = {name: f_locals[name] for name in keywords if name in f_locals}
    if code.co_flags & 0x08:  # **kwargs
        kwargs.update(f_locals.get(code.co_varnames[at], {}))  # type: ignore[call-overload]
    return target, describe_call(callee, args, kwargs, limit=2000)


def _absolute(path: str) -> str:
    """The path of a code object's file: that of the script is as the user typed it."""
    return path if path.startswith("<") else os.path.normpath(os.path.join(_STARTED_IN, path))


def _caller(code: types.CodeType, roots: Sequence[str]) -> Location | None:
    """Find the user's line that made the call."""
    for frame in _frames_above():
        place = frame.f_code
        path = _absolute(place.co_filename)
        if place is not code and any(path.startswith(root + os.sep) for root in roots):
            return Location(path, frame.f_lineno, function=place.co_name)
    return None


def _frames_above() -> Iterator[types.FrameType]:
    torch_api = importlib.import_module("fuselight.torch_api")
    yield from torch_api.frames_above(sys._getframe(1))  # noqa: SLF001 - where we are


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then` once, right after the module `name` has been imported, and is gone."""

    def __init__(self, name: str, then: Any) -> None:
        self._name, self._then = name, then

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the import system's signature
        target: types.ModuleType | None = None,  # noqa: ARG002 - the same
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _TellingLoader(spec.loader, self._then)
        return spec


class _TellingLoader(importlib.abc.Loader):
    def __init__(self, real: Any, then: Any) -> None:
        self._real, self._then = real, then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        module: types.ModuleType | None = self._real.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        self._real.exec_module(module)
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        parent, _, name = module.__name__.rpartition(".")
        if parent:  # the import machinery sets it after us, and what `then` imports needs it
            setattr(sys.modules[parent], name, module)
        self._then()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

"""The fixture's value: it compiles and calls what a test gives it, in the test's own process.

Invariant: each check of a test is kept with the test, also one whose calls fail, so that the failure can show it.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from fuselight.capture.calls.observed_calls import (
    ObservedCall,
    compiled_name,
    observe,
    without_compile,
    without_compiler,
)
from fuselight.shared.report import Location
from fuselight_server.commands.compile_checks import CompileCheck
from fuselight_server.pytest_plugin import baselines, expectations
from fuselight_server.pytest_plugin.check_types import (
    CHECKS,
    INTERRUPTED,
    START_VARIABLE,
    StoppedCheck,
    test_name,
)
from fuselight_server.pytest_plugin.compiled import CompileResult
from fuselight_server.pytest_plugin.keywords import named_arguments

if TYPE_CHECKING:
    from fuselight_server.pytest_plugin.checked_results import CheckedResults
    from fuselight_server.pytest_plugin.peak_memory import PeakMemory
    from fuselight_server.pytest_plugin.second_start import SecondStart

_PACKAGE_FILE = "__init__.py"
_FOLDER = os.path.dirname(__file__)  # noqa: PTH120 - compared with the names of code
_ARGUMENTS = (
    "It takes a model and the inputs: put the arguments of one call into a tuple, `(x, y)`, and those of several calls "
    "into a list of tuples"
)


class Checker:
    """`fuselight_check` of one test."""

    call = ObservedCall
    """Positional and keyword arguments of one call: `fuselight_check.call((x,), {"scale": 2})`."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._checks = item.stash.setdefault(CHECKS, [])
        self._labels: list[str] = []
        self._results: list[CompileResult] = []

    def __repr__(self) -> str:
        return "<fuselight_check>"

    @named_arguments("fuselight_check", f"{_ARGUMENTS}.")
    def __call__(
        self,
        model: Callable[..., Any],
        inputs: object,
        *,
        dynamic: bool | None = None,
        fullgraph: bool = False,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
        backend: str | Callable[..., Any] | None = None,
    ) -> CompileResult:
        """Compile `model`, call it with `inputs`, and check what the test's marker expects.

        `inputs`: a tuple for one call, a dict for one call by keywords, a list for several calls; anything else is the
        only argument of one call. Without `backend`, graphs run as they were captured: no kernels are generated.
        """
        __tracebackhide__ = True
        check_model(model)
        calls = calls_of(inputs)
        given = {"dynamic": dynamic, "mode": mode, "options": options, "backend": backend}
        settings = {name: value for name, value in given.items() if value is not None}
        if fullgraph:
            settings["fullgraph"] = True
        if START_VARIABLE in os.environ:
            from fuselight_server.pytest_plugin.second_start import make_if_asked  # noqa: PLC0415 - in a started test

            make_if_asked(len(self._checks) + 1, model, calls, settings, self._roots(model, _caller()))
        caller = _caller()
        roots = self._roots(model, caller)
        try:
            observed = observe(model, calls, roots=roots, caller=caller, settings=settings)
        except BaseException as error:  # noqa: BLE001 - a setting that torch refuses, or a timeout of the test
            self._note_stop(error, model, caller)
            raise error.with_traceback(self._shown_trace(error))  # noqa: B904 - the same exception
        compiled = CompileResult(
            CompileCheck(observed.report), observed.outputs, self._label(model), len(self._checks) + 1
        )
        compiled.start_twice = self._start_twice
        compiled.compare_results = self._compare_results
        compiled.estimate_memory = self._estimate_memory
        compiled.known_entry = lambda: baselines.known_entry(self._item, compiled.number)
        self._checks.append(compiled)
        self._results.append(compiled)
        if observed.error is not None:
            compiled.error = observed.error
            if isinstance(observed.error, TypeError) and is_list_of_arguments(model, inputs):
                raise TypeError(f"{observed.error}: a list of inputs is several calls. {_ARGUMENTS}.")
            raise observed.error.with_traceback(self._shown_trace(observed.error))
        expectations.of_marker(self._item).check(compiled, "marker of the test")
        if baselines.is_for_all(self._item.config):
            baselines.check_baseline(self._item, compiled)
        return compiled

    def baseline(self, compiled: CompileResult) -> CompileResult:
        """Fail the test if a number is worse than in the baseline; a better number becomes the new baseline."""
        __tracebackhide__ = True
        baselines.check_baseline(self._item, compiled)
        return compiled

    def _note_stop(self, error: BaseException, model: Callable[..., Any], caller: Location) -> None:
        """Keep that a check was stopped, by what is no error of its code."""
        if isinstance(error, (Exception, pytest.skip.Exception)):
            return
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        self._checks.append(StoppedCheck(self._label(model), reason, caller.path, caller.line))
        if isinstance(
            error, (KeyboardInterrupt, pytest.exit.Exception)
        ):  # pytest makes no report of the test
            self._item.config.stash.setdefault(INTERRUPTED, {})[test_name(self._item.nodeid)] = self._checks

    def _start_twice(self, compiled: CompileResult) -> SecondStart:
        __tracebackhide__ = True
        from fuselight_server.pytest_plugin.second_start import start_twice  # noqa: PLC0415 - few tests ask for it

        known = {result.number: result.warm for result in self._results if result.was_started}
        return start_twice(self._item, compiled.number, compiled.label, compiled.report, known)

    def _compare_results(self, compiled: CompileResult, options: dict[str, Any]) -> CheckedResults:
        __tracebackhide__ = True
        from fuselight_server.pytest_plugin.checked_results import compare_results_of  # noqa: PLC0415 - few tests ask

        known = {result.number: result.accuracy for result in self._results if result.was_compared}
        return compare_results_of(self._item, compiled.number, compiled.label, known, options)

    def _estimate_memory(self, compiled: CompileResult) -> PeakMemory:
        __tracebackhide__ = True
        from fuselight_server.pytest_plugin.peak_memory import estimate_check  # noqa: PLC0415 - few tests ask

        known = {result.number: result.peak_memory for result in self._results if result.was_estimated}
        return estimate_check(self._item, compiled.number, compiled.label, known)

    def _shown_trace(self, error: BaseException) -> TracebackType | None:
        """The traceback without the frames of Dynamo and of ours: what they were doing is in the finding."""
        if self._item.config.getoption("fulltrace", default=False):
            return error.__traceback__
        return without_compiler(error.__traceback__)

    def _label(self, model: Callable[..., Any]) -> str:
        name = compiled_name(model)
        self._labels.append(name)
        number = self._labels.count(name)
        return name if number == 1 else f"{name}#{number}"

    def _roots(self, model: Callable[..., Any], caller: Location) -> tuple[str, ...]:
        """Folders whose files are the user's: those of the session, and the package of what is compiled."""
        config = self._item.config
        further = [str(path) for path in config.getini("fuselight_roots")]
        folders = [str(config.rootpath), str(config.invocation_params.dir), *further]
        folders += [os.path.realpath(folder) for folder in folders]
        folders.append(str(Path(caller.path).parent))
        package = package_folder(model)
        return tuple(dict.fromkeys([*folders, *([package] if package else [])]))


def check_model(model: object) -> None:
    """Raise TypeError if it is nothing that a check can compile and call."""
    __tracebackhide__ = True
    if isinstance(model, type):  # torch.compile replaces the methods of a class, for all later tests
        name = model.__qualname__.rpartition("<locals>.")[2]
        raise TypeError(f"`{name}` is a class. Pass an object of it to fuselight_check, as `{name}(...)`.")
    if not callable(model):
        raise TypeError(
            f"`{type(model).__name__}` cannot be called. Pass a module or a function to fuselight_check."
        )


def calls_of(inputs: object) -> Sequence[ObservedCall]:
    """Return the calls that the `inputs` of a check stand for. Raises TypeError and ValueError."""
    __tracebackhide__ = True
    if not isinstance(inputs, list):
        return (_call_of(inputs),)
    if not inputs:
        raise ValueError(
            "fuselight_check was given no call: the list of inputs is empty. Add a tuple for each call."
        )
    return tuple(map(_call_of, inputs))


def _call_of(inputs: object) -> ObservedCall:
    __tracebackhide__ = True
    if isinstance(inputs, ObservedCall):
        return inputs
    if isinstance(inputs, tuple):
        return ObservedCall(tuple(inputs))
    if isinstance(inputs, Mapping):
        names = [name for name in inputs if not isinstance(name, str)]
        if names:
            raise TypeError(
                f"a dict of inputs is a call by keywords, and `{names[0]!r}` is no name. "
                "To pass the dict itself, put it into a tuple: `(inputs,)`."
            )
        return ObservedCall((), dict(inputs))
    return ObservedCall((inputs,))


def is_list_of_arguments(model: Callable[..., Any], inputs: object) -> bool:
    """Whether a list that stands for several calls has the arguments of one: each alone is not enough for a call."""
    if not isinstance(inputs, list) or any(
        isinstance(entry, (tuple, Mapping, ObservedCall)) for entry in inputs
    ):
        return False
    plain = without_compile(model)
    try:
        signature = inspect.signature(getattr(plain, "forward", plain))
    except (TypeError, ValueError):
        return False
    return not _binds(signature, inputs[:1]) and _binds(signature, inputs)


def _binds(signature: inspect.Signature, arguments: Sequence[object]) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _caller() -> Location:
    """The innermost line outside of this folder."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to walk the caller's stack
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == _FOLDER:  # noqa: PTH120 - the same
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno, function=frame.f_code.co_name)


def package_folder(model: Callable[..., Any]) -> str | None:
    """The folder of the outermost package that defines a model, unless that is torch; None if no package does."""
    plain = without_compile(model)
    owner = plain if isinstance(plain, FunctionType) else type(plain)
    name = str(owner.__module__ or "").partition(".")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    if name in {"torch", "builtins"} or file is None or Path(file).name != _PACKAGE_FILE:
        return None
    return str(Path(file).parent)

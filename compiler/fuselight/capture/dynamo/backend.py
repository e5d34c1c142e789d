"""Captures without compiling: a Dynamo backend that runs each graph as captured, used by every compile.

Invariant: the options that decide where a graph ends (fullgraph, dynamic, disable, the guard filter) stay as the user
set them; only the handling of a finished graph is replaced.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import aot_graphs, compiled_results, errors, targets
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Location, Problem
from fuselight.shared.report.failure import first_line


@dataclass(frozen=True)
class CompileCall:
    """What one `torch.compile` in the user's code asked for; None where it left the default."""

    backend: str | None
    mode: str | None
    options: tuple[str, ...]
    fullgraph: bool
    dynamic: bool | None
    disable: bool
    location: Location | None
    """The line of the call."""


@dataclass
class CompileCalls:
    """Every `torch.compile` that was made inside `capture_only`, in order."""

    calls: list[CompileCall] = field(default_factory=list)
    own_modules: list[tuple[str, Location]] = field(default_factory=list)
    """Modules of torch's own classes for which `nn.Module.compile` had no effect, and the lines."""
    precompiled: list[Location] = field(default_factory=list)
    """The lines that call torch.compiler.precompile, which captures without TorchDynamo."""

    @property
    def fullgraph(self) -> bool | None:
        """What all calls asked for; None where they differ, or there is none."""
        asked = {call.fullgraph for call in self.calls}
        return asked.pop() if len(asked) == 1 else None

    @property
    def static(self) -> tuple[Location, ...]:
        """The lines of the calls with dynamic=False."""
        lines = (call.location for call in self.calls if call.dynamic is False)
        return tuple(dict.fromkeys(line for line in lines if line is not None))


_AOT_EAGER = frozenset({"aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner"})
_WITH_AOT_AUTOGRAD = _AOT_EAGER | {"inductor", "cudagraphs"}


def capture_backend(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **asked: Any
) -> Callable[..., Any]:
    """A Dynamo backend that runs the graph as it is, with the results that the backend asked for would return."""
    del example_inputs
    forward: Callable[..., Any] = gm.forward
    wanted = (asked.get("options") or {}).get("backend", "inductor")
    return compiled_results.with_compiled_results(gm) if wanted in _WITH_AOT_AUTOGRAD else forward


MAX_OPERATORS = 150
"""Operators of a graph that `AotCapture` gives to AOTAutograd, which takes two to three times as long as Dynamo."""
MAX_IN_ALL = 450
"""Operators of all graphs of one run that it gives to AOTAutograd."""


@contextlib.contextmanager
def _placed_failures() -> Iterator[None]:
    """Inside, an exception from the trace of the backward pass quotes the line of its operator, as others do.

    torch only warns of that line: it is where the operator of the forward pass stands.
    """
    heard: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as heard:
            yield
    except Exception as error:
        traces = (str(item.message).partition(_FORWARD)[2] for item in reversed(heard))
        trace = next(filter(None, traces), "")
        if trace and errors.QUOTED_TRACEBACK not in str(error):
            error.args = (f"{error}\n\n{errors.QUOTED_TRACEBACK}\n{trace}",)
        raise
    finally:
        for item in heard:
            warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)


_FORWARD = "Traceback of forward call that caused the error:"


@dataclass
class AotCapture:
    """A Dynamo backend that traces graphs with AOTAutograd too, and runs them in eager mode: no code is generated.

    So what AOTAutograd specializes, refuses or cannot differentiate is seen, where the backend asked for has it. What
    fails in this way alone is in `problems`, and the graph runs as `capture_backend` runs it. A program that asks for
    this backend itself meets each of its failures.
    """

    is_wanted: Callable[[torch.fx.GraphModule], bool]
    """Whether a graph that is compiled now is traced."""
    skipped: int = 0
    """Graphs that were too large."""
    aot_eager: Callable[..., Any] | None = None
    """Takes the place of torch's backend `aot_eager`."""
    _operators: int = 0
    _problems: dict[Problem, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.__name__ = "aot_autograd"  # which torch names in its messages

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is unknown of graphs that AOTAutograd could not trace here, or whose results did not run."""
        return tuple(self._problems)

    def __call__(
        self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **asked: Any
    ) -> Callable[..., Any]:
        """As a backend is called."""
        wanted = (asked.get("options") or {}).get("backend", "inductor")
        captured = capture_backend(gm, example_inputs, **asked)
        if wanted not in _WITH_AOT_AUTOGRAD or not self.is_wanted(gm) or not self._fits(gm):
            return captured
        modes = aot_graphs.gradient_modes()
        try:
            backend = self.aot_eager or targets.backend_named("aot_eager")
            with _placed_failures():
                compiled: Callable[..., Any] = backend(gm, example_inputs)
        except errors.CONTROL_FLOW:
            raise
        except Exception as error:
            with aot_graphs.in_gradient_modes(modes):
                is_refused = (
                    wanted in _AOT_EAGER or aot_graphs.refusal_of_inductor(gm, example_inputs) is not None
                )
            if is_refused:
                raise
            self._lose("what AOTAutograd fixes or refuses in a graph", error)
            return captured
        if wanted in _AOT_EAGER:
            return aot_graphs.with_all_checks(compiled)
        return self._checked(compiled, captured, runs_once=aot_graphs.has_custom_operators(gm))

    def _checked(
        self, compiled: Callable[..., Any], captured: Callable[..., Any], *, runs_once: bool
    ) -> Callable[..., Any]:
        """Run `compiled`, and `captured` where `compiled` fails: that tells whose failure it is.

        `runs_once`: a second run may have effects of its own. There is none then, nor after a change of an input.
        """

        def run(*args: Any) -> Any:
            random = [(generator, generator.get_state()) for generator in _generators(args)]
            versions = aot_graphs.versions(args)
            try:
                new_results = compiled(*args)
                is_sequence = type(new_results) in (tuple, list)
                return compiled_results.without_views(new_results, args) if is_sequence else new_results
            except Exception as error:  # noqa: BLE001 - of any operator
                failure = error
            if runs_once or versions is None or aot_graphs.versions(args) != versions:
                if aot_graphs.is_raised_by_aot_autograd(failure):
                    errors.mark_only_compiled(failure)
                raise failure
            for generator, state in random:
                generator.set_state(state)
            results = captured(*args)  # raises what the code raises in eager mode too
            if aot_graphs.is_in_compiled_code(failure):
                errors.mark_only_compiled(failure)
                raise failure
            self._lose("whether the graph that AOTAutograd made runs", failure)
            return results

        return run

    def _lose(self, what: str, error: Exception) -> None:
        calls = stacks.calling_frames(limit=1)
        where = f", compiled at line {calls[-1].line}" if calls else ""
        why = f"{type(error).__name__}: {first_line(error)}"
        self._problems.setdefault(Problem("aot", f"{what}{where}", why))

    def _fits(self, gm: torch.fx.GraphModule) -> bool:
        operators = sum(str(node.op).startswith("call_") for node in gm.graph.nodes)
        fits = operators <= MAX_OPERATORS and self._operators + operators <= MAX_IN_ALL
        self._operators += operators if fits else 0
        self.skipped += not fits
        return fits


def _generators(args: Sequence[Any]) -> tuple[torch.Generator, ...]:
    """The generators that a graph can draw from: those of the devices in use, and those among its inputs."""
    passed = (value for value in args if isinstance(value, torch.Generator))
    devices = (*torch.cuda.default_generators, *torch.xpu.default_generators)
    return (torch.default_generator, *devices, *passed)


@contextlib.contextmanager
def capture_only(
    backend: Callable[..., Any] = capture_backend,
    changed_arguments: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _asked: {},
) -> Iterator[CompileCalls]:
    """Inside, every torch.compile uses `backend`, whatever backend, mode and options it was given.

    `changed_arguments` has other values of some arguments, by what was asked for.
    torch does not time its guards there: the Recorder does, without a flush of the caches.
    """
    calls = CompileCalls()

    def heard() -> None:
        calls.precompiled.extend(stacks.calling_frames(limit=1))

    def optimize(real: Callable[..., Any], wanted: Any, /, *args: Any, **asked: Any) -> Any:
        keep = targets.backend_within(wanted) is backend  # it is replaced already
        return real(wanted if keep else backend, *args, **asked)

    def compile_(real: Callable[..., Any], model: Any = None, /, **asked: Any) -> Any:
        """As the original: without a model it is a decorator."""
        model = asked.pop("model", model)
        calls.calls.append(_read_call(asked))
        line = calls.calls[-1].location
        kept = {name: value for name, value in asked.items() if name not in {"backend", "mode", "options"}}
        options = _distinguishing_options(asked)
        if options:
            kept["options"] = options

        def compiled_by_backend(function: Any) -> Any:
            return real(function, backend=backend, **{**kept, **changed_arguments(asked)})

        if model is None:
            return compiled_by_backend
        compiled = compiled_by_backend(model)
        own = targets.own_module_not_compiled(model, compiled)
        if own is not None and line is not None:
            calls.own_modules.append((own, line))
        return compiled

    with (
        targets.replaced_compile(compile_, optimize),
        targets.heard_precompile(heard),
        settings.without_guard_profile(),
        settings.without_configuration_logs(),
        aot_graphs.builtin_operators_unchecked(),
    ):
        yield calls


def _distinguishing_options(asked: dict[str, Any]) -> dict[str, Any]:
    """What was asked for, as options that `capture_backend` ignores.

    Dynamo shares compiled code between two compiles of a function only where backend, mode and options are equal, and
    one of the options (`guard_filter_fn`) decides about guards: both stay as they would be without us.
    """
    options = asked.get("options")
    distinguishing_options = dict(options) if isinstance(options, dict) else {}
    if asked.get("backend") not in (None, "inductor"):
        distinguishing_options["backend"] = asked["backend"]
    if asked.get("mode") not in (None, "default"):
        distinguishing_options["mode"] = asked["mode"]
    return distinguishing_options


def _read_call(asked: dict[str, Any]) -> CompileCall:
    backend, options = asked.get("backend"), asked.get("options")
    name = (
        backend
        if backend is None or isinstance(backend, str)
        else getattr(backend, "__name__", repr(backend))
    )
    above = stacks.calling_frames(limit=1)
    return CompileCall(
        backend=name,
        mode=asked.get("mode"),
        options=tuple(f"{key}={value!r}" for key, value in (options or {}).items()),
        fullgraph=bool(asked.get("fullgraph", False)),
        dynamic=asked.get("dynamic"),
        disable=bool(asked.get("disable", False)),
        location=above[-1] if above else None,
    )

"""The Dynamo backend `fuselight`: replays the tuned configuration of a graph, else compiles as torch's default does.

Invariant: nothing is measured, and no tuned file makes a program fail: where a result holds and cannot be compiled, the
graph is compiled as the default does. Where no result holds, a warning says once for each reason what differs and how
to tune again.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.torch_api.choices.kernel_choices import replaying
from fuselight.adapters.torch_api.dynamo import errors, module_tensors
from fuselight.adapters.torch_api.dynamo.captured_graphs import device_of, source_files
from fuselight.adapters.torch_api.dynamo.frames import has_guard_filter
from fuselight.replay.freezing import Backend, records_gradients
from fuselight.replay.graph_key import keys_by_gradients, tuned_graph
from fuselight.replay.machine_key import MachineKey, machine_key
from fuselight.replay.mismatch import ReplayMismatch, name_of, no_graph, reasons, tune_again, tune_command
from fuselight.replay.numerics import OPTION, numerics_of, parse_numerics, preferred
from fuselight.replay.preparation import prepared_inductor
from fuselight.replay.tuned_files import TunedSource, TunedSources
from fuselight.shared.foreign_files import read_regular, signature
from fuselight.shared.report.tuned import ATTENTION, PRECISION, Numerics, Preparation, TunedGraph, TunedResult
from fuselight.shared.tuned_code import GUARD_OPTION
from fuselight.shared.tuned_file import ARTIFACT_BYTES, artifacts_name

_LOG = logging.getLogger("fuselight")
_FILE = "file"
_AS_DEFAULT = "compiling as torch.compile's default does"
_MAX = 100
"""Reasons and files that are remembered."""


class ReplayState:
    """What this process has read, loaded and said."""

    def __init__(self) -> None:
        self.sources = TunedSources()
        self._notices: dict[str, None] = {}
        self._loaded: dict[str, None] = {}

    def say(self, text: str, reason: str = "") -> None:
        """Warn, once for each reason, which is the text by default."""
        if _is_new(self._notices, reason or text):
            _LOG.warning("fuselight: %s", text)

    def load_artifacts(self, path: str) -> None:
        """Fill torch's caches from a file, once; without it everything works and takes longer.

        What is in the file runs, so it is loaded only if this user saved it: its name is the signature of its bytes.
        """
        if not _is_new(self._loaded, path):
            return
        try:
            data = read_regular(path, ARTIFACT_BYTES, follow_link=False)
            if artifacts_name(signature(data)) != os.path.basename(path):
                self.say(
                    f"`{path}` was not loaded, because you did not save it from this home folder: artifacts run code. "
                    "The first call takes longer; `fuselight tune PATH --artifacts` saves your own"
                )
                return
            loaded = torch.compiler.load_cache_artifacts(data)
        except Exception as error:  # noqa: BLE001 - torch unpickles what is in the file: anything may be raised
            self.say(
                f"`{path}` was not loaded, so the first call takes longer: {type(error).__name__}: {error}"
            )
            return
        if loaded is None:
            self.say(f"`{path}` was not loaded, so the first call takes longer: it has no artifacts")


def _is_new(known: dict[str, None], text: str) -> bool:
    if text in known:
        return False
    while len(known) >= _MAX:
        del known[next(iter(known))]
    known[text] = None
    return True


_state = ReplayState()


def replay(
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a captured graph for Dynamo: `torch.compile(model, backend="fuselight")`.

    `options` may name the tuned file, `{"file": PATH}`, and say what a result may change of the arithmetic,
    `{"numerics": "reduced"}`. Other options and `mode` are for graphs that no result holds
    for. Raises what Inductor raises for the program itself.
    """
    others = dict(options or {})
    asked, wanted = others.pop(_FILE, None), others.pop(OPTION, None)

    def default(preparation: Preparation) -> Backend:
        return prepared_inductor(preparation, mode, others, say=_state.say)

    try:
        tuned = _tuned_backend(gm, inputs, None if asked is None else str(asked), wanted)
    except Exception as error:  # noqa: BLE001 - whatever a tuned file has caused, the program can be compiled
        _state.say(f"{_AS_DEFAULT}: the tuned file could not be used: {_first_line(error)}")
        tuned = None
    if tuned is None:
        return default(Preparation())(gm, inputs)
    return _compile_tuned(tuned, gm, inputs, default)


@dataclass(frozen=True)
class TunedBackend:
    """The backend of a result that holds for a graph."""

    backend: Backend
    result: TunedResult
    path: str
    """The tuned file."""
    is_allowed: bool
    """Whether the program says which arithmetic it allows."""


def _compile_tuned(
    tuned: TunedBackend,
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    default: Callable[[Preparation], Backend],
) -> Callable[..., Any]:
    """Compile a graph with a result, else as the default does. Raises what the default raises."""
    result = tuned.result
    untouched = module_tensors.copied(gm)  # a compile changes the graph
    try:
        run = tuned.backend(gm, inputs)
    except errors.CONTROL_FLOW:
        raise
    except Exception as error:  # noqa: BLE001 - a compiler may raise anything
        why = _first_line(error)
    else:
        for text in _beyond_the_backend(result, is_allowed=tuned.is_allowed):
            _state.say(text)
        return run
    # Weights stay converted, so the graph's results must get their strides back here as well.
    run = default(Preparation(channels_last=result.preparation.channels_last))(untouched, inputs)
    _state.say(
        f"{_AS_DEFAULT}: the configuration `{result.configuration}` of `{tuned.path}` "
        f"({name_of(result)}) cannot be compiled here: {why}. "
        f"Tune again on this machine: `{tune_command(result)}`"
    )
    return run


def _first_line(error: Exception) -> str:
    """An exception in one line; torch's own wrappers start with the name of a backend."""
    inner = getattr(error, "inner_exception", None)
    if isinstance(inner, Exception):
        return _first_line(inner)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__


def _tuned_backend(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], asked: str | None, wanted: object
) -> TunedBackend | None:
    """The backend of the result that holds for a graph; None after a warning if there is none.

    `wanted` is the option `numerics` of the program.
    """
    try:
        numerics = parse_numerics(wanted)
    except ValueError as error:
        _state.say(f"{_AS_DEFAULT}: {error}")
        return None
    machine = machine_key(device_of(gm))
    source = _state.sources.source(asked, machine)
    if source.problem:
        _state.say(f"{_AS_DEFAULT}: {source.problem}")
        return None
    graph = tuned_graph(gm, inputs)
    result = choose(
        source,
        graph,
        machine,
        training=records_gradients(inputs),
        numerics=numerics,
        by_gradients=functools.partial(keys_by_gradients, gm, inputs),
        files=source_files(gm),
    )
    if isinstance(result, ReplayMismatch):
        _state.say(f"{_AS_DEFAULT}: {result.text}", result.reason)
        return None
    backend = _backend_of(result)
    if backend is None:
        return None
    if result.artifacts and os.path.basename(result.artifacts) == result.artifacts:
        _state.load_artifacts(os.path.join(source.folder, result.artifacts))
    return TunedBackend(backend, result, source.path, is_allowed=numerics is not None)


def choose(
    source: TunedSource,
    graph: TunedGraph,
    machine: MachineKey,
    *,
    training: bool,
    numerics: Numerics | None = None,
    by_gradients: Callable[[], Mapping[str, bool]] = dict,
    files: Sequence[str] = (),
) -> TunedResult | ReplayMismatch:
    """The result that holds for a graph, of several the `preferred` one, else why none does.

    `numerics` is what the program allows of the arithmetic.
    `by_gradients` gives `graph_key.keys_by_gradients` of the graph, and `files` has the files of its code.
    """
    tuned_results = [
        tuned_result
        for tuned_result in source.results
        if any(graph.key == other.key for other in tuned_result.graphs)
    ]
    machines = source.machines or (machine,)
    holding = [
        tuned_result
        for tuned_result in tuned_results
        if not list(reasons(tuned_result, machines, training=training))
    ]
    if holding:
        least = min(map(numerics_of, holding), key=tuple(Numerics).index).value
        return preferred(holding, numerics) or ReplayMismatch(
            f"{name_of(holding[-1])} was tuned with the numerics `{least}`, which the option `numerics` excludes. "
            f"Set it to `{least}`, or tune again: `{tune_command(replace(holding[-1], numerics=Numerics.EXACT))}`"
        )
    if tuned_results:  # the one that differs least
        near = min(
            tuned_results,
            key=lambda tuned_result: len(list(reasons(tuned_result, machines, training=training))),
        )
        return ReplayMismatch(f"{'; '.join(reasons(near, machines, training=training))}. {tune_again(near)}")
    if not source.results:
        return ReplayMismatch(f"`{source.path}` has no results. Tune with `fuselight tune PATH`")
    return no_graph(graph, source.results, source.path, by_gradients=by_gradients(), files=files)


def _backend_of(result: TunedResult) -> Backend | None:
    """Inductor with the options, preparation and choices of a result; None after a warning if they are unusable."""
    preparation = result.preparation
    wrong = [
        f"no {name} {value!r}"
        for name, value, known in (
            ("attention", preparation.attention, ATTENTION),
            ("precision", preparation.precision, PRECISION),
        )
        if value and value not in known
    ]
    kernels = {family: kernel for family, kernel in result.kernels.items() if isinstance(kernel, dict)}

    def say_unknown() -> None:
        _state.say(
            "the tuned launch configurations are for none of the generated kernels, for example because a setting of "
            f"Inductor's differs, so each kernel runs in Inductor's first one. {tune_again(result)}"
        )

    compiling = functools.partial(replaying, kernels, say_unknown)
    try:
        if not wrong:
            return prepared_inductor(preparation, None, result.options, compiling=compiling, say=_state.say)
    except Exception as error:  # noqa: BLE001 - an option that this torch lacks, or of another type
        wrong.append(str(error).partition(", known options")[0])
    _state.say(
        f"{_AS_DEFAULT}: the tuned result of {name_of(result)} cannot be used: "
        f"{'; '.join(wrong)}. {tune_again(result)}"
    )
    return None


def _beyond_the_backend(result: TunedResult, *, is_allowed: bool) -> Iterator[str]:
    """What a result needs of the program, or changes, that its graph does not show."""
    where = name_of(result)
    numerics = numerics_of(result)
    if numerics is not Numerics.EXACT and not is_allowed:
        yield (
            f"the result of {where} changes the arithmetic ({result.preparation.precision}), as its search was "
            f"allowed to. options={{'numerics': '{numerics.value}'}} confirms it, {{'numerics': 'exact'}} excludes it"
        )
    if result.fixed_modules and not has_guard_filter():
        yield (
            f"the result of {where} was tuned without guards on modules: pass {GUARD_OPTION} as well if no module "
            "changes after the first call; without it each call is slower"
        )
    if result.optimizer:
        yield (
            f"the result of {where} was tuned with a compiled optimizer. Unless the program has it already: "
            "optimizer.step = torch.compile(optimizer.step)"
        )

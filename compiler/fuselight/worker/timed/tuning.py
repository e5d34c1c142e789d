"""The coordinator process of a search: starts one process per configuration and runs no user code itself.

Invariant: its child processes end with it. All configurations share one folder of Triton's, so that a kernel compiles
once; torch's other modes get folders of their own, because their compile time is compared.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing import connection
from typing import Any

import torch

from fuselight.adapters.environment import versions
from fuselight.adapters.torch_api import settings
from fuselight.measure import timing
from fuselight.measure.machine import processor
from fuselight.measure.pool import FLOAT64
from fuselight.shared.codec import DecodeError, decode
from fuselight.shared.configurations import (
    AUTOTUNING_MODES,
    EAGER,
    MODES,
    Configuration,
    ConfigurationError,
    parse_configuration,
)
from fuselight.shared.measurement_plans import MeasurePlan, TunePlan
from fuselight.shared.protocol import MeasureRequest, TuneRequest
from fuselight.shared.report import Culprit, Failure, Tuned, TunedGraph, TunedResult, data_key
from fuselight.shared.tuned_rules import refused_option
from fuselight.tune.coordinator import Search
from fuselight.tune.knobs import CPU, GPU
from fuselight.tune.pool import DEFAULT
from fuselight.tune.schedule import compiles_side_by_side
from fuselight.tune.turns import Turns, shared_folder
from fuselight.worker.child.request_results import TimedResult
from fuselight.worker.child.state import RunState, keep
from fuselight.worker.processes import children
from fuselight.worker.timed.benchmark import ConfigurationProcess, estimated_peaks, libraries, merged_report
from fuselight.worker.timed.estimated_peaks import with_estimates

_COMPILES_NOTHING = frozenset({FLOAT64, EAGER})
_AS_TORCH = _COMPILES_NOTHING.union(MODES)
"""What others are compared with: no timings are shared, and kernels are timed as in the user's own program."""
_TICK = 0.05
"""Seconds between checks whether a process has answered or ended."""
_LOOKS = 1.0
"""Seconds between measurements of memory, which read the entry of every process of the machine."""
_READ_MORE = "see what can be tried in docs/tuning.md"


def tune(state: RunState) -> None:
    """Search the fastest configuration of a run's target; its result is a `TimedResult`."""
    request = state.job.request
    if not isinstance(request, TuneRequest):
        raise TypeError(f"{type(request).__name__} asks for no search")
    plan = request.plan
    try:
        options = settings.inductor_options()
        plan = replace(
            plan, candidates=tuple(_candidate_name(candidate, plan, options) for candidate in plan.candidates)
        )
    except ConfigurationError as error:
        state.failures.append(Failure(Culprit.USER, "configuration", str(error), _READ_MORE))
        return
    result = state.result = TimedResult()
    searching = _TimedSearch(state, request, plan, options, result)
    search = searching.search()
    try:
        with state.step("measure", "starting"):
            tuned = result.tuned = search.run()
        if plan.estimates_memory and not state.failures:
            result.tuned = searching.with_estimates(tuned)
    finally:
        result.tuned = result.tuned or search.tuned()
        result.imported.extend(searching.libraries())
        _explain(state, result.tuned)
        _note_changes(state, result)


def _note_changes(state: RunState, result: TimedResult) -> None:
    """Say which files were saved or removed during the search: it has run their texts as they were at its start."""
    report, tuned = result.captured, result.tuned
    if report is None or tuned is None:
        return
    own = [path for path in report.files if path not in state.job.request.overlays]
    now = {path: children.read_file(path) for path in own}
    changed = [
        os.path.basename(path)
        for path, data in now.items()
        if data is None or data_key(data) != report.files[path]
    ]
    if changed:
        names = ", ".join(f"`{name}`" for name in changed)
        note = f"{names} changed during the search, which measured the text from its start"
        result.tuned = replace(tuned, notes=(*tuned.notes, note))


class _TimedSearch:
    """One search, and the processes that it started."""

    def __init__(
        self,
        state: RunState,
        request: TuneRequest,
        plan: TunePlan,
        options: Mapping[str, Any],
        result: TimedResult,
    ) -> None:
        self._result = result
        self._state, self._request, self._plan, self._options = state, request, plan, options
        self._began = time.monotonic()  # what this process imports is part of the budget
        self._started: dict[str, ConfigurationProcess] = {}
        self._looked = 0.0
        """When memory was last measured."""
        self._kernels = tempfile.mkdtemp(prefix="kernels-", dir=state.job.directory)
        self._autotuned = tempfile.mkdtemp(prefix="autotuned-", dir=state.job.directory)
        self._timings = tempfile.mkdtemp(prefix="timings-", dir=state.job.directory)
        asked = plan.device.strip().lower()
        on_gpu = asked.startswith(GPU) or (not asked and torch.cuda.is_available())
        self._device = GPU if on_gpu else CPU
        look = processor.state()
        self._cores = min(look.usable, look.quota or look.usable)
        self._jobs = plan.jobs or compiles_side_by_side(self._cores, processor.available_bytes())

    def search(self) -> Search:
        """The search, ready to run."""
        plan = self._plan
        if self._state.job.forked:
            timing.load(plan.device)  # takes seconds; forked processes inherit it
            importlib.import_module("fuselight.capture.inductor")
        return Search(
            plan,
            self._device,
            self._start,
            lambda text: self._state.progress.tell("measure", text),
            self._keep,
            self._wait,
            self._completed,
            self._options,
            jobs=self._jobs,
            cores=self._cores,
            turns=Turns(shared_folder()),
            clock=time.monotonic,
            began=self._began,
        )

    def _start(self, name: str) -> ConfigurationProcess:
        plan, request = self._plan, self._request
        if self._device == CPU and self._state.job.forked and name not in _COMPILES_NOTHING:
            settings.find_vector_instructions()  # once: processes that are forked from here on know it
        is_mode = name in AUTOTUNING_MODES  # the first is cold; the other uses what that one chose
        measured = MeasurePlan(
            work=plan.work,
            call=plan.call,
            rounds=plan.rounds,
            seconds=plan.seconds,
            limit_seconds=plan.limit_seconds,
            accuracy=plan.accuracy,
            bisect=False,
            device=plan.device,
            kernel_cache="" if is_mode else self._kernels,
            inductor_cache=self._autotuned if is_mode else "",
            timings="" if name in _AS_TORCH else self._timings,
            compile_threads=0 if is_mode else self._threads(name),
        )
        measure_request = request.of_kind(MeasureRequest, plan=measured)
        with contextlib.suppress(ConfigurationError):  # the reference is no configuration
            if parse_configuration(name).fixes:
                measure_request = replace(
                    measure_request, overlays={**measure_request.overlays, **plan.fixed}
                )
        self._started[name] = ConfigurationProcess(replace(self._state.job, request=measure_request), name)
        return self._started[name]

    def _threads(self, name: str) -> int:
        """Processes that compile kernels for a candidate: more where Inductor compiles several for each operator."""
        times_kernels = name not in _COMPILES_NOTHING and parse_configuration(name).times_kernels
        return max(1, int(self._cores // (2 if times_kernels else self._jobs)))

    def with_estimates(self, tuned: Tuned) -> Tuned:
        """The search with the estimated peaks of configurations that are measured for comparison."""
        plan = MeasurePlan(work=self._plan.work, call=self._plan.call, device=self._plan.device)
        request = self._request.of_kind(MeasureRequest, plan=plan)
        estimated = estimated_peaks(self._state, replace(self._state.job, request=request))
        rows = with_estimates([candidate.configuration for candidate in tuned.candidates], estimated)
        pairs = zip(tuned.candidates, rows, strict=True)
        return replace(
            tuned, candidates=tuple(replace(candidate, configuration=row) for candidate, row in pairs)
        )

    def libraries(self) -> Iterator[str]:
        """The installed modules that the configurations have imported."""
        return libraries(self._started)

    def _keep(self, tuned: Tuned) -> None:
        state = self._state
        self._result.tuned = tuned
        self._result.captured = merged_report(self._started, self._result.captured)
        with contextlib.suppress(OSError):  # no room to write: the end may find some
            keep(state)
        state.progress.tell("measured", f"{len(tuned.candidates)} configurations, {tuned.winner} leads")

    def _wait(self, processes: Sequence[Any]) -> None:
        self._limit_memory()
        channels = [process.channel for process in processes if isinstance(process, ConfigurationProcess)]
        connection.wait(channels, _TICK)

    def _limit_memory(self) -> None:
        """End each candidate that uses more memory than it may: the others go on."""
        now = time.monotonic()
        if self._plan.memory_mb and now - self._looked >= _LOOKS:
            self._looked = now
            for process in self._started.values():
                process.end_above(self._plan.memory_mb)

    def _completed(self, result: TunedResult, answer: Mapping[str, Any]) -> TunedResult:
        """Complete a result with what a replay needs."""
        configuration = parse_configuration(result.configuration)
        request = self._request
        root = next(
            (folder for folder in request.roots if request.target.path.startswith(os.path.join(folder, ""))),
            "",
        )
        return replace(
            result,
            file=os.path.relpath(request.target.path, root)
            if root
            else os.path.basename(request.target.path),
            target=request.target.name,
            torch=str(torch.__version__),
            triton=versions().triton or "",
            options=dict(answer.get("options", {})),
            preparation=configuration.preparation,
            dynamic=configuration.dynamic,
            optimizer=configuration.optimizer,
            fixed_modules=configuration.fixed_modules,
            fixes=self._plan.fixes if configuration.fixes else (),
            graphs=tuple(_graphs(answer)),
            capability=str(answer.get("capability", "")),
            blocks=tuple(answer.get("blocks", ())),
            kernels=dict(answer.get("kernels", {})),
            artifacts=str(answer.get("artifacts", "")),
            fuselight=versions().fuselight,
        )


def _graphs(answer: Mapping[str, Any]) -> list[TunedGraph]:
    try:
        return [decode(TunedGraph, graph) for graph in answer.get("graphs", ())]
    except DecodeError:
        return []


def _candidate_name(text: str, plan: TunePlan, options: Mapping[str, Any]) -> str:
    """The name of a configuration that a search can try. Raises ConfigurationError."""
    configuration = parse_configuration(text)
    if configuration.eager or configuration.written or configuration.backend:
        raise ConfigurationError(
            f"{text!r} cannot be replayed: name a mode of torch.compile, with flags and options of Inductor"
        )
    if configuration.fixes and not plan.fixed:
        raise ConfigurationError(
            f"`fixes` in {text!r} needs verified fixes, and there are none for this target"
        )
    _check_options(configuration, options)
    return configuration.name


def _check_options(configuration: Configuration, options: Mapping[str, Any]) -> None:
    for option, value in configuration.options.items():
        name = option.replace("-", "_")
        if name not in options:
            near = difflib.get_close_matches(option, options, 1)
            hint = f"did you mean {near[0]!r}?" if near else "torch._inductor.list_options() has all of them"
            raise ConfigurationError(f"this torch has no Inductor option {option!r}: {hint}")
        if expected := settings.refused_type(name, value):
            raise ConfigurationError(
                f"Inductor's option {option!r} takes a value of the type {expected}, not {value!r}"
            )
        if refused := refused_option(option, value):
            raise ConfigurationError(
                f"a tuned file cannot have {refused}: it has only numbers and switches that are known to run nothing"
            )


def _explain(state: RunState, tuned: Tuned) -> None:
    """If `default` could not be measured, use its failure for the run."""
    rows = {candidate.configuration.name: candidate.configuration for candidate in tuned.candidates}
    failures = [
        row.failure
        for row in (rows.get(DEFAULT), rows.get(EAGER))
        if row is not None and row.failure is not None
    ]
    if rows.get(DEFAULT) is None or rows[DEFAULT].wall is None:
        state.failures.extend(failures[:1])

"""A task: one job on one model for one device, and the request that does it.

Invariant: sources are read, never run. Each model and job gives at least one task or one row that says why there is
none. A task's key changes with its source, the modules of its project that it imports, its options and its device, and
with nothing else, so that an interrupted sweep goes on where it stopped. All configurations of a benchmark are one
task: they are timed in interleaved rounds.
"""

from __future__ import annotations

import io
import json
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fuselight.shared.codec import encode
from fuselight.shared.devices import UnknownDevice, find
from fuselight.shared.foreign_files import project_root, read_regular
from fuselight.shared.measurement_plans import MeasurePlan, TunePlan
from fuselight.shared.protocol import GenerateRequest, Limits, RunRequest
from fuselight.shared.report import Device, Report
from fuselight_server.base.default_limits import CAPTURE_LIMITS, COMPILE_LIMITS
from fuselight_server.base.fingerprints import key_of
from fuselight_server.base.store import Store, recorded_calls
from fuselight_server.execution.runs.planning import MAIN, PlannedRun, RunOptions, default_runs, named_runs
from fuselight_server.explain.benchmarks.planning import configurations, measure_request
from fuselight_server.explain.searches.planning import tune_request
from fuselight_server.source.document import read_source
from fuselight_server.source.local_imports import LocalImports, import_folders
from fuselight_server.sweep.rows import RowFailure, RowStatus, SweepJob, SweepRow
from fuselight_server.sweep.suites import Suite, SuiteTarget, with_name

CUDA, CPU = "cuda", "cpu"


class UnknownDeviceError(ValueError):
    """A device that no job of the sweep can use; the message says why, and what to do."""


@dataclass(frozen=True)
class SweepOptions:
    """What is done with each model, and how."""

    jobs: tuple[SweepJob, ...] = (SweepJob.CHECK,)
    devices: tuple[str, ...] = ()
    """`cpu` and `cuda` to time on, names of the catalog to generate kernels for; empty: the default of each job."""
    time_limit: float | None = None
    memory_limit: int | None = None
    compare: tuple[str, ...] = ()
    """Configurations of a benchmark."""
    search: TunePlan = field(default_factory=TunePlan)
    plan: MeasurePlan = field(default_factory=lambda: MeasurePlan(profile=False, bisect=False))

    def limits(self, job: SweepJob) -> Limits:
        """The limits of one run, or of each configuration of a benchmark."""
        seconds, memory = CAPTURE_LIMITS if job is SweepJob.CHECK else COMPILE_LIMITS
        return Limits(
            seconds=seconds if self.time_limit is None else self.time_limit,
            memory_mb=memory if self.memory_limit is None else self.memory_limit,
        )


@dataclass(frozen=True)
class SweepTask:
    """One job on one model for one device."""

    id: str
    key: str
    row: SuiteTarget
    job: SweepJob
    device: str
    """`cpu` or `cuda` to time on, the key of a device to generate kernels for, or empty."""
    request: RunRequest

    @property
    def needs_gpu(self) -> bool:
        """Whether it has a GPU for itself while it runs."""
        return self.job.is_timed and self.device == CUDA

    def unfinished(self, status: RowStatus, failure: RowFailure) -> SweepRow:
        """The row of the task if it has no result."""
        row = _row_of(self.row, self.job, self.device, key=self.key, status=status, failure=failure)
        return replace(row, id=self.id)


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep does."""

    tasks: tuple[SweepTask, ...]
    rows: tuple[SweepRow, ...] = ()
    """Of models for which there is nothing to run."""
    notes: tuple[str, ...] = ()
    """What the user must know of the devices before the tasks run."""


def plan_sweep(suite: Suite, options: SweepOptions, *, has_gpu: bool) -> SweepPlan:
    """Plan the tasks of a suite, those that are not timed first. Raises UnknownDeviceError.

    `has_gpu`: whether there is a GPU to time on where the user names no device.
    """
    check_devices(options.jobs, options.devices)
    devices = {job: devices_of(job, options.devices, has_gpu=has_gpu) for job in options.jobs}
    tasks: list[SweepTask] = []
    rows: list[SweepRow] = []
    reader = _SuiteReader(suite.folder)
    for entry in suite.targets:
        readable_runs = reader.runs(entry)
        for job in options.jobs:
            for device in devices[job]:
                if isinstance(readable_runs, RowFailure):
                    status = RowStatus.ABSENT if entry.absent else RowStatus.FAILED
                    rows.append(
                        _row_of(
                            entry,
                            job,
                            device,
                            key=key_of(_id(entry, job, device), str(readable_runs)),
                            status=status,
                            failure=readable_runs,
                        )
                    )
                else:
                    tasks += (_task(readable_run, job, device, options) for readable_run in readable_runs)
    ids = _distinct(tasks)
    notes = tuple(_elsewhere(options.devices, devices))
    return SweepPlan(tuple(sorted(ids, key=lambda task: task.job.is_timed)), tuple(rows), notes)


def check_devices(jobs: Sequence[SweepJob], named: Sequence[str]) -> None:
    """Raise UnknownDeviceError for a name of no device, or of one that none of the jobs can use."""
    virtual = [name for name in named if name not in {CPU, CUDA} and _catalogued(name)]
    if virtual and SweepJob.KERNELS not in jobs:
        asked = ",".join(job.value for job in jobs)
        raise UnknownDeviceError(
            f"--device {virtual[0]} names a GPU that may be absent: kernels can be generated for it, but `--do "
            f"{asked}` generates none. Add kernels to --do, or time with --device cpu or --device cuda"
        )


def _elsewhere(named: Sequence[str], devices: Mapping[SweepJob, tuple[str, ...]]) -> Iterator[str]:
    """A note of timed jobs for which the user names only devices that cannot be timed."""
    timed = [job for job in devices if job.is_timed]
    if named and timed and not {CPU, CUDA}.intersection(named):
        jobs = " and ".join(job.value for job in timed)
        verb = "runs" if len(timed) == 1 else "run"
        yield (
            f"--device {','.join(named)} applies to kernels only: {jobs} {verb} on {devices[timed[0]][0]}. Name what "
            "to time on with --device cpu or --device cuda"
        )


def devices_of(job: SweepJob, named: Sequence[str], *, has_gpu: bool) -> tuple[str, ...]:
    """The devices of a job, of those that the user named."""
    if job is SweepJob.CHECK:
        return ("",)
    if job is SweepJob.KERNELS:
        devices = [_catalogued(name).key for name in named if name != CUDA]
        return tuple(dict.fromkeys(devices)) or ("",)
    timed = tuple(dict.fromkeys(name for name in named if name in {CPU, CUDA}))
    return timed or (CUDA if has_gpu else CPU,)


def _catalogued(name: str) -> Device:
    if name.startswith(f"{CUDA}:"):
        raise UnknownDeviceError(
            f"--device {name}: a sweep gives each timed task one GPU; write cuda, and choose GPUs with "
            "CUDA_VISIBLE_DEVICES"
        )
    try:
        return find(name)
    except UnknownDevice as error:
        raise UnknownDeviceError(f"--device: {error} To time on a device, name cpu or cuda.") from None


@dataclass(frozen=True)
class _Readable:
    """A run of a file, and what it depends on."""

    row: SuiteTarget
    run: PlannedRun
    options: RunOptions
    text_key: str


class _SuiteReader:
    """Reads each file and each project once."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._recorded: dict[Path, Report | None] = {}
        self._imports = LocalImports()

    def runs(self, entry: SuiteTarget) -> list[_Readable] | RowFailure:
        """The runs of an entry, or why there is none."""
        if entry.absent:
            return RowFailure("environment", "absent", entry.absent)
        path = Path(entry.path)
        try:
            text = _read(path)
        except (OSError, SyntaxError, UnicodeDecodeError, LookupError) as error:
            why = getattr(error, "strerror", None) or error
            return RowFailure(
                "user", "source", f"{path.name} cannot be read: {why}", "correct its path in the suite"
            )
        reading = read_source(entry.path, text)
        if reading.syntax_error is not None:
            place = f"{path.name}:{reading.syntax_error.line}"
            return RowFailure("user", "source", "the file does not parse", "correct the syntax error", place)
        root = Path(entry.root) if entry.root else project_root(path)
        if root not in self._recorded:
            self._recorded[root] = Store.at(root).read_report()
        recorded = recorded_calls(self._recorded[root], entry.path)
        options = RunOptions(roots=(str(root),), recorded=recorded, own_kernels=None)
        planned = (
            named_runs(reading, [entry.target], options) if entry.target else default_runs(reading, options)
        )
        if not planned and entry.target:
            known = ", ".join(sorted(target.name for target in reading.targets)[:8])
            step = f"name one of {known}" if known else "name a class or function of the file"
            return RowFailure(
                "user", "target", f"{path.name} has no class or function `{entry.target}`", step
            )
        if not planned:
            return RowFailure(
                "user",
                "inputs",
                f"{path.name} has no target with inputs",
                "write example inputs above a class or function, as `# fuselight: Net()(f32[8, 16])`",
            )
        imported = self._imports.digests(entry.path, import_folders(options.roots))
        parts = (
            [json.dumps(dict(imported), sort_keys=True)] if imported else []
        )  # older rows have no such part
        key = key_of(text, json.dumps(recorded, sort_keys=True), *parts)
        return [
            _Readable(
                with_name(entry, planned_run.target.name or MAIN, self._folder), planned_run, options, key
            )
            for planned_run in planned
        ]


def _read(path: Path) -> str:
    """Decode a file as Python would (PEP 263)."""
    data = read_regular(path)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding)


def _task(readable_run: _Readable, job: SweepJob, device: str, options: SweepOptions) -> SweepTask:
    limits = options.limits(job)
    request: RunRequest = readable_run.run.start_message(1, 1, replace(readable_run.options, limits=limits))
    depends_on: Any = request.inputs
    if job is SweepJob.KERNELS:
        request = request.of_kind(GenerateRequest, device=find(device) if device else None)
    elif job is SweepJob.BENCH:
        names = configurations(options.compare, compiled=readable_run.run.target.compiled)
        plan = replace(options.plan, configurations=names, device=device)
        depends_on = (request.inputs, plan)
        request = measure_request(request, replace(plan, limit_seconds=limits.seconds))
    elif job is SweepJob.TUNE:
        search = replace(options.search, device=device)
        depends_on = (request.inputs, search)
        request = tune_request(request, replace(search, limit_seconds=limits.seconds))
    # Where the file lies and how long a run may take change no result.
    row = readable_run.row
    task_id = _id(row, job, device)
    key = key_of(task_id, readable_run.text_key, json.dumps(encode(depends_on), sort_keys=True))
    return SweepTask(task_id, key, row, job, device, request)


def _id(row: SuiteTarget, job: SweepJob, device: str) -> str:
    name = "/".join(part for part in (row.group, row.name or Path(row.path).name) if part)
    return " ".join(part for part in (name, row.variant, job.value, device) if part)


def _distinct(tasks: Iterable[SweepTask]) -> Iterator[SweepTask]:
    """The tasks with ids of their own: a file may define a name twice."""
    seen: dict[str, int] = {}
    for task in tasks:
        count = seen[task.id] = seen.get(task.id, 0) + 1
        again = f" ({count})" if count > 1 else ""
        yield replace(task, id=task.id + again, key=key_of(task.key, again)) if again else task


def _row_of(
    entry: SuiteTarget, job: SweepJob, device: str, *, key: str, status: RowStatus, failure: RowFailure
) -> SweepRow:
    return SweepRow(
        id=_id(entry, job, device),
        key=key,
        name=entry.name or Path(entry.path).name,
        job=job,
        status=status,
        group=entry.group,
        path=entry.path,
        target=entry.target,
        variant=entry.variant,
        device=device,
        failure=failure,
        notes=(entry.note,) if entry.note else (),
    )


def roots_of(tasks: Iterable[SweepTask]) -> Mapping[str, None]:
    """The project folders of tasks, each once."""
    return dict.fromkeys(root for task in tasks for root in task.request.roots)

"""What runs the tasks of a sweep: the protocol of engines, and the engine `local`, processes on this machine.

Invariant: an engine gives one outcome for each task, in the order in which they end, whatever dies meanwhile; a task
that is timed has its device for itself. `close` ends everything that an engine started.
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fuselight.remote.run_client import RemoteAnswer, RemoteRun, RunClient, RunStoppedError
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.protocol import to_json
from fuselight_server.base.settings import Interpreter
from fuselight_server.sweep.tasks import SweepTask

_MEMORY_PER_JOB = 4 * 2**30
"""Bytes that one worker with a model of medium size needs, for the default of `--jobs`."""
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_VERSIONS_SECONDS = 30.0
_VERSIONS = """\
import contextlib, importlib.metadata, importlib.util, json, os, platform, runpy, sys
sys.path[:] = [one for one in sys.path if one]
found, torch = importlib.util.find_spec("torch"), []
if found is not None:
    with contextlib.suppress(Exception):
        torch.append(str(runpy.run_path(os.path.join(os.path.dirname(found.origin), "version.py"))["__version__"]))
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        torch.append(importlib.metadata.version("torch"))
    assert torch
print(json.dumps([platform.python_version(), torch]))
"""
"""Prints the versions that rows have, without the import of torch, which takes seconds."""


class EngineError(Exception):
    """The engine cannot run the sweep; the message says why, and what to do."""


@dataclass(frozen=True)
class TaskOutcome:
    """What came of one attempt at a task."""

    task: SweepTask
    answer: RemoteAnswer


@dataclass(frozen=True)
class WorkerVersions:
    """Versions that the results of a run depend on."""

    python: str
    torch: tuple[str, ...]
    """As torch itself and as its package name it, which may differ; empty: there is no torch."""


class Engine(Protocol):
    """Runs tasks somewhere."""

    @property
    def description(self) -> str:
        """Where, in words: `4 processes on this machine`."""
        ...

    @property
    def gpus(self) -> int:
        """How many GPUs tasks can have."""
        ...

    def parallel(self, task: SweepTask) -> int:
        """How many tasks like this one run at the same time."""
        ...

    def versions(self) -> WorkerVersions | None:
        """The versions that tasks run with; None where they are not known before the tasks run."""
        ...

    def prepare(self, tasks: Sequence[SweepTask]) -> None:
        """Get ready for these tasks, once. Raises EngineError."""

    def outcomes(self, tasks: Sequence[SweepTask]) -> Iterator[TaskOutcome]:
        """Run the tasks, all of them timed or none, and yield what came of each. Raises EngineError."""
        ...

    def close(self) -> None:
        """End what was started."""


def remote_run(task: SweepTask, interpreter: Interpreter | None, **where: object) -> RemoteRun:
    """The run of a task, with the worker's own interpreter where none is named."""
    python = (interpreter.executable, tuple(interpreter.args)) if interpreter is not None else ("", ())
    return RemoteRun(to_json(task.request), *python, **where)  # type: ignore[arg-type] # fields of RemoteRun


class LocalEngine:
    """Processes on this machine: one worker for each slot, which runs one task after the other."""

    def __init__(self, interpreter: Interpreter, *, jobs: int, gpus: Sequence[str], folder: str) -> None:
        """`gpus`: values of CUDA_VISIBLE_DEVICES, one for each GPU. `folder`: where the workers run."""
        self._interpreter = interpreter
        self._jobs = jobs
        self._gpus = tuple(gpus)
        self._folder = folder
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def description(self) -> str:
        """Where, in words."""
        processes = "1 process" if self._jobs == 1 else f"{self._jobs} processes"
        gpus = {0: "", 1: " and 1 GPU"}.get(len(self._gpus), f" and {len(self._gpus)} GPUs")
        return f"{processes}{gpus} on this machine"

    @property
    def gpus(self) -> int:
        """How many GPUs tasks can have."""
        return len(self._gpus)

    def parallel(self, task: SweepTask) -> int:
        """How many tasks like this one run at the same time."""
        return len(self._slots(task))

    def versions(self) -> WorkerVersions | None:
        """The versions of the interpreter, which it is asked for."""
        command = [self._interpreter.executable, *self._interpreter.args, "-c", _VERSIONS]
        try:
            asked = subprocess.run(  # noqa: S603 - the interpreter that the user chose
                command,
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=_VERSIONS_SECONDS,
                check=True,
            )
            python, torch = parse_json(asked.stdout.splitlines()[-1])
        except (OSError, subprocess.SubprocessError, ValueError, IndexError):
            return None
        return WorkerVersions(python, tuple(torch))

    def prepare(self, tasks: Sequence[SweepTask]) -> None:
        """Nothing: the tasks' files are here."""

    def _slots(self, task: SweepTask) -> list[dict[str, str]]:
        """The variables of each worker that such tasks run in."""
        if task.needs_gpu:
            return [{_VISIBLE: gpu} for gpu in self._gpus]
        if task.job.is_timed:  # nothing else may use the processor
            return [{}]
        threads = max(1, _cores() // self._jobs)
        shared: dict[str, str] = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(threads)}
        return [dict(shared) if self._jobs > 1 else {} for _ in range(self._jobs)]

    def outcomes(self, tasks: Sequence[SweepTask]) -> Iterator[TaskOutcome]:
        """Run the tasks; see `Engine`."""
        for timed_on in dict.fromkeys((task.job.is_timed, task.needs_gpu) for task in tasks):
            yield from self._run([task for task in tasks if (task.job.is_timed, task.needs_gpu) == timed_on])

    def _run(self, tasks: Sequence[SweepTask]) -> Iterator[TaskOutcome]:
        slots = self._slots(tasks[0])
        if not slots:
            raise EngineError("there is no GPU to time on: name another device, as --device cpu")
        waiting: queue.SimpleQueue[SweepTask] = queue.SimpleQueue()
        done: queue.SimpleQueue[TaskOutcome | BaseException] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        self._threads = [
            threading.Thread(target=self._work, args=(variables, waiting, done), daemon=True)
            for variables in slots[: len(tasks)]
        ]
        for thread in self._threads:
            thread.start()
        for _ in tasks:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
        self._join()

    def _work(
        self,
        variables: Mapping[str, str],
        waiting: queue.SimpleQueue[SweepTask],
        done: queue.SimpleQueue[TaskOutcome | BaseException],
    ) -> None:
        """Run tasks in one worker until none is left."""
        client: RunClient | None = None
        try:
            while not self._stopped.is_set():
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    return
                job = remote_run(task, self._interpreter, folder=self._folder, environment=dict(variables))
                client = client or RunClient(job)
                done.put(TaskOutcome(task, client.run(job, self._stopped.is_set)))
        except RunStoppedError:
            return
        except BaseException as error:  # noqa: BLE001 - a failure of ours must end the sweep, not hang it
            done.put(error)
        finally:
            if client is not None:
                client.close()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()
        self._threads = []

    def close(self) -> None:
        """End the workers, running or not."""
        self._stopped.set()
        self._join()


def default_jobs() -> int:
    """How many workers the cores and the memory of this machine allow."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        memory = _MEMORY_PER_JOB
    return max(1, min(_cores() // 2, memory // _MEMORY_PER_JOB))


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        return os.cpu_count() or 1


def local_gpus(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The NVIDIA GPUs of this machine, as values of CUDA_VISIBLE_DEVICES; none where the driver cannot be asked."""
    visible = environ.get(_VISIBLE)
    if visible is not None:
        names = (part.strip() for part in visible.split(","))
        return tuple(name for name in names if name and name != "-1")
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        asked = subprocess.run(  # noqa: S603 - the driver's own program
            [program, "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(line.strip() for line in asked.stdout.splitlines() if line.strip().isdecimal())

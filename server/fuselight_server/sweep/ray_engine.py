"""The engine `ray`: tasks of Ray Core on a cluster, or on a Ray of this machine that lasts as long as the sweep.

Invariant: only this module imports Ray, which is optional (the extra `ray`). Nothing waits without a limit: a cluster
is asked in a process of its own before the driver connects, each task has a deadline, and a cluster that loses all its
nodes ends the sweep. Code and files go to the nodes as the job's working folder, so that they need torch alone; which
files is said before they are sent (`uploads`).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fuselight
from fuselight.remote.run_client import OVERTIME_SECONDS, RemoteAnswer, run_remotely
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.owned_folders import new_folder
from fuselight_server.base.settings import Interpreter
from fuselight_server.sweep.engines import (
    EngineError,
    TaskOutcome,
    WorkerVersions,
    default_jobs,
    local_gpus,
    remote_run,
)
from fuselight_server.sweep.tasks import SweepTask, roots_of
from fuselight_server.sweep.uploads import Upload, upload_of

_REQUIREMENT = "ray>=2.40"
"""As in the extra `ray` of pyproject.toml."""
_CONNECT_SECONDS = 5.0
"""For a connection to the address."""
_ASK_SECONDS = 60.0
"""For the whole answer of a cluster about its resources."""
_START_SECONDS = 600.0
"""From the submission of a task to its run: a free slot, the working folder, and the start of a worker with torch."""
_EMPTY_SECONDS = 120.0
"""How long the cluster may have no room for any task before the sweep ends."""
_LOOK_SECONDS = 5.0
"""Between looks at the cluster's resources."""
_MAX_BYTES = 256 * 2**20
"""Of the files that travel to the nodes: Ray itself takes up to 512 MiB."""
_SUITE = "suite"

_ASK = """\
import json, sys
try:
    import ray
    ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)
    nodes = [one["Resources"] for one in ray.nodes() if one.get("Alive")]
    print("\\n" + json.dumps({"nodes": nodes}))
except BaseException as error:
    print("\\n" + json.dumps({"error": f"{error}" or type(error).__name__}))
"""


@dataclass(frozen=True)
class NodeResources:
    """What tasks can have of one node."""

    cpus: int
    gpus: int


class RayEngine:
    """Tasks of Ray Core. It connects in `prepare`, because the files of the tasks travel with the connection."""

    def __init__(
        self,
        address: str | None,
        nodes: Sequence[NodeResources],
        *,
        jobs: int | None,
        gpus: int | None,
        python: str | None,
        say: Callable[[str], None],
    ) -> None:
        """`say` gets a sentence on what is sent to other machines, before it is sent."""
        self._say = say
        self._address = address
        self._nodes = tuple(nodes)
        self._jobs = jobs
        self._most_gpus = gpus
        self._interpreter = Interpreter(python, why="--python") if python else None
        self._stage: Path | None = None
        self._moved: dict[str, str] = {}
        self._ray: Any = None
        self._remote: Any = None
        self._pending: dict[Any, tuple[SweepTask, float | None]] = {}

    @classmethod
    def connected(
        cls,
        address: str | None,
        *,
        jobs: int | None,
        gpus: int | None,
        python: str | None,
        say: Callable[[str], None],
    ) -> RayEngine:
        """Ask the cluster what it has. Raises EngineError where there is no Ray, no cluster, or too little of it."""
        _import_ray()
        if address is None:
            here = NodeResources(jobs or default_jobs(), len(local_gpus(os.environ)))
            nodes: Sequence[NodeResources] = (here,)
        else:
            nodes = _ask(address)
        engine = cls(address, nodes, jobs=jobs, gpus=gpus, python=python, say=say)
        there = sum(node.gpus for node in nodes)
        if gpus is not None and gpus > there:
            raise EngineError(
                f"--gpus {gpus}: {engine.description} has {there}. Ask for fewer, or add nodes with GPUs to the cluster"
            )
        if not any(node.cpus for node in nodes):
            raise EngineError(f"{engine.description} has no CPU for a task: add a node to the cluster")
        return engine

    @property
    def description(self) -> str:
        """Where, in words."""
        nodes = len(self._nodes)
        where = f"the Ray cluster at {self._address}" if self._address else "a Ray of this machine"
        cpus, gpus = sum(node.cpus for node in self._nodes), sum(node.gpus for node in self._nodes)
        return f"{where} ({nodes} {'node' if nodes == 1 else 'nodes'}, {cpus} CPUs, {gpus} GPUs)"

    @property
    def gpus(self) -> int:
        """How many GPUs tasks can have."""
        there = sum(node.gpus for node in self._nodes)
        return there if self._most_gpus is None else min(there, self._most_gpus)

    def parallel(self, task: SweepTask) -> int:
        """How many tasks like this one run at the same time."""
        if task.needs_gpu:
            return self.gpus
        if task.job.is_timed:  # one for each node that is free of all others
            return sum(node.cpus >= self._cpus(task) for node in self._nodes)
        cpus = sum(node.cpus for node in self._nodes)
        return cpus if self._jobs is None else min(cpus, self._jobs)

    def _cpus(self, task: SweepTask) -> int:
        """The CPUs that a task takes of its node."""
        if task.needs_gpu:  # its share: compiles use several cores
            return max(1, min((node.cpus // node.gpus for node in self._nodes if node.gpus), default=1))
        if task.job.is_timed:  # all of a node: nothing else may use the processor meanwhile
            return max(node.cpus for node in self._nodes)
        return 1

    def versions(self) -> WorkerVersions | None:
        """None: each node has its own; rows whose torch differs have a note."""
        return None

    def prepare(self, tasks: Sequence[SweepTask]) -> None:
        """Connect, with the files of the tasks. Raises EngineError."""
        ray = _import_ray()
        uploads = [_upload(root, tasks) for root in roots_of(tasks)]
        for upload in uploads if self._address else ():
            self._say(upload.sentence(self.description))
        self._stage = Path(new_folder("ray"))
        self._moved = _stage_files(self._stage, uploads)
        local = {} if self._address else {"num_cpus": self._nodes[0].cpus, "num_gpus": self._nodes[0].gpus}
        if not self._address:
            local["include_dashboard"] = False
        try:
            ray.init(
                address=self._address or "local",
                runtime_env={"working_dir": str(self._stage)},
                log_to_driver=False,
                configure_logging=False,
                **local,
            )
        except Exception as error:  # noqa: BLE001 - Ray raises whatever its parts raise
            raise EngineError(f"Ray does not start: {_one_line(error)}") from None
        self._ray, self._remote = ray, ray.remote(run_remotely)

    def outcomes(self, tasks: Sequence[SweepTask]) -> Iterator[TaskOutcome]:
        """Run the tasks; see `Engine`."""
        waiting = deque(tasks)
        looked = empty_since = time.monotonic()
        while waiting or self._pending:
            if time.monotonic() - looked > _LOOK_SECONDS:
                looked = time.monotonic()
                self._look()
            while waiting and len(self._pending) < self.parallel(waiting[0]):
                self._submit(waiting.popleft())
            if self._pending:
                empty_since = time.monotonic()
                yield from self._ended()
            elif time.monotonic() - empty_since > _EMPTY_SECONDS:
                raise EngineError(
                    f"{self.description} has had no room for a task for {_EMPTY_SECONDS:g} s: add a node, then go on "
                    "with --resume"
                )
            else:
                time.sleep(0.5)

    def _look(self) -> None:
        """See which nodes there are now."""
        with contextlib.suppress(Exception):  # a cluster that cannot be asked now may answer the next time
            self._nodes = _nodes_of([node["Resources"] for node in self._ray.nodes() if node.get("Alive")])

    def _submit(self, task: SweepTask) -> None:
        job = remote_run(task, self._interpreter, folder=task.request.roots[0], moved=self._moved)
        options = {"num_cpus": self._cpus(task), "num_gpus": 1 if task.needs_gpu else 0, "max_retries": 0}
        reference = self._remote.options(**options).remote(job)
        seconds = task.request.limits.seconds
        deadline = time.monotonic() + seconds + OVERTIME_SECONDS + _START_SECONDS if seconds else None
        self._pending[reference] = (task, deadline)

    def _ended(self) -> Iterator[TaskOutcome]:
        """Wait a second for tasks, and yield those that ended or are overdue."""
        ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=1.0)
        for reference in ready:
            task, _ = self._pending.pop(reference)
            yield TaskOutcome(task, self._answer(reference))
        for reference, (task, deadline) in list(self._pending.items()):
            if deadline is not None and time.monotonic() > deadline:
                self._cancel(reference)
                del self._pending[reference]
                yield TaskOutcome(task, RemoteAnswer(lost="the cluster gave no answer before its deadline"))

    def _answer(self, reference: Any) -> RemoteAnswer:
        errors = self._ray.exceptions
        try:
            answer: RemoteAnswer = self._ray.get(reference)
        except errors.RuntimeEnvSetupError as error:
            raise EngineError(
                f"the nodes cannot unpack the files of the sweep: {_one_line(error)}. Make room on their disks"
            ) from None
        except errors.RayError as error:
            return RemoteAnswer(lost=f"{type(error).__name__}: {_one_line(error)}")
        return answer

    def _cancel(self, reference: Any) -> None:
        with contextlib.suppress(Exception):  # what cannot be cancelled ends with the job
            self._ray.cancel(reference, force=True)

    def close(self) -> None:
        """Cancel what is running, and disconnect."""
        for reference in self._pending:
            self._cancel(reference)
        self._pending.clear()
        if self._ray is not None:
            self._ray.shutdown()
            self._ray = None
        if self._stage is not None:
            shutil.rmtree(self._stage, ignore_errors=True)


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise EngineError(
            f"--engine ray needs Ray, which {sys.executable} does not have ({error}): install it with "
            f"`{shlex.quote(sys.executable)} -m pip install '{_REQUIREMENT}'`"
        ) from None


def _ask(address: str) -> tuple[NodeResources, ...]:
    """Ask a cluster for its nodes, in a process that can be killed: Ray may wait for ever. Raises EngineError."""
    _check_port(address)
    command = [sys.executable, "-c", _ASK, address]
    try:
        asked = subprocess.run(  # noqa: S603 - this interpreter
            command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise EngineError(
            f"--address {address}: no Ray answered within {_ASK_SECONDS:g} s. See `ray status` on the head node"
        ) from None
    try:
        data: dict[str, Any] = parse_json(asked.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        data = {"error": (asked.stderr.strip().splitlines() or ["Ray ended without an answer"])[-1]}
    if "error" in data:
        text = _one_line(data["error"])
        step = (
            "Use the cluster's releases of Ray and Python here"
            if "ersion" in text
            else "See `ray status` on the head node"
        )
        raise EngineError(f"--address {address}: {text}. {step}")
    return _nodes_of(data["nodes"])


def _check_port(address: str) -> None:
    """Raise EngineError where nothing listens at an address with a port."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        port = parts.port
    except ValueError:
        raise EngineError(f"--address {address}: the port is no number. Write HOST:PORT") from None
    if port is None or parts.hostname is None:
        if address == "auto":
            return
        raise EngineError(
            f"--address {address} has no port: write HOST:PORT, as `ray start --head` prints it, or auto"
        )
    try:
        socket.create_connection((parts.hostname, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise EngineError(
            f"--address {address} cannot be reached ({error.strerror or error}). Start a cluster with "
            "`ray start --head`, or correct the address"
        ) from None


def _nodes_of(resources: Sequence[dict[str, float]]) -> tuple[NodeResources, ...]:
    return tuple(
        NodeResources(int(resource.get("CPU", 0)), int(resource.get("GPU", 0))) for resource in resources
    )


def _upload(root: str, tasks: Sequence[SweepTask]) -> Upload:
    """What is sent of a project. Raises EngineError where it is too much."""
    named = dict.fromkeys(task.row.path for task in tasks if root in task.request.roots)
    upload = upload_of(root, named)
    if upload.size > _MAX_BYTES:
        raise EngineError(
            f"{root} has more than {_MAX_BYTES // 2**20} MB of tracked files, which is too much to send to the nodes: "
            "move the models to a folder with its own pyproject.toml, without data"
        )
    return upload


def _stage_files(stage: Path, uploads: Sequence[Upload]) -> dict[str, str]:
    """Copy our package and the projects to `stage`, and return where each project is in it. Raises EngineError."""
    package = Path(fuselight.__file__).parent
    shutil.copytree(package, stage / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    moved = {}
    for number, upload in enumerate(uploads):
        moved[upload.root] = f"{_SUITE}/{number}"
        try:
            upload.copy_to(stage / _SUITE / str(number))
        except OSError as error:
            raise EngineError(
                f"{upload.root} cannot be copied for the nodes: {error.strerror or error} ({error.filename})"
            ) from None
    return moved


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:600].rstrip(".")

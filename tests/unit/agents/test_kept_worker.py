"""The worker of a session: which calls share it, when another one starts, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.protocol import Answer, MeasureRequest, RunRequest
from fuselight.shared.report import Culprit, Failure, Inputs, Rung, TargetRef
from fuselight_server.base.settings import DynamoSettings, Interpreter, Settings
from fuselight_server.editor.session.agents import AttachedAgents
from fuselight_server.editor.session.consent import RUN
from fuselight_server.editor.session.repros import ReproSession
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.worker_client import client as worker_client
from fuselight_server.execution.worker_client.process import WorkerFailed
from tests.support.agents import MemoryClient, talk, toolbox_of
from tests.support.reports import VERSIONS, report

TEXT = """\
import torch

# fuselight: scale(f32[4])
@torch.compile
def scale(x):
    return x * 2
"""
SETTINGS = Settings(
    idle_minutes=2.0, environment={"TORCH_LOGS": "+dynamo"}, dynamo=DynamoSettings({"recompile_limit": 3})
)
FAILED = Failure(Culprit.ENVIRONMENT, "no_torch", "the start failed")


class Machine:
    """Starts workers without a process, and keeps each of them."""

    def __init__(self) -> None:
        self.workers: list[ProcesslessWorker] = []
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.is_starting = asyncio.Event()
        self.fails = False
        """Whether a start fails."""

    def worker(self, interpreter: Interpreter, **options: Any) -> ProcesslessWorker:
        self.workers.append(ProcesslessWorker(self, interpreter, options))
        return self.workers[-1]

    @property
    def running(self) -> list[str]:
        """The interpreters of the workers that were not closed."""
        return [worker.interpreter.executable for worker in self.workers if not worker.is_closed]


class ProcesslessWorker:
    """Stands for `Worker`."""

    def __init__(self, machine: Machine, interpreter: Interpreter, options: dict[str, Any]) -> None:
        self.interpreter = interpreter
        self.options = options
        self.requests: list[RunRequest] = []
        self.starts = 0
        self.is_closed = False
        self.hello: Any = None
        self._machine = machine

    async def start(self) -> Any:
        if self.hello is None:
            self.starts += 1
            self._machine.is_starting.set()
            await self._machine.may_start.wait()
            if self._machine.fails:
                raise WorkerFailed(FAILED)
            self.hello = SimpleNamespace(versions=VERSIONS, packages=())
        return self.hello

    async def run(self, request: RunRequest, _progress: Any, _partial: Any) -> Answer:
        self.requests.append(request)
        path, failures = request.target.path, () if self.hello is not None else (FAILED,)
        target = TargetRef(path, request.target.name, 5, "function")
        return Answer(
            request.id, report(target=target, inputs=Inputs(Rung.DIRECTIVE, path, 3), failures=failures)
        )

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(worker_client, "Worker", machine.worker)
    return machine


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(TEXT)
    for name in ("first", "second"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return tmp_path


async def check(client: MemoryClient, **arguments: Any) -> dict[str, Any]:
    return await client.data("check", paths=["model.py"], uses_earlier_checks=False, **arguments)


def python(name: Callable[[], str]) -> Callable[[Path], str]:
    return lambda path: str(path.parent / name())


def test_calls_share_a_worker_and_a_benchmark_gets_its_own(project: Path, machine: Machine) -> None:
    async def script(client: MemoryClient) -> None:
        await check(client)
        await check(client)
        await client.data("forecast", paths=["model.py"])
        (kept,) = machine.workers
        assert (kept.starts, len(kept.requests), kept.is_closed) == (1, 3, False)
        assert kept.options["idle_seconds"] == 42
        assert all(request.preload for request in kept.requests), "a later call runs sooner"
        await client.data("benchmark", paths=["model.py"])
        _, timed = machine.workers
        assert {type(request) for request in timed.requests} == {MeasureRequest}
        assert (timed.is_closed, kept.is_closed) == (True, False)
        assert timed.options["sample_after"] == 0.0, "a sample would falsify times"
        await check(client)
        assert len(kept.requests) == 4

    talk(lambda: toolbox_of(project, idle_seconds=lambda _path: 42.0, python=python(lambda: "first")), script)
    assert machine.running == []


def test_another_interpreter_gets_another_worker_after_the_end_of_the_first(
    project: Path, machine: Machine
) -> None:
    chosen = ["first"]

    async def script(client: MemoryClient) -> None:
        await check(client)
        chosen[0] = "second"
        await check(client)
        assert machine.running == [str(project / "second")]

    talk(lambda: toolbox_of(project, python=python(lambda: chosen[0])), script)
    assert len(machine.workers) == 2
    assert machine.running == []


def test_a_start_that_failed_is_tried_again_by_the_next_call(project: Path, machine: Machine) -> None:
    async def script(client: MemoryClient) -> None:
        machine.fails = True
        (failure,) = (await check(client))["findings"]
        assert "the start failed" in failure["title"]
        machine.fails = False
        assert (await check(client))["findings"] == []
        (kept,) = machine.workers
        assert kept.starts == 2

    talk(lambda: toolbox_of(project, python=python(lambda: "first")), script)


def test_a_call_that_is_canceled_leaves_the_start_to_the_next(project: Path, machine: Machine) -> None:
    async def script(client: MemoryClient) -> None:
        machine.may_start.clear()
        handle = (await check(client, wait_seconds=0))["handle"]
        queued = (await check(client, wait_seconds=0))["handle"]
        await client.data("cancel", handle=handle)
        assert (await client.data("result", handle=handle))["state"] == "canceled"
        machine.may_start.set()
        assert (await client.data("result", handle=queued))["state"] == "done"
        (kept,) = machine.workers
        assert (kept.starts, len(kept.requests)) == (1, 1)

    talk(lambda: toolbox_of(project, python=python(lambda: "first")), script)
    assert machine.running == []


def test_the_end_of_a_session_ends_a_worker_that_still_starts(project: Path, machine: Machine) -> None:
    async def script(client: MemoryClient) -> None:
        machine.may_start.clear()
        assert (await check(client, wait_seconds=0))["state"] != "done"
        await machine.is_starting.wait()

    talk(lambda: toolbox_of(project, python=python(lambda: "first")), script)
    assert machine.running == []


def test_the_editor_s_settings_say_how_long_the_worker_stays_and_how_it_runs(
    project: Path, machine: Machine
) -> None:
    state = State()
    state.folders["project"] = Folder(str(project), project.as_uri(), settings=SETTINGS)

    async def confirm(_question: Any) -> str:
        return RUN

    ui: Any = SimpleNamespace(confirm=confirm)
    agents = AttachedAgents(state, ui, lambda folder: Interpreter(f"{folder.path}/first"))

    async def script(client: MemoryClient) -> None:
        await check(client)

    talk(agents._toolbox, script)
    (worker,) = machine.workers
    assert worker.options["idle_seconds"] == 120.0
    assert [(request.environment, request.dynamo_config) for request in worker.requests] == [
        ({"TORCH_LOGS": "+dynamo"}, {"recompile_limit": 3})
    ]


@pytest.mark.asyncio
async def test_a_repro_runs_with_the_settings_of_its_folder(project: Path, machine: Machine) -> None:
    python, path = str(project / "second"), str(project / "model.py")
    session = ReproSession(dict, lambda _line: None)
    for settings in (SETTINGS, Settings()):
        result = await session.search(Key(path, "scale"), "scale", python, settings)
        assert result.messages == ("No fault of the compiler was seen in scale.",)
    with_settings, without = ([*worker.requests] for worker in machine.workers)
    assert {request.environment.get("TORCH_LOGS") for request in with_settings} == {"+dynamo"}
    assert all(request.dynamo_config == {"recompile_limit": 3} for request in with_settings)
    assert not any(request.environment or request.dynamo_config for request in without)

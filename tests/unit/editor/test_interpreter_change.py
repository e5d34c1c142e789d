"""After an interpreter that could not run anything, another one or newly installed packages run the targets again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fuselight.shared.protocol import Answer, Hello, Refused, RunRequest
from fuselight.shared.report import Culprit, Failure, Report, Tier
from fuselight.shared.version import untested_torch
from fuselight_server.base.settings import Interpreter
from fuselight_server.editor.handlers.configuration import look_again
from fuselight_server.editor.messages.params import FolderParams
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.worker_client.client import Worker
from tests.support.reports import VERSIONS, report
from tests.unit.editor.test_consent import DIRECTIVE, PATH, ConsentSession
from tests.unit.editor.test_kernel_results import generated

if TYPE_CHECKING:
    from pathlib import Path

NO_TORCH = Failure(Culprit.ENVIRONMENT, "no_torch", "/python has no torch", "Install torch")


async def without_torch(text: str = DIRECTIVE) -> ConsentSession:
    """A folder with a target that was run before, and that its interpreter cannot run now."""
    session = ConsentSession(text, consent="run")
    await session.save()
    answer = session.worker.run

    async def refuse(
        request: RunRequest, _progress: Callable[..., None], _partial: Callable[..., None]
    ) -> Refused:
        return Refused(request.id, "failed", NO_TORCH)

    session.worker.run = refuse  # type: ignore[method-assign,assignment]
    session.ui.messages_fail = False
    await session.save()
    assert session.folder.problem == NO_TORCH.message
    session.worker.run = answer  # type: ignore[method-assign]
    return session


@pytest.mark.asyncio
async def test_another_interpreter_runs_the_targets_again() -> None:
    session = await without_torch()
    assert len(session.worker.requests) == 1
    await session.analysis.restart("/w")
    await session.settle()
    assert session.folder.problem is None
    assert len(session.worker.requests) == 2
    assert session.worker.requests[1].automatic
    assert session.state.results[Key(PATH, "f")].report.failures == ()


@pytest.mark.asyncio
async def test_a_change_that_follows_at_once_runs_the_targets_as_well() -> None:
    """An editor reports a setting and the interpreter that it chooses by it one after the other."""
    session = await without_torch()
    requests = len(session.worker.requests)
    answer, begun = session.worker.run, asyncio.Event()

    async def hang(
        _request: RunRequest, _progress: Callable[..., None], _partial: Callable[..., None]
    ) -> Answer:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    session.worker.run = hang  # type: ignore[method-assign,assignment]
    await session.analysis.restart("/w")
    await begun.wait()
    session.worker.run = answer  # type: ignore[method-assign]
    await session.analysis.restart("/w")
    await session.settle()
    assert len(session.worker.requests) == requests + 1
    await session.analysis.restart("/w")
    await session.settle()
    assert len(session.worker.requests) == requests + 1, "nothing is left to repeat"


@pytest.mark.asyncio
async def test_a_look_at_the_same_interpreter_tries_again_only_where_none_could_run() -> None:
    session = await without_torch()
    answers = 0

    async def configuration(_params: object) -> list[object]:
        nonlocal answers
        answers += 1
        return []

    server: Any = SimpleNamespace(
        state=session.state,
        analysis=session.analysis,
        ui=session.ui,
        reading_settings=asyncio.Lock(),
        workspace_configuration_async=configuration,
    )
    session.state.client.configuration = True
    for _ in range(2):
        await look_again(server, FolderParams())
        await session.settle()
        assert session.folder.problem is None
        assert len(session.worker.requests) == 2, "the second look finds nothing to repeat"
    assert answers == 2
    await session.analysis.agents.close()


@pytest.mark.asyncio
async def test_the_failure_is_cleared_if_nothing_may_run_again() -> None:
    session = await without_torch()
    before = session.state.results[Key(PATH, "f")].last_complete
    assert before is not None
    session.folder.consent = "never"
    await session.analysis.restart("/w")
    await session.settle()
    assert session.state.results[Key(PATH, "f")] is before
    assert len(session.worker.requests) == 1


@pytest.mark.asyncio
async def test_another_interpreter_that_cannot_run_anything_is_reported_before_a_run(tmp_path: Path) -> None:
    session = ConsentSession(DIRECTIVE)
    messages: asyncio.Queue[str] = asyncio.Queue()
    session.ui.say = lambda text, *, error: messages.put_nowait(f"{error}: {text}")  # type: ignore[method-assign]
    gone = str(tmp_path / "python")
    session.folder.settings = replace(
        session.folder.settings, resolved_interpreter=Interpreter(gone, why="the user's choice")
    )
    await session.analysis.restart("/w")
    message = await asyncio.wait_for(messages.get(), 60)
    assert message == (
        f"True: {gone} cannot be started: No such file or directory; this interpreter comes from the user's choice, "
        "and `fuselight.interpreter` sets another. Choose another interpreter."
    )
    assert messages.empty()
    assert session.folder.problem is not None
    assert session.worker.requests == []


@pytest.mark.asyncio
async def test_targets_of_another_folder_wait_for_their_own_interpreter() -> None:
    session = await without_torch()
    await session.analysis.restart("/elsewhere")
    await session.settle()
    assert len(session.worker.requests) == 1


def without_triton() -> Report:
    return replace(generated(), versions=replace(VERSIONS, triton=None, executable="/my python"))


@pytest.mark.asyncio
async def test_a_missing_triton_is_reported_once_with_the_command_and_retry() -> None:
    session = ConsentSession(DIRECTIVE, consent="run")
    offered: list[str] = []
    answers: asyncio.Queue[str | None] = asyncio.Queue()

    async def offer(text: str, actions: tuple[str, ...]) -> str | None:
        offered.append(text)
        assert actions == ("Retry",)
        return await answers.get()

    async def generate(
        request: RunRequest, _progress: Callable[..., None], _partial: Callable[..., None]
    ) -> Answer:
        session.worker.requests.append(request)
        return Answer(request.id, without_triton())

    session.ui.offer = offer  # type: ignore[method-assign]
    session.worker.run = generate  # type: ignore[method-assign]
    for _ in range(2):
        session.analysis.requests.command(PATH, "f", Tier.KERNELS)
        await session.settle()
    assert len(offered) == 1
    assert "Run `'/my python' -m pip install triton`, then press Retry." in offered[0]
    answers.put_nowait("Retry")
    await session.settle()
    assert [request.tier for request in session.worker.requests] == [Tier.KERNELS] * 3


@pytest.mark.asyncio
async def test_an_offer_that_fails_is_logged() -> None:
    session = ConsentSession(DIRECTIVE, consent="run")

    async def offer(text: str, actions: tuple[str, ...]) -> str | None:
        raise ValueError(text, actions)

    async def generate(
        request: RunRequest, _progress: Callable[..., None], _partial: Callable[..., None]
    ) -> Answer:
        return Answer(request.id, without_triton())

    session.ui.offer = offer  # type: ignore[method-assign]
    session.worker.run = generate  # type: ignore[method-assign]
    session.analysis.requests.command(PATH, "f", Tier.KERNELS)
    await session.settle()
    await asyncio.sleep(0)
    assert any("offering Triton failed: ValueError(" in line for line in session.state.log_lines)


@pytest.mark.asyncio
async def test_an_untested_torch_is_reported_once_and_its_runs_go_on() -> None:
    session = ConsentSession(DIRECTIVE, consent="run")
    messages: list[str] = []

    async def capture(
        request: RunRequest, _progress: Callable[..., None], _partial: Callable[..., None]
    ) -> Answer:
        return Answer(request.id, report(versions=replace(VERSIONS, torch="2.16.0+cpu")))

    session.worker.run = capture  # type: ignore[method-assign]
    session.ui.say = lambda text, *, error: messages.append(f"{error}: {text}")  # type: ignore[method-assign]
    for _ in range(2):
        session.analysis.requests.command(PATH, "f", Tier.CAPTURE)
        await session.settle()
    assert messages == [f"False: {untested_torch('2.16.0')}"]
    assert session.state.results[Key(PATH, "f")].report.failures == ()


@pytest.mark.asyncio
async def test_a_host_from_before_an_installation_is_outdated(tmp_path: Path) -> None:
    worker = Worker(Interpreter("/python"), cwd=str(tmp_path), log=lambda _line: None)
    packages = tmp_path / "site-packages"
    packages.mkdir()

    async def launch() -> Hello:
        return Hello(1, VERSIONS, 1, forks=True, packages=(str(packages), str(tmp_path / "absent")))

    worker._launch = launch  # type: ignore[method-assign]
    hello = await worker.start()
    assert worker.hello == hello
    (packages / "triton").mkdir()
    os.utime(packages, ns=(1, 1))  # however coarse the file system's times are
    assert worker.hello is None
    assert await worker.start() == hello
    assert worker.hello == hello
    await worker.close()

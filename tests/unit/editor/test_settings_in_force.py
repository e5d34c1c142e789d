"""Settings that change again while they are read, and which change rederives findings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from pygls.exceptions import JsonRpcInternalError

from fuselight_server.editor.handlers import configuration
from fuselight_server.editor.handlers.lsp_ui import LspUi
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.session.state import Folder, State


class SettingsSession:
    """Two folders, and a worker that stops slowly."""

    def __init__(self) -> None:
        self.state = State()
        for path in ("/a", "/b"):
            self.state.folders[path] = Folder(path, f"file://{path}")
        self.state.client.configuration = True
        self.asked: asyncio.Queue[asyncio.Future[Sequence[Any]]] = asyncio.Queue()
        self.stopped = asyncio.Event()
        self.reading_settings = asyncio.Lock()
        self.rederived = 0
        self.began = 0
        nothing: Callable[..., None] = lambda *_args, **_named: None  # noqa: E731
        self.ui = SimpleNamespace(
            say=nothing, runs_changed=nothing, findings_changed=nothing, refresh_lenses=nothing
        )
        self.analysis = SimpleNamespace(
            restart=self._restart,
            early=SimpleNamespace(end=self._begin),
            intake=SimpleNamespace(rederive=self._rederive),
            live=SimpleNamespace(settings_changed=nothing),
            agents=SimpleNamespace(apply=self._no_agents),
        )

    async def workspace_configuration_async(self, _params: Any) -> Sequence[Any]:
        answer: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()
        self.asked.put_nowait(answer)
        return await answer

    async def _no_agents(self) -> str:
        return ""

    async def _restart(self, _folder: str, _why: str) -> None:
        await self.stopped.wait()

    def _begin(self) -> None:
        self.began += 1

    def _rederive(self) -> None:
        self.rederived += 1


def answers(environment: str, device: str) -> list[Any]:
    own = {"environment": {"X": environment}, "device": device}
    return [own, own, own]


@pytest.mark.asyncio
async def test_the_last_setting_applies_even_if_a_worker_stops_slowly() -> None:
    session: Any = SettingsSession()
    first = asyncio.create_task(configuration.pull(session))
    (await session.asked.get()).set_result(answers("1", "t4"))
    await asyncio.sleep(0)
    second = asyncio.create_task(configuration.pull(session))
    for _ in range(10):  # whatever can go on without the worker's end does
        await asyncio.sleep(0)
        if not session.asked.empty():
            (await session.asked.get()).set_result(answers("1", "h200"))
    session.stopped.set()
    await first
    while not second.done():
        await asyncio.sleep(0)
        if not session.asked.empty():
            (await session.asked.get()).set_result(answers("1", "h200"))
    assert {folder.settings.device for folder in session.state.folders.values()} == {"h200"}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("changed", "times"),
    [
        ({"guards": {"warnCount": 1}}, 1),
        ({"kernels": {"adviseFromPercent": 1}}, 1),
        ({"kernels": {"adviseRepeats": 2}}, 1),
        ({"kernels": {"lens": "off"}}, 0),
    ],
)
async def test_findings_are_rederived_after_a_change_of_thresholds(changed: Any, times: int) -> None:
    session: Any = SettingsSession()
    pull = asyncio.create_task(configuration.pull(session))
    (await session.asked.get()).set_result([changed] * 3)
    await pull
    assert session.rederived == times


@pytest.mark.asyncio
async def test_runs_use_the_defaults_if_the_client_has_no_settings() -> None:
    session: Any = SettingsSession()
    pull = asyncio.create_task(configuration.pull(session))
    (await session.asked.get()).set_exception(RuntimeError("the client has no such request"))
    await pull
    assert session.began == 1
    assert any("no such request" in line for line in session.state.log_lines)


def test_a_notice_adds_no_links() -> None:
    messages: list[str] = []
    server: Any = SimpleNamespace(window_show_message=lambda params: messages.append(params.message))
    LspUi(server).say("no device [press](command:workbench.action.quit)", error=False)
    assert "](" not in messages[0]
    assert "press" in messages[0]


def test_an_error_adds_no_links() -> None:
    sent: list[bytes] = []
    protocol = Server().protocol
    protocol.set_writer(SimpleNamespace(write=sent.append, close=lambda: None))
    error = JsonRpcInternalError(message="no device [press](command:workbench.action.quit)")
    protocol._send_response(1, error=error.to_response_error())
    assert b"press" in sent[0]
    assert b"](" not in sent[0]

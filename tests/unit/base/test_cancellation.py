"""Tokens that end use cases, and how Ctrl-C in the terminal reaches one."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.interrupts import interrupts_call
from fuselight_server.cli import progress


class Step:
    """Work that waits until it is ended, and takes a moment to clean up."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cleaned = 0

    async def work(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.cleaned += 1


@pytest.mark.asyncio
async def test_a_cancel_ends_all_work_of_its_token_and_no_other() -> None:
    token, other = CancelToken(), CancelToken()
    steps = [Step(), Step()]
    works = [asyncio.ensure_future(token.run(step.work())) for step in steps]
    kept = Step()
    left = asyncio.ensure_future(other.run(kept.work()))
    await asyncio.gather(*(step.begun.wait() for step in (*steps, kept)))
    token.cancel()
    token.cancel()  # a second one does not disturb the cleaning up
    await asyncio.wait(works)
    assert [work.cancelled() for work in works] == [True, True]
    assert [step.cleaned for step in steps] == [1, 1]
    assert not left.done()
    left.cancel()
    await asyncio.wait({left})
    assert (kept.cleaned, other.is_canceled) == (1, False)


@pytest.mark.asyncio
async def test_work_that_begins_after_the_cancel_does_nothing() -> None:
    token, step = CancelToken(), Step()
    token.check()
    token.cancel()
    for begin in (token.run(step.work()), asyncio.to_thread(token.check)):
        with pytest.raises(asyncio.CancelledError):
            await begin
    assert not step.begun.is_set()


@pytest.mark.asyncio
async def test_nested_work_of_a_token_is_canceled_once() -> None:
    """A second request to cancel would end what a task does to clean up."""
    token, step = CancelToken(), Step()

    async def outer() -> None:
        await token.run(step.work())

    task = token.bind(asyncio.ensure_future(outer()))
    await step.begun.wait()
    token.cancel()
    await asyncio.wait({task})
    assert (task.cancelled(), step.cleaned) == (True, 1)


def complete(monkeypatch: pytest.MonkeyPatch, work: Callable[..., Any]) -> Any:
    monkeypatch.setattr(progress, "command_options", lambda _options: None)
    return progress.complete(argparse.Namespace(verbose=True), work)


@pytest.fixture(autouse=True)
def _ctrl_c_raises() -> Any:
    """A test run in a shell's background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_cancels_the_token_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[Step] = []

    async def work(_options: object, _show: object, token: CancelToken) -> None:
        steps.append(Step())
        running = asyncio.ensure_future(token.run(steps[0].work()))
        await steps[0].begun.wait()
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        await running

    with pytest.raises(KeyboardInterrupt):
        complete(monkeypatch, work)
    assert steps[0].cleaned == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_command_may_answer_a_cancel_with_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(_options: object, _show: object, token: CancelToken) -> str:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)
        return "part" if token.is_canceled else "whole"

    assert complete(monkeypatch, work) == "part"


def test_a_second_ctrl_c_does_not_wait_for_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(_options: object, _show: object, _token: CancelToken) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        complete(monkeypatch, work)


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    calls: list[str] = []
    with interrupts_call(lambda: calls.append("cancel")):
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert calls == []

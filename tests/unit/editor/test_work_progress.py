"""Progress of works: how often the client gets a report, in which order, and with which words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.protocol import Progress
from fuselight_server.editor.handlers.work_progress import REPORT_SECONDS, ShownWork, WorkProgress
from fuselight_server.editor.results.run_progress import describe
from fuselight_server.execution.runs.keys import Key
from tests.support.live_simulation import ManualClock


class ProgressClient:
    """A server whose messages the client notes, and the time."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sent: list[tuple[str, str]] = []
        """Kind and words of each message of progress."""
        self.tokens: dict[str | int, int] = {}
        """By each token that was created: how many messages it got."""
        self._tasks: list[asyncio.Task[Any]] = []
        server: Any = SimpleNamespace(
            state=SimpleNamespace(client=SimpleNamespace(progress=True)),
            progress=self._note,
            spawn=lambda work, _what: self._tasks.append(asyncio.ensure_future(work)),
            window_work_done_progress_create=self._create,
        )
        self.works: WorkProgress[str] = WorkProgress(server)

    def _create(self, params: Any) -> Future[None]:
        self.tokens[params.token] = 0
        return Future()  # a client that has not answered yet

    def _note(self, params: Any) -> None:
        self.tokens[params.token] += 1
        self.sent.append((params.value.kind, getattr(params.value, "message", None) or ""))

    def show(self, **words: str) -> None:
        self.works.show({name: ShownWork(text) for name, text in words.items()})

    async def settle(self) -> None:
        """Let the works begin that were shown for the first time."""
        await asyncio.sleep(0)

    def taken(self) -> list[tuple[str, str]]:
        """The messages since the last call."""
        sent, self.sent = self.sent, []
        return sent

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


def watch(script: Callable[[ProgressClient], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        client, loop = ProgressClient(), asyncio.get_running_loop()
        loop.call_later = client.clock.call_later  # type: ignore[method-assign,assignment]
        await script(client)
        client.close()

    asyncio.run(run())


def test_reports_come_at_most_once_in_an_interval_and_the_last_one_comes() -> None:
    async def script(client: ProgressClient) -> None:
        client.show(fix="step 0")
        await client.settle()
        assert client.taken() == [("begin", "step 0")]
        for step in range(180):  # of one second
            client.show(fix=f"step {step}")
            client.clock.advance(1 / 180)
        client.clock.advance(REPORT_SECONDS)
        reports = client.taken()
        assert 8 <= len(reports) <= 11
        assert reports[-1] == ("report", "step 179")
        client.clock.advance(10 * REPORT_SECONDS)
        assert client.taken() == [], "nothing has changed"
        client.show(fix="step 180")
        assert client.taken() == [("report", "step 180")], "the first change after a pause does not wait"

    watch(script)


def test_the_end_does_not_wait_and_comes_after_the_last_report() -> None:
    async def script(client: ProgressClient) -> None:
        client.show(fix="step 0")
        await client.settle()
        client.show(fix="step 1")
        client.show(fix="step 2")
        client.show()
        assert client.taken() == [("begin", "step 0"), ("report", "step 2"), ("end", "")]
        client.clock.advance(REPORT_SECONDS)
        assert client.taken() == [], "no report comes after the end"

    watch(script)


def test_each_work_has_its_own_interval() -> None:
    async def script(client: ProgressClient) -> None:
        client.show(first="a 0")
        await client.settle()
        client.clock.advance(REPORT_SECONDS)
        client.show(first="a 1", second="b 0")
        await client.settle()
        assert client.taken() == [("begin", "a 0"), ("report", "a 1"), ("begin", "b 0")]
        client.show(first="a 2", second="b 1")
        assert client.taken() == []
        client.clock.advance(REPORT_SECONDS)
        assert client.taken() == [("report", "a 2"), ("report", "b 1")]
        assert list(client.tokens.values()) == [3, 2]

    watch(script)


def test_a_work_begins_before_it_is_reported_and_one_that_ended_before_does_not_begin() -> None:
    async def script(client: ProgressClient) -> None:
        client.show(first="a 0", second="b 0")
        client.show(first="a 1")
        assert client.taken() == []
        await client.settle()
        assert client.taken() == [("begin", "a 1")]
        assert len(client.tokens) == 1

    watch(script)


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (None, "starting step"),
        (Progress(1, "import", "model.py"), "importing model.py"),
        (Progress(1, "import"), "importing step"),
        (Progress(1, "trace", "frame 17, model.py:88"), "tracing frame 17, model.py:88"),
        (Progress(1, "trace", path="/project/model.py", line=88), "tracing model.py:88"),
    ],
)
def test_the_words_say_how_far_a_run_is(progress: Progress | None, words: str) -> None:
    run: Any = SimpleNamespace(job=SimpleNamespace(key=Key("/project/model.py", "step")), progress=progress)
    assert describe(run) == words

"""A live run for tests, and its edits."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

from fuselight.protocol import Answer, LiveReady, LiveRequest, Refused, Retrace
from fuselight.report import Report, Tier
from tests.support.live_worker import LiveWorker

_IDS = itertools.count(100)


class LiveRun:
    """A live run of a source, and its edits."""

    def __init__(self, live: LiveWorker, source: str, name: str = "f", **options: Any) -> None:
        self.live, self.source = live, source
        request = replace(live.request(source, name, **options).of_kind(LiveRequest), id=next(_IDS))
        self.path = request.target.path
        self.ready: LiveReady | None = None
        self._task = live.loop.create_task(live.worker.run_live(request, lambda _: None, self._set_ready))
        self._event = asyncio.Event()
        self.id = request.id
        live.do(self._until_ready())

    def _set_ready(self, ready: LiveReady) -> None:
        self.ready = ready
        self._event.set()

    async def _until_ready(self) -> None:
        await asyncio.wait(
            {self._task, asyncio.ensure_future(self._event.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
        assert self.ready is not None, self._task.result()

    @property
    def functions(self) -> dict[str, int]:
        """Calls that were kept of each function."""
        assert self.ready is not None
        return {one.name: one.calls for one in self.ready.functions}

    def ask(self, text: str, *names: str, **options: Any) -> Answer | Refused:
        request = Retrace(11, self.id, self.path, text, names, **options)
        answer = self.live.do(self.live.worker.retrace(request))
        assert answer.id == 11
        return answer

    def edit(self, old: str, new: str, *names: str) -> Report:
        assert old in self.source
        answer = self.ask(self.source.replace(old, new), *names)
        assert isinstance(answer, Answer), answer
        assert answer.report.tier is Tier.PREDICTED
        return answer.report

    def reason(self, old: str, new: str, *names: str) -> str:
        assert old in self.source
        answer = self.ask(self.source.replace(old, new), *names)
        assert isinstance(answer, Refused), answer
        assert answer.failure is not None
        return answer.reason

    def close(self) -> None:
        self._task.cancel()
        self.live.do(self._ended())

    async def _ended(self) -> None:
        await asyncio.wait({self._task})


def breaks(report: Report) -> list[tuple[int, str]]:
    """Line and cause of each break, once."""
    assert not report.problems, report.problems
    return sorted({(one.stack[-1].line, one.types[0]) for one in report.breaks})

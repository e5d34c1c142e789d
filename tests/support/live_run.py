"""An open live run, for tests and benchmarks: the traces that it is asked for, and their answers."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

from fuselight.shared.protocol import Answer, LiveReady, LiveRequest, Refused, Retrace, RunRequest
from fuselight.shared.report import Report, Tier
from tests.support.live_worker import LiveWorker

_IDS = itertools.count(100)


class LiveRunClient:
    """A live run from its start to `close`; `ready` is None where it ended before it was ready."""

    def __init__(self, live: LiveWorker, request: RunRequest) -> None:
        self.live = live
        self.id = next(_IDS)
        self.path = request.target.path
        self.ready: LiveReady | None = None
        self._event = asyncio.Event()
        started = replace(request.of_kind(LiveRequest), id=self.id)
        self._task = live.loop.create_task(
            live.worker.run_live(started, lambda _progress: None, self._set_ready)
        )
        live.do(self._until_ready())

    def _set_ready(self, ready: LiveReady) -> None:
        self.ready = ready
        self._event.set()

    async def _until_ready(self) -> None:
        waiting = asyncio.ensure_future(self._event.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    def ask(self, text: str, *names: str, **options: Any) -> Answer | Refused:
        """Trace functions again with another text of the target's file."""
        request = Retrace(next(_IDS), self.id, self.path, text, names, **options)
        answer = self.live.do(self.live.worker.retrace(request))
        assert answer.id == request.id
        return answer

    def ask_early(self, text: str, *names: str) -> tuple[list[Report], Answer | Refused]:
        """Trace functions again; returns what the trace said before its end, too."""
        early: list[Report] = []
        request = Retrace(next(_IDS), self.id, self.path, text, names)
        return early, self.live.do(self.live.worker.retrace(request, early.append))

    def close(self) -> None:
        self._task.cancel()
        self.live.do(self._ended())

    async def _ended(self) -> None:
        await asyncio.wait({self._task})


class EditedRun(LiveRunClient):
    """A live run of a source, and its edits."""

    def __init__(self, live: LiveWorker, source: str, name: str = "f", **options: Any) -> None:
        self.source = source
        super().__init__(live, live.request(source, name, **options))
        assert self.ready is not None, self._task.result()
        self.functions = {function.name: function.calls for function in self.ready.functions}
        """Calls that were kept of each function."""

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


def breaks(report: Report) -> list[tuple[int, str]]:
    """Line and cause of each break, once."""
    assert not report.problems, report.problems
    return sorted({(graph_break.stack[-1].line, graph_break.types[0]) for graph_break in report.breaks})

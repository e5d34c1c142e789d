"""Live runs: functions of an edited file traced by themselves, on the arguments of a recorded call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from fuselight.protocol import Answer, LiveReady, LiveRequest, Refused, Retrace
from fuselight.report import Report, Tier
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch


class LiveRun:
    """A live run of a source, and its edits."""

    def __init__(self, live: LiveWorker, source: str, name: str = "f", **options: Any) -> None:
        self.live, self.source = live, source
        request = live.request(source, name, **options).of_kind(LiveRequest)
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

    def close(self) -> Answer | Refused | None:
        self._task.cancel()
        self.live.do(self._ended())
        return None

    async def _ended(self) -> None:
        await asyncio.wait({self._task})


def breaks(report: Report) -> list[tuple[int, str]]:
    """Line and cause of each break, once."""
    assert not report.problems, report.problems
    return sorted({(one.stack[-1].line, one.types[0]) for one in report.breaks})


NET = """\
import torch
from torch import nn

def scale(x, factor):
    return x * factor

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def attend(self, x, *, mask=None):
        y = self.linear(x)
        if mask is not None:
            y = y + mask
        return y

    # fuselight: Net()(f32[4, 8])
    def forward(self, x):
        x = scale(x, 2.0)
        return self.attend(x, mask=x).relu()
"""


@pytest.fixture(scope="module")
def net(live: LiveWorker) -> Iterator[LiveRun]:
    made = LiveRun(live, NET, "Net")
    yield made
    made.close()


def test_functions_that_were_traced_are_listed(net: LiveRun) -> None:
    assert net.functions == {"scale": 1, "Net.attend": 1, "Net.forward": 1}


def test_a_break_is_predicted_on_its_line(net: LiveRun) -> None:
    report = net.edit(
        "        y = self.linear(x)\n",
        "        y = self.linear(x)\n        print(y.sum().item())\n",
        "Net.attend",
    )
    assert {line for line, _ in breaks(report)} == {14}
    assert report.failures == ()


def test_an_edit_without_a_break_has_none(net: LiveRun) -> None:
    assert breaks(net.edit("y = self.linear(x)", "y = self.linear(x).sin()", "Net.attend")) == []


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("def attend(self, x, *, mask=None)", "def attend(self, x, *, mask=None, scale=1)", "signature"),
        ("def attend(self, x, *, mask=None)", "def attend(self, x, *, mask=False)", "defaults"),
        ("    def attend(", "    @torch.no_grad()\n    def attend(", "decorators"),
        ("y = self.linear(x)", "y = self.linear(x", "syntax"),
        ("y = self.linear(x)", "y = yield self.linear(x)", "kind"),
        ("def attend(", "def look(", "missing"),
    ],
)
def test_an_edit_that_cannot_be_traced_is_refused_with_its_reason(
    net: LiveRun, old: str, new: str, reason: str
) -> None:
    assert net.reason(old, new, "Net.attend") == reason


def test_a_name_that_only_a_run_defines_is_no_error_of_the_function(net: LiveRun) -> None:
    new = NET.replace("y = self.linear(x)", "y = helper(x)")
    added = net.ask(new.replace("class Net", "def helper(x):\n    return x\n\nclass Net"), "Net.attend")
    assert isinstance(added, Refused)
    assert added.reason == "module"
    misspelled = net.ask(new, "Net.attend")
    assert isinstance(misspelled, Answer)
    assert "helper" in misspelled.report.failures[0].message

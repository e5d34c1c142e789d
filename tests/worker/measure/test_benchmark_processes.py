"""Real processes of a benchmark that run in parallel: no end of one affects the others."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from fuselight.measure.coordinator import Measuring
from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import InputsPlan, Limits, MeasureRequest, Target
from fuselight.shared.report import Machine, MeasuredConfiguration
from fuselight.worker.child.state import ChildJob
from fuselight.worker.timed import benchmark, configuration
from tests.support.live_worker import wait_gone

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nothing is forked elsewhere"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # these forks run Python alone
]
LONG = "a long note " * 200_000
"""More than a pipe holds."""


def play(job: ChildJob, name: str, channel: Connection, parent: int) -> None:
    """A fake `configuration.main`: answers orders, with long answers if two are pending."""
    del job, parent
    row = MeasuredConfiguration(name)
    while True:
        try:
            what = wire.load(channel.recv_bytes())["do"]
        except EOFError:
            os._exit(0)
        end(what, name, channel)
        if what == "read" or (what == "compare" and name == "talks"):
            row = MeasuredConfiguration(name, notes=(LONG,))
        answer: dict[str, Any] = {"row": encode(row)}
        if what == "reference":
            answer = {"varies": "", "why": "it is a fake"}
        elif what == "first":
            answer |= {"fresh": False, "work": "inference", "device": "cpu", "machine": encode(Machine("?"))}
        elif what == "warm":
            answer["us"] = 1.0
        channel.send_bytes(wire.dump(answer))


def end(what: str, name: str, channel: Connection) -> None:
    """End in the way that the name describes."""
    if (what, name) == ("compare", "dies"):
        os._exit(3)
    if (what, name) == ("compare", "closes"):
        channel.close()
    while (what, name) in {("compare", "closes"), ("read", "hangs")}:
        signal.pause()


def test_one_failure_does_not_lose_the_other_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "main", play)
    monkeypatch.setattr(benchmark, "_LEAVES", 1.0)
    plan = MeasurePlan(limit_seconds=5.0, rounds=2, seconds=0.1)
    request = MeasureRequest(
        id=1, generation=1, target=Target(str(tmp_path / "model.py"), "f", "function", 1, compiled=False),
        inputs=InputsPlan(), roots=(str(tmp_path),), limits=Limits(seconds=0, memory_mb=0), plan=plan,
    )  # fmt: skip
    job = ChildJob(request, str(tmp_path), frozenset(), progress=-1, threads=1)
    started: list[benchmark.ConfigurationProcess] = []

    def start(name: str) -> benchmark.ConfigurationProcess:
        started.append(benchmark.ConfigurationProcess(job, name))
        return started[-1]

    names = ("eager", "closes", "dies", "hangs", "talks")
    measured = Measuring(plan, names, start, lambda _: None, lambda _: None).run()
    ends = {
        measured_configuration.name: measured_configuration.failure.kind
        if measured_configuration.failure
        else ""
        for measured_configuration in measured.configurations
    }
    assert ends == {
        "eager": "", "closes": "descriptors", "dies": "internal", "hangs": "timeout", "talks": "",
    }  # fmt: skip
    notes = {
        measured_configuration.name: measured_configuration.notes
        for measured_configuration in measured.configurations
    }
    assert notes["eager"] == notes["talks"] == (LONG,)
    assert len(started) == len(names) + 1
    for process in started:
        wait_gone(process._process.pid)

"""A run that the system has killed for a lack of memory, and one that something else has killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fuselight.shared.codec import decode
from fuselight.shared.protocol import CaptureRequest, InputsPlan, Progress, Target
from fuselight.shared.report import Failure, Versions
from fuselight.shared.wire import load
from fuselight.worker.child import answers
from fuselight.worker.processes import children, process

VERSIONS = Versions("3.12", torch="2.13.0", triton=None, fuselight="0", platform="linux", executable="python")


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize(
    ("kills", "kind", "words"),
    [
        (3, "signal", "the process died of SIGKILL in the call; last seen at model.py:7"),
        (4, "memory", "killed by the system, which had no memory left in the call; last seen at model.py:7"),
    ],
)
def test_what_the_kernel_counted_decides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kills: int, kind: str, words: str
) -> None:
    target = Target("/p/model.py", "f", "function", 1, compiled=False)
    request = CaptureRequest(1, 0, target, InputsPlan(), ("/p",))
    running = children.RunningChild(request, 1, str(tmp_path), 10, 11, 12, system_kills=3)
    running.last = Progress(1, "trace", "", "/p/model.py", 7)
    monkeypatch.setattr(process, "system_kills", lambda: kills)
    data = load(answers.answer(running, -signal.SIGKILL, VERSIONS))
    failure = decode(Failure, data["report"]["failures"][0])
    assert (failure.kind, failure.message) == (kind, words)
    assert failure.stack[-1].line == 7


def test_the_count_of_the_kernel_is_a_number_or_nothing() -> None:
    assert process.system_kills() >= 0

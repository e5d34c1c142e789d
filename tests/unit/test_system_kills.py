"""A run that the system has killed for a lack of memory, and one that something else has killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fuselight.shared.codec import decode
from fuselight.shared.protocol import (
    CaptureRequest,
    InputsPlan,
    MeasureRequest,
    Progress,
    RunRequest,
    Target,
    VerifyRequest,
)
from fuselight.shared.report import Failure, Versions
from fuselight.shared.wire import load
from fuselight.worker.child import answers, run_failures
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


PLAN = InputsPlan()
WITH_DIRECTIVE = CaptureRequest(
    1, 0, Target("/p/model.py", "f", "function", 1, compiled=False), PLAN, ("/p",)
)
PROGRAM = CaptureRequest(1, 0, Target("/p/train.py", "", "main", 1, compiled=False), PLAN, ("/p",))
CALL = CaptureRequest(1, 0, Target("/p/train.py", "step", "call", 9, compiled=False), PLAN, ("/p",))


IN_A_PROGRAM = "use smaller sizes in the program (`fuselight memory` estimates which lines hold most)"


@pytest.mark.parametrize(
    ("request_of_run", "step"),
    [
        (WITH_DIRECTIVE, "use smaller inputs, write fake=True in the directive"),
        (PROGRAM, IN_A_PROGRAM),
        (CALL, IN_A_PROGRAM),
        (WITH_DIRECTIVE.of_kind(MeasureRequest), "use smaller inputs"),
        (WITH_DIRECTIVE.of_kind(VerifyRequest), "use smaller inputs"),
        (PROGRAM.of_kind(MeasureRequest), IN_A_PROGRAM),
    ],
)
def test_fake_tensors_are_advised_only_where_a_directive_can_ask_for_them(
    request_of_run: RunRequest, step: str
) -> None:
    by_limit = run_failures.memory_failure(request_of_run, (), "call", None)
    assert by_limit.next_step == f"{step}, or raise the setting `fuselight.limits.memoryMb`"
    assert by_limit.message == f"killed for using more than {request_of_run.limits.memory_mb} MB in the call"
    by_system = run_failures.system_memory_failure(request_of_run, "call", None)
    assert by_system.next_step == f"{step}, or free memory on this machine"
    unknown = run_failures.signal_failure(signal.SIGKILL, request_of_run, (), "call", None)
    assert unknown.next_step == f"if the system ran out of memory, {step}, or free memory on this machine"
    crash = run_failures.signal_failure(signal.SIGSEGV, request_of_run, (), "call", None)
    assert "memory" not in crash.next_step

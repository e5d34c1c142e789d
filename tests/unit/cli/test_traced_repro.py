"""`fuselight repro` of faults in tracing, with a scripted compiler: a cancel, two faults, code that cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import CaptureRequest, GraphsRequest, ScriptRequest
from fuselight.shared.report import (
    Break,
    Culprit,
    Failure,
    Location,
    RecordedCode,
    Report,
    Reproduction,
    ScriptOutcome,
    ScriptState,
)
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands import repro
from fuselight_server.commands.options import CommandOptions
from tests.support.command import AnsweringWorker
from tests.support.compared_results import ScriptedProgram

ERROR = "InternalTorchDynamoError: no constant"
DEFINITIONS = """\
import torch

def secret_note(prefix):
    unrelated = prefix * 2
    return format(prefix)

def secret_step(amount):
    kept = amount + 1
    return secret_note("customer")
"""
CODE = RecordedCode(DEFINITIONS, "secret_step", "torch.ones(3)", ERROR)
BREAK_REASONS = "Missing bytecode handler", "Unsupported method call"


@dataclass
class ScriptedTracing:
    """Answers as a worker whose trace fails, or breaks, on programs that call `format`."""

    codes: tuple[RecordedCode, ...] = (CODE,)
    breaks: tuple[Break, ...] = ()
    needs: str = "format("
    program: ScriptedProgram = field(default_factory=ScriptedProgram)
    scripts: list[ScriptRequest] = field(default_factory=list)
    confirmations: list[str] = field(default_factory=list)
    """When each new process of a confirmation began and ended."""

    def answer(self, request: Any) -> Report:
        report = self.program.answer(request)
        if isinstance(request, GraphsRequest):
            codes = self.codes if request.code is not None else ()
            if request.code is not None and request.code.reason:
                codes = tuple(replace(code, error=f"Unsupported: {request.code.reason}") for code in codes)
            return replace(report, reproduction=Reproduction(codes=codes))
        if isinstance(request, ScriptRequest):
            self.scripts.append(request)
            return replace(report, reproduction=Reproduction(outcome=self._outcome(request)))
        if isinstance(request, CaptureRequest):
            return replace(report, breaks=self.breaks)
        failure = Failure(Culprit.COMPILER, "trace", ERROR, "", exception="InternalTorchDynamoError")
        return report if self.breaks else replace(report, failures=(failure,))

    def _outcome(self, request: ScriptRequest) -> ScriptOutcome:
        if self.needs not in request.script or "eager" in request.arguments:
            return ScriptOutcome(ScriptState.RIGHT)
        reason = next((reason for reason in BREAK_REASONS if reason in request.script), BREAK_REASONS[0])
        text = f"Unsupported: {reason}" if self.breaks else ERROR
        return ScriptOutcome(ScriptState.FAULT, text, place="_dynamo/x.py: y")


@pytest.fixture
def options(tmp_path: Path) -> CommandOptions:
    (tmp_path / "pyproject.toml").touch()
    path = tmp_path / "m.py"
    path.write_text("import torch\n\n\n# fuselight: step()(f32[3])\ndef step(x):\n    return x\n")
    return CommandOptions(paths=(path,))


Run = Callable[..., list[repro.Fault]]


@pytest.fixture
def run(options: CommandOptions, monkeypatch: pytest.MonkeyPatch) -> Run:
    def faults(
        tracing: ScriptedTracing, token: CancelToken | None = None, stop_at: int = 0
    ) -> list[repro.Fault]:
        class Worker(AnsweringWorker):
            async def run(self, request: Any, progress: Any, partial: Any) -> Any:
                if (
                    token is not None
                    and isinstance(request, ScriptRequest)
                    and len(tracing.scripts) == stop_at
                ):
                    token.cancel()  # Ctrl-C
                    await asyncio.sleep(0)
                if not (isinstance(request, ScriptRequest) and request.fresh):
                    return await super().run(request, progress, partial)
                tracing.confirmations.append("begins")
                await asyncio.sleep(0)
                answer = await super().run(request, progress, partial)
                tracing.confirmations.append("ends")
                return answer

        Worker(tracing.answer).put_in_place(monkeypatch)
        plan = repro.ReproPlan()
        work = repro.reproduce(options, lambda _text: None, token or CancelToken(), plan=plan)
        return asyncio.run(work).faults

    return faults


def test_a_failure_becomes_a_program_without_a_name_of_the_user(run: Run) -> None:
    (fault,) = run(ScriptedTracing())
    assert fault.confirmed is not None, fault.why_not
    assert not fault.is_partial
    for word in ("secret", "customer", "unrelated", "amount", "kept"):
        assert word not in fault.confirmed.script


def test_the_processes_of_a_confirmation_run_at_once(run: Run) -> None:
    tracing = ScriptedTracing()
    run(tracing)
    assert tracing.confirmations == ["begins", "begins", "ends", "ends"]


def test_a_cancel_keeps_the_smallest_program_with_neutral_names(run: Run) -> None:
    tracing = ScriptedTracing()
    (fault,) = run(tracing, CancelToken(), stop_at=2)
    assert fault.confirmed is not None, fault.why_not
    assert fault.is_partial
    assert "secret" not in fault.confirmed.script
    assert [request.fresh for request in tracing.scripts[2:]] == [True, True], "it is confirmed all the same"


def test_a_canceled_program_that_needs_a_name_is_not_shown(run: Run) -> None:
    tracing = ScriptedTracing(needs="secret_note")
    with pytest.raises(asyncio.CancelledError):
        run(tracing, CancelToken(), stop_at=2)
    fresh = [request for request in tracing.scripts if request.fresh]
    assert fresh
    assert not any("secret" in request.script for request in fresh)


def test_a_cancel_while_a_program_is_confirmed_keeps_it(run: Run) -> None:
    tracing = ScriptedTracing()
    run(tracing)
    count = next(at for at, request in enumerate(tracing.scripts) if request.fresh)
    (fault,) = run(ScriptedTracing(), CancelToken(), stop_at=count)
    assert fault.confirmed is not None, fault.why_not


def test_two_breaks_are_two_faults(run: Run, options: CommandOptions) -> None:
    hints = ("Please report an issue to PyTorch.",)
    place = Location(str(options.paths[0]), 6)
    breaks = tuple(
        Break("0/0", (None,), ("x",), (place,), reason=reason, hints=hints) for reason in BREAK_REASONS
    )
    faults = run(ScriptedTracing(breaks=(*breaks, breaks[0])))
    assert [fault.what for fault in faults] == ["break", "break"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (replace(CODE, definitions="def f(:\n"), "its code cannot be read"),
        (
            replace(CODE, definitions="", unprintable="the source of `f` is not known"),
            "the source of `f` is not known",
        ),
        (replace(CODE, definitions="import torch\n"), "the call alone, with torch alone, does not show it"),
    ],
)
def test_code_that_cannot_be_a_program_is_said(run: Run, code: RecordedCode, why: str) -> None:
    (fault,) = run(ScriptedTracing(codes=(code,)))
    assert fault.confirmed is None
    assert why in fault.why_not

"""`fuselight repro` on faults in tracing of torch 2.13: a failure, a graph break, a compile that does not end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.protocol import GraphsRequest, Limits, RunRequest, ScriptRequest
from fuselight.shared.report import (
    MARK,
    CodeSearch,
    Location,
    RecordedCode,
    Reproduction,
    ScriptOutcome,
    ScriptState,
)
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.repro import Fault, ReproPlan, reproduce
from fuselight_server.repro.source_program import Tracing, program_of_code
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

FAILS = """\
import torch


class Ledger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.secret_gains = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(1))])

    def describe(self, title):
        return title + format(self.secret_gains)  # Dynamo fails

    def forward(self, amounts):
        y = amounts * 2
        note = self.describe("customer 42")
        return y + len(note)


if __name__ == "__main__":
    torch.compile(Ledger(), backend="eager")(torch.ones(3))
"""
BREAKS = """\
import torch


def rows(secret_table):
    global last
    last = secret_table
    del last
    return len(secret_table)


def step(amounts):
    y = amounts.sin()
    torch._dynamo.graph_break()
    return y * rows([1, 2])


if __name__ == "__main__":
    torch.compile(step, backend="eager")(torch.ones(3))
"""
ENDLESS = """\
import torch


def decay(amounts, steps):
    for _ in range(steps):
        amounts = amounts + 1.0
    return amounts


def step(amounts):
    y = decay(amounts, 100000)
    return y.relu()


if __name__ == "__main__":
    torch.compile(step, backend="eager")(torch.ones(3))
"""


def program(live: LiveWorker, source: str) -> RunRequest:
    """The request to run a file as a program."""
    return live.request(source, "").of_kind(GraphsRequest)


def recorded(live: LiveWorker, source: str, search: CodeSearch) -> Reproduction:
    request = program(live, source).of_kind(GraphsRequest, code=search, preload=False)
    report = live.report(request)
    assert report.reproduction is not None, report.failures
    assert not report.failures
    return report.reproduction


def shown(live: LiveWorker, code: RecordedCode, observed: Tracing, reason: str = "") -> ScriptOutcome:
    script = replace(program_of_code(code, observed, ""), reason=reason, seconds=1.0).script
    report = live.report(program(live, "").of_kind(ScriptRequest, script=script))
    assert report.reproduction is not None
    assert report.reproduction.outcome is not None
    return report.reproduction.outcome


def test_the_call_that_fails_and_the_calls_in_it_show_the_failure(live: LiveWorker) -> None:
    codes = recorded(live, FAILS, CodeSearch()).codes
    assert len(codes) == 2, codes
    assert codes[0].error.startswith("InternalTorchDynamoError: ")
    outcomes = [shown(live, code, Tracing.FAILURE) for code in codes]
    assert [outcome.state for outcome in outcomes] == [ScriptState.FAULT] * 2
    assert len({(outcome.text.partition("\n")[0], outcome.place) for outcome in outcomes}) == 1, (
        "the innermost fails as the whole"
    )
    assert outcomes[0].place.startswith("_dynamo/")


def test_the_call_that_breaks_is_found_by_its_line_after_another_break(live: LiveWorker) -> None:
    line = BREAKS.splitlines().index("    del last") + 1
    place = Location(str(live.folder / "model.py"), line)
    codes = recorded(live, BREAKS, CodeSearch(place, "Missing bytecode handler")).codes
    assert "def rows" in codes[0].definitions
    outcome = shown(live, codes[0], Tracing.BREAK)
    assert outcome.state is ScriptState.FAULT
    assert outcome.text.startswith("Unsupported: Missing bytecode handler")
    assert shown(live, codes[1], Tracing.BREAK).text.startswith(
        "Unsupported: Call to `torch._dynamo.graph_break()`"
    )
    outcome = shown(live, codes[1], Tracing.BREAK, "Missing bytecode handler")
    assert outcome.state is ScriptState.FAULT
    assert outcome.text.startswith("Unsupported: Missing bytecode handler")


def test_a_break_in_a_loop_for_which_the_frame_is_skipped_is_found(live: LiveWorker) -> None:
    loop = "    for _ in [0]:\n        y = y * rows([1])\n    return y"
    source = BREAKS.replace("    torch._dynamo.graph_break()\n    return y * rows([1, 2])", loop)
    place = Location(str(live.folder / "model.py"), source.splitlines().index("    del last") + 1)
    codes = recorded(live, source, CodeSearch(place, "Missing bytecode handler")).codes
    assert [code.error for code in codes] == ["Unsupported: Missing bytecode handler"] * 2


def test_a_compile_that_does_not_end_is_recorded_and_ended(live: LiveWorker) -> None:
    inner, code = recorded(live, ENDLESS, CodeSearch(hang_seconds=2.0)).codes
    assert (inner.function, code.function) == ("decay", "step"), (
        "what is traced when the time is over comes first"
    )
    assert inner.arguments.endswith("100000"), "the call is not made to its end"
    assert shown(live, inner, Tracing.HANG).state is ScriptState.FAULT


def test_what_fails_without_compiled_code_is_no_fault(live: LiveWorker) -> None:
    code = RecordedCode("import torch\ndef f(x):\n    return x.gone", "f", "torch.ones(1)")
    assert shown(live, code, Tracing.FAILURE).state is ScriptState.ERROR


def faults(live: LiveWorker, folder: Path, source: str, limit: float) -> tuple[list[Fault], int]:
    (folder / "pyproject.toml").touch()
    path = folder / "model.py"
    path.write_text(source)
    options = CommandOptions(paths=(path,), limits=Limits(limit, 16384))
    plan = ReproPlan(seconds=200.0)
    outcome = live.do_command(reproduce(options, lambda _text: None, CancelToken(), plan=plan))
    return outcome.faults, outcome.exit_code


@pytest.mark.corpora
@pytest.mark.parametrize(
    ("source", "what", "limit"),
    [(FAILS, "failure", 120.0), (BREAKS, "break", 120.0), (ENDLESS, "hang", 40.0)],
)
def test_a_fault_in_tracing_becomes_a_program_that_a_new_process_confirms(
    live: LiveWorker, folder: Path, source: str, what: str, limit: float
) -> None:
    (fault,), exit_code = faults(live, folder, source, limit)
    assert fault.what == what
    assert fault.confirmed is not None, fault.why_not
    assert exit_code == 0
    script = fault.confirmed.script
    assert script.count("\n") <= 40, script
    for word in ("Ledger", "secret", "customer", "amounts", "decay", "step", str(folder)):
        assert word not in script, script
    assert what == "hang" or MARK in script

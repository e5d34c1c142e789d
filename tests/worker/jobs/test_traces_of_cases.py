"""The findings of annotated cases in a run, and those of the traces that torch wrote in the same processes.

Invariant: what a trace cannot show is a list with the reason (`tests/support/traced_findings.py`); every other finding
is equal in code and line, and a trace has no finding that the run has not.
"""

from __future__ import annotations

import ast
import asyncio
import sys
from pathlib import Path

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.finding import Finding
from fuselight_server.commands.check import analyze
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.findings import expand
from tests.support.case_files import copied
from tests.support.live_worker import LiveWorker
from tests.support.traced_findings import ELSEWHERE, NOT_IN_A_TRACE, RECORDING, places

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]
CASES = Path(__file__).parents[2] / "cases"
FILES = [
    "breaks_calls.py",
    "breaks_data.py",
    "breaks_modules.py",
    "fullgraph.py",
    "not_compiled.py",
    "places.py",
    "recompile_main.py",
    "recompile_shapes.py",
    "recompile_values.py",
    *sorted(path.name for path in CASES.glob("special*.py")),
]


def recording(text: str) -> str:
    """The file, with a trace that starts on the last line of its docstring, so that all lines stay."""
    lines = text.splitlines(keepends=True)
    end = ast.parse(text).body[0].end_lineno or 1
    lines[end - 1] = f"{lines[end - 1].rstrip()}; import start_trace\n"
    return "".join(lines)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copied(CASES, FILES, tmp_path_factory.mktemp("workspace"))
    (folder / "start_trace.py").write_text(RECORDING.format(folder=str(folder / "traces")))
    for name in FILES:
        (folder / name).write_text(recording((folder / name).read_text(encoding="utf-8")), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(workspace: Path, live: LiveWorker) -> CheckOutcome:
    paths = tuple(workspace / name for name in FILES)
    options = CommandOptions(paths, python=sys.executable)
    return live.do_command(analyze(options, lambda _text: None, CancelToken()))


@pytest.fixture(scope="module")
def traced(workspace: Path, run: CheckOutcome) -> list[Finding]:
    assert run.reports
    request = OpenRequest((workspace / "traces",), (workspace,))
    jobs = asyncio.run(open_jobs(request, lambda _text: None, CancelToken()))
    return [finding for job in jobs for finding in job.findings]


def test_a_trace_has_the_findings_of_its_run(run: CheckOutcome, traced: list[Finding]) -> None:
    of_run, of_trace = places(run.findings), places(traced)
    missing = {place for place in of_run - of_trace if place[2] not in {*NOT_IN_A_TRACE, *ELSEWHERE}}
    assert missing == REST_OF_A_FUNCTION
    assert {place for place in of_trace - of_run if place[2] not in ELSEWHERE} == set()
    assert len(of_run & of_trace) > 60


REST_OF_A_FUNCTION = {("not_compiled.py", 40, "FL101")}
"""That torch cannot resume a function after a break is in no record."""


def test_every_recompilation_of_the_run_is_in_the_trace(run: CheckOutcome, traced: list[Finding]) -> None:
    """In the file, and on the line of the run where torch logs the origin of the guard."""
    of_run = [each for finding in run.findings for each in expand(finding) if each.code == "FL201"]
    of_trace = [each for finding in traced for each in expand(finding) if each.code == "FL201"]
    files = {Path(finding.span.path).name for finding in of_run}
    assert files == {Path(finding.span.path).name for finding in of_trace}
    equal = places(of_run) & places(of_trace)
    assert len(equal) >= 0.7 * len(places(of_run))

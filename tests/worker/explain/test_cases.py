"""Every annotated case end to end: static reading, plan, worker, torch.compile, findings.

The worker of the ring serves all files, as that of `fuselight check` does. The files are copied first, so that the
workspace is theirs alone. Invariant: what the command finds and what the files say are the same, finding by finding.
The files say per release of torch what comes on Python 3.11: ids and texts are torch's own, and other bytecode breaks
elsewhere.

Torch traces the runs of some files, and `fuselight open` reads their traces. What a trace cannot show is a list with
the reason (`tests/support/traced_findings.py`); every other finding is equal in code and line, and a trace has no
finding that the run has not.
"""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import re
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
from fuselight_server.source.positions import Places, tracked
from fuselight_server.source.text_changes import Change
from tests.support.case_files import RELEASES, cases_of, copied, selected, torch_release
from tests.support.cases import disagreements, expectations, rewritten
from tests.support.live_worker import LiveWorker
from tests.support.traced_findings import ELSEWHERE, NOT_IN_A_TRACE, RECORDING, places

CASES = Path(__file__).parents[2] / "cases"
OWN_KERNELS = "own_kernels.py"
"""A program that imports Triton itself."""
HAS_TRITON = importlib.util.find_spec("triton") is not None
FILES = sorted(path.name for path in CASES.glob("*.py") if HAS_TRITON or path.name != OWN_KERNELS)
TRACED = frozenset(
    {
        "breaks_calls.py",
        "breaks_data.py",
        "breaks_modules.py",
        "fullgraph.py",
        "not_compiled.py",
        "places.py",
        "recompile_main.py",
        "recompile_shapes.py",
        "recompile_values.py",
        *(path.name for path in CASES.glob("special*.py")),
    }
)
"""Files whose runs torch traces, too."""

WRITTEN_FOR = [(release, "3.11") for release in RELEASES]


def _here() -> tuple[str, str]:
    return torch_release(), ".".join(map(str, sys.version_info[:2]))


pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        _here() not in WRITTEN_FOR,
        reason=f"the cases are written for torch {', '.join(RELEASES)} on Python 3.11",
    ),
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
    for name in TRACED:
        (folder / name).write_text(recording((CASES / name).read_text(encoding="utf-8")), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def outcome(request: pytest.FixtureRequest, workspace: Path, live: LiveWorker) -> CheckOutcome:
    """What was found in the files of the tests that were selected; in all for a test that counts.

    No cure is tried: how many there is time for depends on the machine, and `test_cure_trials.py` tries them.
    """
    paths = selected(request, workspace, FILES)
    return live.do_command(
        analyze(CommandOptions(paths, python=sys.executable), lambda _text: None, CancelToken(), tries=0.0)
    )


@pytest.mark.parametrize("name", cases_of((name, CASES / name) for name in FILES))
def test_a_case_and_its_findings_agree(
    name: str, outcome: CheckOutcome, workspace: Path, pytestconfig: pytest.Config
) -> None:
    path = workspace / name
    text = (CASES / name).read_text(encoding="utf-8")
    findings = [
        finding for full in outcome.findings for finding in expand(full) if finding.span.path == str(path)
    ]
    if pytestconfig.getoption("--update-cases"):
        (CASES / name).write_text(rewritten(str(path), text, findings, torch_release()), encoding="utf-8")
        return
    messages = disagreements(str(path), text, findings, torch_release())
    assert not messages, "\n" + "\n".join(messages)


def test_nothing_is_found_outside_of_the_cases(outcome: CheckOutcome, workspace: Path) -> None:
    inside = {str(workspace / name) for name in FILES}
    assert [finding for finding in outcome.findings if finding.span.path not in inside] == []


def test_every_report_is_readable(outcome: CheckOutcome) -> None:
    assert outcome.problems == []
    assert [problem for report in outcome.reports for problem in report.problems] == []


@pytest.fixture(scope="module")
def run(outcome: CheckOutcome) -> list[Finding]:
    """What was found in the files whose runs torch traced."""
    parts = [part for full in outcome.findings for part in expand(full)]
    return [part for part in parts if Path(part.span.path).name in TRACED]


@pytest.fixture(scope="module")
def traced(workspace: Path, outcome: CheckOutcome) -> list[Finding]:
    assert outcome.reports
    request = OpenRequest((workspace / "traces",), (workspace,))
    jobs = asyncio.run(open_jobs(request, lambda _text: None, CancelToken()))
    return [finding for job in jobs for finding in job.findings]


def test_a_trace_has_the_findings_of_its_run(run: list[Finding], traced: list[Finding]) -> None:
    of_run, of_trace = places(run), places(traced)
    missing = {place for place in of_run - of_trace if place[2] not in {*NOT_IN_A_TRACE, *ELSEWHERE}}
    assert missing == set()
    assert {place for place in of_trace - of_run if place[2] not in ELSEWHERE} == set()
    assert len(of_run & of_trace) > 60


def test_the_rest_of_a_function_begins_on_the_line_of_the_run(
    run: list[Finding], traced: list[Finding]
) -> None:
    titles = [
        {part.title for part in findings if part.code == "FL101" and part.title.startswith("the rest of")}
        for findings in (run, traced)
    ]
    assert titles[0] == titles[1] != set()


def test_every_recompilation_of_the_run_is_in_the_trace(run: list[Finding], traced: list[Finding]) -> None:
    """In the file, and on the line of the run where torch logs the origin of the guard."""
    of_run = [finding for finding in run if finding.code == "FL201"]
    of_trace = [part for finding in traced for part in expand(finding) if part.code == "FL201"]
    files = {Path(finding.span.path).name for finding in of_run}
    assert files == {Path(finding.span.path).name for finding in of_trace}
    equal = places(of_run) & places(of_trace)
    assert len(equal) >= 0.7 * len(places(of_run))


def test_the_lines_that_texts_name_move_with_an_edit_above_them(outcome: CheckOutcome) -> None:
    """Whatever the text: the program's own words aside, each number of a line is one more after a line was added."""
    places = Places()
    files = "|".join(map(re.escape, FILES))
    named = re.compile(rf"(?:\b(?:{files}):|\bline )(\d+)\b")
    findings = [finding for finding in outcome.findings if not finding.code.startswith("FL4")]
    lives = tracked(findings, places)
    paths = {finding.span.path for finding in findings}
    for path in paths:
        places.apply_edit(
            path, Change((1, 0), (1, 0), (2, 0), start_at_line_end=False, adds_line_first=False)
        )
    compared = 0
    for live in lives:
        now = live.now()
        for before, after in ((live.finding.title, now.title), (live.finding.message, now.message)):
            texts = [re.sub(r"`[^`]*`", "", text) for text in (before, after)]
            numbers = [[int(number) for number in named.findall(text)] for text in texts]
            assert numbers[1] == [number + 1 for number in numbers[0]], before
            compared += len(numbers[0])
    assert compared >= 20


def test_there_are_enough_cases_graph_breaks_and_kinds_of_recompilation(outcome: CheckOutcome) -> None:
    """The numbers are those of the findings that came, each of which a case expects."""
    cases = sum(_cases(CASES / name) for name in FILES)
    breaks = {finding.code for finding in outcome.findings if finding.code.startswith("GB")}
    kinds = {
        (entry.failures[0].cause, entry.failures[0].kind)
        for report in outcome.reports
        for recompilation in report.recompiles
        for entry in recompilation.entries[:1]
        if entry.failures
    }
    causes = {cause for cause, _kind in kinds}
    assert cases >= 200
    assert len(breaks) >= 70
    assert len(kinds) >= 25
    assert len(causes) >= 15, sorted(cause.value for cause in causes)


def _cases(path: Path) -> int:
    """How many top-level definitions of a file expect a finding in them."""
    text = path.read_text(encoding="utf-8")
    starts = [
        text.count("\n", 0, match.start()) + 1
        for match in re.finditer(r"(?m)^(?:def|class|async|# fuselight|\w+ = )", text)
    ]
    owners = {
        max((start for start in starts if start <= expectation.line), default=0)
        for expectation in expectations(text)
    }
    return len(owners)

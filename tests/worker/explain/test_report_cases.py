"""Programs written after public reports, checked as they are: `fuselight check main.py` in each folder.

The expectations stand on the lines, as in the other annotated cases; a program may have several files. What torch's own
log says of each plain program is in `docs/results/reports.md`, with the report that it was written after. No cure is
tried but in the programs of `TRIED`: how many there is time for depends on the machine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.remedies import RemedyState
from fuselight_server.commands.check import analyze, fix_command
from fuselight_server.commands.fix import FixedFiles
from fuselight_server.commands.known_fixes import list_fixes
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import shown_path
from fuselight_server.execution.runs.planning import MAIN, RunOptions, named_runs
from fuselight_server.explain.findings import expand
from fuselight_server.fixes.verification.fixer import FixOptions
from tests.support.case_files import MAIN_RELEASE, cases_of, selected_names, torch_release
from tests.support.cases import disagreements, rewritten
from tests.support.live_worker import LiveWorker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.shared.protocol import RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.commands.targets import TargetRun

REPORTS = Path(__file__).parents[2] / "cases" / "reports"
PROGRAMS = cases_of((path.parent.name, path) for path in sorted(REPORTS.glob("*/main.py")))
TRIED = {
    "cache_index": {"(tried: 1 → 0 graph breaks)"},
    "closure_scale": {"(tried: 2 → 1 compiles)"},
    "frozen_config": {"(tried: 4 → 2 compiles)"},
    "range_product": set[str](),  # no change saves a compile
}
"""Programs in which every cure is tried, with what the advice says of the trials."""

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        (torch_release(), sys.version_info[:2]) != (MAIN_RELEASE, (3, 11)),
        reason=f"the programs are judged with torch {MAIN_RELEASE} on Python 3.11",
    ),
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    (folder / "pyproject.toml").touch()
    shutil.copytree(REPORTS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def outcome(request: pytest.FixtureRequest, workspace: Path, live: LiveWorker) -> CheckOutcome:
    """The findings of the programs of the selected tests, by one command in the worker of the ring."""
    return analyzed(selected_names(request, "name"), workspace, live, tries=0.0)


def analyzed(names: Iterable[str], workspace: Path, live: LiveWorker, tries: float | None) -> CheckOutcome:
    paths = tuple(workspace / name / "main.py" for name in names)
    command = CommandOptions(paths, python=sys.executable)
    return live.do_command(analyze(command, lambda _text: None, CancelToken(), tries=tries))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_and_its_findings_agree(
    name: str, outcome: CheckOutcome, workspace: Path, pytestconfig: pytest.Config
) -> None:
    mismatches = []
    for path in sorted((workspace / name).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        findings = [part for full in outcome.findings for part in expand(full) if part.span.path == str(path)]
        if pytestconfig.getoption("--update-cases"):
            source = REPORTS / path.relative_to(workspace)
            source.write_text(rewritten(str(path), text, findings, torch_release()), encoding="utf-8")
        else:
            mismatches += disagreements(str(path), text, findings, torch_release())
    assert not mismatches, "\n" + "\n".join(mismatches)


@pytest.fixture(scope="module")
def tried(request: pytest.FixtureRequest, workspace: Path, live: LiveWorker) -> CheckOutcome:
    return analyzed(selected_names(request, "tried_name"), workspace, live, tries=None)


@pytest.mark.parametrize("tried_name", cases_of((name, REPORTS / name / "main.py") for name in TRIED))
def test_the_advice_says_what_a_trial_saved(tried_name: str, tried: CheckOutcome, workspace: Path) -> None:
    main = str(workspace / tried_name / "main.py")
    assert any(report.trials for report in tried.reports if report.target.path == main)
    messages = [finding.message for finding in tried.findings if finding.span.path == main]
    assert {text for message in messages for text in re.findall(r"\(tried: [^)]*\)", message)} == TRIED[
        tried_name
    ]


def test_nothing_outside_of_the_programs_is_named(outcome: CheckOutcome, workspace: Path) -> None:
    """A frame of a library, of Python or of Fuselight is never where a user should look."""
    assert [part for part in outcome.findings if not Path(part.span.path).is_relative_to(workspace)] == []


@dataclasses.dataclass(frozen=True)
class KnownRun:
    """A run whose report is known. The calls of a part of a program alone have no finding, which is the worst case."""

    request: RunRequest
    known: Report
    token: CancelToken = dataclasses.field(default_factory=CancelToken)

    async def run_report(self, _request: RunRequest | None = None) -> Report:
        return self.known

    def of_call(self, request: RunRequest) -> KnownRun:
        nothing = dataclasses.replace(self.known, breaks=(), recompiles=(), not_compiled=(), failures=())
        return KnownRun(request, nothing)


def known_run(outcome: CheckOutcome, report: Report, workspace: Path) -> KnownRun:
    options = RunOptions((str(workspace),))
    (named_run,) = named_runs(outcome.readings[report.target.path], [report.target.name or MAIN], options)
    return KnownRun(named_run.start_message(1, 1, options), report)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_check_names_for_fix_has_a_fix_or_a_refusal(
    name: str, outcome: CheckOutcome, workspace: Path, tmp_path: Path
) -> None:
    main = str(workspace / name / "main.py")
    reports = [report for report in outcome.reports if report.target.path == main]
    here = [finding for finding in outcome.findings if finding.span.path.startswith(str(workspace / name))]
    alone = CheckOutcome(here, reports, sources=outcome.sources, readings=outcome.readings)
    list_fixes(alone)  # the check of all programs at once has more findings than it looks up fixes for
    command = fix_command(alone)
    files = FixedFiles(FixOptions(), str(tmp_path), writes=False)
    candidates = []
    for report in reports:
        run = cast("TargetRun", known_run(outcome, report, workspace))
        asyncio.run(files.report_of(run, outcome))
        candidates += [
            (finding.identity, remedy.kind)
            for finding in files.fixer.findings(report)
            for remedy in files.fixer.candidates(finding, report)
        ]
    offered = [remedy for finding in alone.findings for remedy in finding.remedies if remedy.is_fix]
    assert bool(candidates) == bool(offered), "both look at the findings of the whole program"
    assert bool(command) == any(remedy.state is not RemedyState.REFUSED for remedy in offered), (
        "what a trial refused is not worth a command"
    )
    assert not command or command.split()[2] == shown_path(main)
    files.refuse_program_fixes()
    is_split = any(report.recorded for report in reports)
    assert not is_split or len(files.attempts) == len(set(candidates)), "each once for all parts"
    assert all(attempt.why and attempt.report is None for attempt in files.attempts), (
        "each is refused, and says why"
    )

"""Programs written after public reports, checked as they are: `fuselight check main.py` in each folder.

The expectations stand on the lines, as in the other annotated cases; a program may have several files. What torch's own
log says of each plain program is in `docs/results/reports.md`, with the report that it was written after.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.check import analyze
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.findings import expand
from tests.support.case_files import MAIN_RELEASE, selected_names, torch_release
from tests.support.cases import disagreements, rewritten
from tests.support.live_worker import LiveWorker

REPORTS = Path(__file__).parents[2] / "cases" / "reports"
NAMES = sorted(path.parent.name for path in REPORTS.glob("*/main.py"))

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
    paths = tuple(workspace / name / "main.py" for name in selected_names(request, "name"))
    return live.do_command(
        analyze(CommandOptions(paths, python=sys.executable), lambda _text: None, CancelToken())
    )


@pytest.mark.parametrize("name", NAMES)
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


def test_nothing_outside_of_the_programs_is_named(outcome: CheckOutcome, workspace: Path) -> None:
    """A frame of a library, of Python or of Fuselight is never where a user should look."""
    assert [part for part in outcome.findings if not Path(part.span.path).is_relative_to(workspace)] == []

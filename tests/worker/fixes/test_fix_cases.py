"""Every annotated fix end to end: the finding of a run, its remedies, and their verification.

Invariant: what is offered and what the files say are the same, to the letter of the new text. The files say what comes
with the main release of torch on Python 3.11. The files share a folder, as the files of a project do: an attribute that
a fix converts must have a name that no other file uses.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuselight_server.commands.options import CommandOptions
from fuselight_server.fixes.verification.attempts import Attempt
from tests.support.case_files import MAIN_RELEASE, cases_of, selected, torch_release
from tests.support.fix_cases import attempts_of, disagreements, parse, rewritten
from tests.support.live_worker import LiveWorker

CASES = Path(__file__).parents[2] / "cases" / "fixes"
FILES = sorted(path.name for path in CASES.glob("*.py"))

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        (torch_release(), sys.version_info[:2]) != (MAIN_RELEASE, (3, 11)),
        reason=f"the fixes are annotated for torch {MAIN_RELEASE} on Python 3.11",
    ),
]


@pytest.fixture(scope="module")
def attempts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, live: LiveWorker
) -> dict[str, list[Attempt]]:
    """What was tried in the files of the selected tests, by name, by one command in the worker of the ring."""
    folder = tmp_path_factory.mktemp("cases") / "fixes"  # operators are named by the folder of their file
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    paths = selected(request, folder, FILES)
    cases = {str(path): parse((CASES / path.name).read_text(encoding="utf-8")) for path in paths}
    for path in paths:
        path.write_text(cases[str(path)].program, encoding="utf-8")
    tried = live.do_command(attempts_of(CommandOptions(paths, python=sys.executable), cases))
    return {Path(path).name: attempts for path, attempts in tried.items()}


@pytest.mark.parametrize("name", cases_of((name, CASES / name) for name in FILES))
def test_a_fix_case_and_its_remedies_agree(
    name: str, attempts: dict[str, list[Attempt]], pytestconfig: pytest.Config
) -> None:
    case = parse((CASES / name).read_text(encoding="utf-8"))
    if pytestconfig.getoption("--update-cases"):
        (CASES / name).write_text(rewritten(case, attempts[name]), encoding="utf-8")
        return
    messages = disagreements(case, attempts[name])
    assert not messages, "\n" + "\n".join(messages)

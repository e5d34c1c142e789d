"""Every annotated fix end to end: the finding of a run, its remedies, and their verification.

Invariant: what is offered and what the files say are the same, to the letter of the new text. The files say what comes
with the main release of torch on Python 3.11.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from fuselight_server.cli.options import CommandOptions
from tests.support.case_files import MAIN_RELEASE, torch_release
from tests.support.fix_cases import attempts_of, disagreements, parse, rewritten

CASES = Path(__file__).parents[1] / "cases" / "fixes"
FILES = sorted(path.name for path in CASES.glob("*.py"))

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        (torch_release(), sys.version_info[:2]) != (MAIN_RELEASE, (3, 11)),
        reason=f"the fixes are annotated for torch {MAIN_RELEASE} on Python 3.11",
    ),
]


@pytest.mark.parametrize("name", FILES)
def test_a_fix_case_and_its_remedies_agree(name: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    case = parse((CASES / name).read_text(encoding="utf-8"))
    path = tmp_path / name
    path.write_text(case.program, encoding="utf-8")
    (tmp_path / "pyproject.toml").touch()
    attempts = asyncio.run(attempts_of(CommandOptions((path,), python=sys.executable), case))
    if pytestconfig.getoption("--update-cases"):
        (CASES / name).write_text(rewritten(case, attempts), encoding="utf-8")
        return
    said = disagreements(case, attempts)
    assert not said, "\n" + "\n".join(said)

"""What `make test` leaves out of the corpora: a program is left out only if others have its kinds of findings."""

from __future__ import annotations

from pathlib import Path

from tests.support.case_files import MAIN_RELEASE, cases_of, is_further
from tests.support.cases import expectations

CASES = Path(__file__).parents[2] / "cases"
PROGRAMS = [*CASES.glob("*.py"), *CASES.glob("reports/*/main.py")]


def codes(program: Path) -> set[str]:
    """The codes that a case expects of the torch of `make test`, those of a folder in all of its files."""
    files = [program] if program.parent == CASES else program.parent.rglob("*.py")
    expected = (each for file in files for each in expectations(file.read_text(encoding="utf-8")))
    return {each.code for each in expected if MAIN_RELEASE in each.releases}


def test_other_programs_have_the_findings_of_each_further_one() -> None:
    further = [program for program in PROGRAMS if is_further(program)]
    others = {code for program in PROGRAMS if program not in further for code in codes(program)}
    assert {
        str(program): codes(program) - others for program in further if not codes(program) <= others
    } == {}


def test_a_program_is_further_by_a_line_of_its_own(tmp_path: Path) -> None:
    texts = {
        "first": "x = 1\n",
        "quoted": "x = '# run by: make corpora'\n",
        "further": "x = 1\n# run by: make corpora\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    parameters = cases_of((name, tmp_path / name) for name in texts)
    marked = [parameter.values[0] for parameter in parameters if parameter.marks]
    assert marked == ["further"]

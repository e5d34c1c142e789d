"""The check of names: which names a program binds, and which of them it rejects."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from check_words import bound_names, faults, faults_of_all, name_fault, shown_texts

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """\
import shutil as tools
class Row:
    found: int = 0
    def made(self, one, *, said=()):
        self.found, (first, *rest) = 1, [1, 2]
        with open("a") as handle, (again := handle):
            return [other for other in one if (lambda key: key)(other)]
try:
    total += one.found
except OSError as error:
    print(error, found=one)
"""


def test_each_way_to_bind_a_name_is_read_and_no_use_of_a_name() -> None:
    assert sorted(set(bound_names(ast.walk(ast.parse(PROGRAM))))) == [
        (1, "tools"),
        (2, "Row"),
        (3, "found"),
        (4, "made"),
        (4, "one"),
        (4, "said"),
        (4, "self"),
        (5, "first"),
        (5, "found"),
        (5, "rest"),
        (6, "again"),
        (6, "handle"),
        (7, "key"),
        (7, "other"),
        (9, "total"),
        (10, "error"),
    ]


@pytest.mark.parametrize(
    ("name", "path", "better"),
    [
        ("one", "scripts/lint.py", "`row`"),
        ("_found", "scripts/lint.py", "`matches`"),
        ("made", "compiler/fuselight/doctor/checks.py", "`report`"),
        ("_said", "tests/unit/cli/test_bench.py", "`message`"),
        ("test_a_librarys_kernel", "tests/unit/cli/test_bench.py", "`library`"),
        ("BehaviourOfAKernel", "scripts/lint.py", "`behavior`"),
    ],
)
def test_a_vague_or_misspelled_name_is_rejected_with_a_proposal(name: str, path: str, better: str) -> None:
    assert better in name_fault(name, path)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("one_sided", "scripts/lint.py"),
        ("is_found", "scripts/lint.py"),
        ("library", "scripts/lint.py"),
        ("found", "compiler/fuselight/doctor/check.py"),
    ],
)
def test_a_name_with_a_noun_passes_and_so_does_a_field_of_a_format(name: str, path: str) -> None:
    assert name_fault(name, path) == ""


def test_a_comment_is_read_with_its_line() -> None:
    text = 'x = 1  # set again\n# and reported\ny = "#3"\n'
    shown = shown_texts("scripts/a.py", text, ast.walk(ast.parse(text)))
    assert [*shown] == [(3, "#3"), (1, "set again"), (2, "and reported")]


def test_the_texts_of_a_table_are_read() -> None:
    assert [*shown_texts("server/fuselight_server/jobs/a.json", '["text"]', [])] == [(1, '["text"]')]


@pytest.mark.parametrize(
    ("text", "faults_of_line"),
    [
        ("x = 1\n\ny = 'it is set a" + "new'\n", ["scripts/a.py:3: `an" + "ew`: write `again`"]),
        ("x = 1\n# TO" + "DO: y\n", ["scripts/a.py:2: # TO" + "DO: y"]),
        ("x = 1\nfound = 2\n", ["scripts/a.py:2: name `found`: write the noun of the result, as `matches`"]),
        ("x = 1\n", []),
    ],
)
def test_each_kind_of_fault_is_on_its_line(
    text: str, faults_of_line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("check_words.ROOT", tmp_path)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "a.py").write_text(text)
    shown = [fault.partition(", `breaks`")[0] for fault in faults("scripts/a.py")]
    assert shown == faults_of_line


def test_a_file_without_faults_is_checked_again_once_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("check_words.ROOT", tmp_path)
    right, wrong, checked = tmp_path / "right.py", tmp_path / "wrong.py", tmp_path / "state" / "checked"
    right.write_text("x = 1\n")
    wrong.write_text("# TO" + "DO: y\n")
    names = [right.name, wrong.name]
    (fault,) = faults_of_all(names, checked)
    assert fault.startswith("wrong.py:1: ")
    monkeypatch.setattr("check_words.faults", lambda name: [f"{name} was checked"])
    assert faults_of_all(names, checked) == ["wrong.py was checked"]
    right.write_text("x = 2\n")
    assert faults_of_all(names, checked) == ["right.py was checked", "wrong.py was checked"]
    assert faults_of_all(names, tmp_path / "other") == ["right.py was checked", "wrong.py was checked"]

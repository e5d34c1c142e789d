"""Outcomes with the lines of cells: every place is one of a cell, and texts name cells."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from fuselight.shared.report import Branch, Fact, FileFacts, Frame, Location, TargetRef, Tier, TracedFacts
from fuselight_server.base.finding import Finding, Related, Severity, Span
from fuselight_server.base.remedies import advice
from fuselight_server.cli.formats.annotations import as_github, as_sarif
from fuselight_server.cli.formats.json import as_data
from fuselight_server.commands.changed_lines import ChangedLines
from fuselight_server.commands.notebook_cells import check_in_cells
from fuselight_server.commands.notebook_lines import cell_of, line_in_file
from fuselight_server.commands.outcome import CheckOutcome
from tests.support.reports import report

CELLS = ["import torch\n%cd ..", "def f(x):\n    print(x)\n    return x", "# fuselight: f(f32[2])"]


@pytest.fixture
def notebook(tmp_path: Path) -> str:
    cells = [{"cell_type": "code", "source": text.splitlines(keepends=True)} for text in CELLS]
    path = tmp_path / "a b.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}, indent=1))
    return str(path)


def outcome_of(path: str) -> CheckOutcome:
    first = Finding(
        "GB0059",
        Severity.WARNING,
        "graph break after line 5",
        "See line 6, lines 5-7 and `line 6`; model.py on line 6",
        Span(path, 6, 4, 6, 12),
        Tier.CAPTURE,
        "f",
        "directive on line 9: f(f32[2])",
        "2.13.0",
        related=(Related(Span(path, 9), "called on line 9"),),
    )
    facts = FileFacts((Fact(6, 4, 6, 9, ()),), (Branch(6, 1, 7, 2, 1, 0),), ((6, 7),), ((7, 0, 7, 1),))
    ran = report(
        target=TargetRef(path, "f", 5, "function"),
        roots=(str(Path(path).parent),),
        facts=TracedFacts(files={path: facts}),
    )
    return CheckOutcome(findings=[first], reports=[ran])


def test_places_and_texts_are_those_of_cells(notebook: str) -> None:
    shown = check_in_cells(outcome_of(notebook))
    (finding,) = shown.findings
    assert finding.span == Span(f"{notebook}:cell 2", 2, 4, 2, 12)
    assert finding.title == "graph break after cell 2, line 1"
    assert finding.message == "See cell 2, line 2, cell 2, lines 1-3 and `line 6`; model.py on line 6"
    assert finding.inputs == "directive on cell 3, line 1: f(f32[2])"
    assert finding.related == (Related(Span(f"{notebook}:cell 3", 1), "called on cell 3, line 1"),)
    assert shown.reports[0].target == TargetRef(f"{notebook}:cell 2", "f", 1, "function")
    assert shown.sources.line(f"{notebook}:cell 1", 2) == "%cd .."  # as the notebook has it
    assert shown.reports[0].facts.files == {
        f"{notebook}:cell 2": FileFacts(
            (Fact(2, 4, 2, 9, ()),), (Branch(2, 1, 3, 2, 1, 0),), ((2, 3),), ((3, 0, 3, 1),)
        )
    }


def test_an_outcome_without_notebooks_stays() -> None:
    outcome = CheckOutcome(reports=[report()])
    assert check_in_cells(outcome) is outcome


def test_what_is_known_of_a_target_is_found_by_its_cell(notebook: str) -> None:
    outcome = outcome_of(notebook)
    outcome.unchanged[notebook, "f"] = moment = datetime(2026, 1, 2, tzinfo=timezone.utc)
    shown = check_in_cells(outcome)
    assert shown.unchanged_since(shown.reports[0]) == moment


def test_services_get_the_line_of_the_file_that_has_the_row(notebook: str) -> None:
    outcome = outcome_of(notebook)
    (line,) = [n for n, text in enumerate(Path(notebook).read_text().split("\n"), 1) if "print(x)" in text]
    command = as_github(outcome)
    assert f",line={line},endLine={line},title=" in command
    assert "::cell 2, line 2: See cell 2, line 2" in command
    (result,) = json.loads(as_sarif(outcome))["runs"][0]["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["region"] == {"startLine": line, "endLine": line}
    assert location["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20b.ipynb")
    assert result["message"]["text"].startswith("cell 2, line 2: graph break")


def test_the_fingerprint_stays_when_a_cell_is_added_above(notebook: str) -> None:
    before = json.loads(as_sarif(outcome_of(notebook)))["runs"][0]["results"][0]["partialFingerprints"]
    data = json.loads(Path(notebook).read_text())
    data["cells"].insert(0, {"cell_type": "code", "source": ["new = 1"]})
    Path(notebook).write_text(json.dumps(data))
    moved = outcome_of(notebook)
    moved.findings = [dataclasses.replace(moved.findings[0], span=Span(notebook, 8, 4, 8, 12))]
    assert json.loads(as_sarif(moved))["runs"][0]["results"][0]["partialFingerprints"] == before


def test_json_has_the_number_of_the_cell(notebook: str) -> None:
    data = as_data(check_in_cells(outcome_of(notebook)))
    (finding,) = data["findings"]
    assert (finding["path"], finding["cell"], finding["line"], finding["column"]) == (notebook, 2, 2, 5)
    assert (data["targets"][0]["path"], data["targets"][0]["cell"]) == (notebook, 2)


def test_changed_lines_of_a_notebook_are_those_of_its_file(notebook: str) -> None:
    (finding,) = outcome_of(notebook).findings
    line = line_in_file(f"{notebook}:cell 2", 2)[1]
    finding = dataclasses.replace(finding, related=())
    assert ChangedLines("main", {notebook: [range(line, line + 1)]}).has(finding)
    assert not ChangedLines("main", {notebook: [range(line + 1, line + 2)]}).has(finding)
    assert not ChangedLines("main", {notebook: [range(6, 7)]}).has(finding)


def test_paths_of_cells_are_distinct_from_files(tmp_path: Path) -> None:
    assert cell_of("/a/b.ipynb:cell 12") == ("/a/b.ipynb", 12)
    assert cell_of("/a/b.py:cell 12") == ("/a/b.py:cell 12", None)
    assert line_in_file("/a/b.py", 4) == ("/a/b.py", 4)
    assert line_in_file(str(tmp_path / "gone.ipynb:cell 3"), 4) == (str(tmp_path / "gone.ipynb"), 1)


def test_stacks_and_lines_of_frames_are_renamed(notebook: str) -> None:
    from fuselight.shared.report import Break  # noqa: PLC0415 - this test alone

    graph_break = Break(
        "0/0", ("GB0059",), ("x",), (Location(notebook, 6, 0, 7, 1),), frame_line=5, rest_from=7
    )
    outcome = outcome_of(notebook)
    outcome.reports = [dataclasses.replace(outcome.reports[0], breaks=(graph_break,))]
    (other,) = check_in_cells(outcome).reports[0].breaks
    assert other.stack == (Location(f"{notebook}:cell 2", 2, 0, 3, 1),)
    assert (other.frame_line, other.rest_from) == (1, 3)


def test_the_line_that_a_part_resumes_after_is_renamed(notebook: str) -> None:
    part = Frame("torch_dynamo_resume_in_f_at_6", Location(notebook, 5, 0, 7, 1), resumes_at=6)
    outcome = outcome_of(notebook)
    outcome.reports = [dataclasses.replace(outcome.reports[0], frames=(part,))]
    (other,) = check_in_cells(outcome).reports[0].frames
    assert (other.location.line, other.resumes_at) == (1, 2)


@pytest.mark.parametrize("code", ["FL401", "FL402", "FL403"])
def test_words_of_a_program_stay_and_those_about_its_directive_name_the_cell(
    notebook: str, code: str
) -> None:
    outcome = outcome_of(notebook)
    hint = "Correct this line, or the inputs in the directive on line 9."
    finding = dataclasses.replace(
        outcome.findings[0],
        code=code,
        title="KeyError: line 6",
        remedies=advice((hint,)),
        message=f"line 6: {hint}",
    )
    outcome.findings = [finding]
    (shown,) = check_in_cells(outcome).findings
    assert shown.title == "KeyError: line 6"
    assert shown.inputs == "directive on cell 3, line 1: f(f32[2])"
    assert shown.hints == ("Correct this line, or the inputs in the directive on cell 3, line 1.",)
    assert shown.message == f"line 6: {shown.hints[0]}"

"""A baseline knows findings by content."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.cli.baseline import new_findings, write
from fuselight_server.cli.options import CommandError
from fuselight_server.cli.sources import SourceFiles
from fuselight_server.finding import Finding
from fuselight_server.findings import findings
from tests.support.recompilations import again, failed
from tests.support.reports import FILE, at, broken, report

SOURCES = SourceFiles({FILE: ["def f(x):", "    return x.item()"]})


def one(line: int = 2, **changes: object) -> Finding:
    (found,) = findings(report(breaks=(broken(at(line, (4, 10))),)))
    return dataclasses.replace(found, **changes)  # type: ignore[arg-type] # a test's own keywords


def recompiled(difference: str) -> Finding:
    (found,) = findings(report(recompiles=(again(failed(difference)),)))
    return found


def test_baseline_findings_are_not_new(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write(path, [one()], SOURCES)
    assert new_findings(path, [one()], SOURCES) == []


def test_a_line_that_moved_is_the_same_finding(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write(path, [one()], SOURCES)
    moved = SourceFiles({FILE: ["import torch", "", "def f(x):", "        return  x.item()"]})
    assert new_findings(path, [one(line=4)], moved) == []


def test_other_values_on_the_line_are_the_same_finding(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write(path, [recompiled("x.size(0) was 4, now 7")], SOURCES)
    assert new_findings(path, [recompiled("x.size(0) was 4, now 9")], SOURCES) == []
    assert len(new_findings(path, [recompiled("x.size(1) was 4, now 7")], SOURCES)) == 1


@pytest.mark.parametrize("changes", [{"code": "GB0124"}, {"target": "other"}, {"title": "graph break: new"}])
def test_another_finding_on_the_line_is_new(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "baseline.json"
    write(path, [one()], SOURCES)
    assert len(new_findings(path, [one(**changes)], SOURCES)) == 1


def test_an_edited_line_and_one_more_of_the_same_are_new(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write(path, [one()], SOURCES)
    edited = SourceFiles({FILE: ["def f(x):", "    return x.item() + 1"]})
    assert len(new_findings(path, [one()], edited)) == 1
    assert len(new_findings(path, [one(), one()], SOURCES)) == 1


@pytest.mark.parametrize(
    "text", [None, "{", "[]", '{"schema": 1, "findings": {}}', '{"schema": 1, "findings": 3}']
)
def test_a_baseline_that_cannot_be_used_says_what_to_do(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "baseline.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CommandError, match="baseline"):
        new_findings(path, [], SOURCES)

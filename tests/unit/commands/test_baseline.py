"""A baseline knows findings by content."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.report import Environment, TargetRef
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.finding import Finding
from fuselight_server.commands.baseline import Baseline, new_findings, read, write
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.commands.trace_conditions import TraceConditions, conditions_of
from fuselight_server.explain.findings import findings, fold
from tests.support.recompilations import again, failed
from tests.support.reports import FILE, LIBRARY, at, broken, report

SOURCES = SourceFiles({FILE: ["def f(x):", "    return x.item()"]})


def finding_at(line: int = 2, **changes: object) -> Finding:
    (finding,) = findings(report(breaks=(broken(at(line, (4, 10))),)))
    return dataclasses.replace(finding, **changes)  # type: ignore[arg-type] # a test's own keywords


def recompiled(difference: str) -> Finding:
    (finding,) = findings(report(recompiles=(again(failed(difference)),)))
    return finding


def test_baseline_findings_are_not_new(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write(path, [finding_at()], SOURCES)
    assert new_findings(path, [finding_at()], SOURCES) == []


def test_a_line_that_moved_is_the_same_finding(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write(path, [finding_at()], SOURCES)
    moved = SourceFiles({FILE: ["import torch", "", "def f(x):", "        return  x.item()"]})
    assert new_findings(path, [finding_at(line=4)], moved) == []


def test_other_values_on_the_line_are_the_same_finding(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write(path, [recompiled("x.size(0) was 4, now 7")], SOURCES)
    assert new_findings(path, [recompiled("x.size(0) was 4, now 9")], SOURCES) == []
    assert len(new_findings(path, [recompiled("x.size(1) was 4, now 7")], SOURCES)) == 1


@pytest.mark.parametrize("changes", [{"code": "GB0124"}, {"target": "other"}, {"title": "graph break: new"}])
def test_another_finding_on_the_line_is_new(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "baseline.json"
    write(path, [finding_at()], SOURCES)
    assert len(new_findings(path, [finding_at(**changes)], SOURCES)) == 1


def cause(*lines: int) -> list[Finding]:
    """A break in a library, which `lines` lead to."""
    inside = at(400, path=LIBRARY, function="attend")
    return fold(findings(report(breaks=tuple(broken(at(line), inside) for line in lines))))


CALLS = SourceFiles(
    {FILE: ["def f(x):", "    x = attend(x, 1)", "    x = attend(x, 2)", "    return attend(x, 3)"]}
)


@pytest.mark.parametrize("lines", [(2, 3), (2, 3, 4), (3,), (3, 4)])
def test_a_cause_is_known_while_one_of_its_places_is(tmp_path: Path, lines: tuple[int, ...]) -> None:
    path = tmp_path / "baseline.json"
    write(path, cause(2, 3), CALLS)
    assert new_findings(path, cause(*lines), CALLS) == []
    assert len(new_findings(path, cause(4), CALLS)) == 1


def test_a_baseline_from_before_causes_were_folded_knows_them(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    (full,) = cause(2, 3)
    write(path, [dataclasses.replace(full, also_at=()), *full.also_at], CALLS)
    assert new_findings(path, cause(2, 3), CALLS) == []


def test_an_edited_line_and_one_more_of_the_same_are_new(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write(path, [finding_at()], SOURCES)
    edited = SourceFiles({FILE: ["def f(x):", "    return x.item() + 1"]})
    assert len(new_findings(path, [finding_at()], edited)) == 1
    assert len(new_findings(path, [finding_at(), finding_at()], SOURCES)) == 1


@pytest.mark.parametrize(
    "text", [None, "{", "[]", '{"schema": 1, "findings": {}}', '{"schema": 1, "findings": 3}']
)
def test_a_baseline_that_cannot_be_used_says_what_to_do(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "baseline.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CommandError, match="baseline"):
        new_findings(path, [], SOURCES)


def test_a_baseline_knows_the_conditions_of_each_target(tmp_path: Path) -> None:
    of_target = {"Net": {"nested_graph_breaks": "True"}, "loss": {}}
    reports = [
        report(
            target=TargetRef(str(tmp_path / "net.py"), name, 1, "function"),
            environment=Environment({}, config),
        )
        for name, config in of_target.items()
    ]
    write(tmp_path / "baseline.json", [], SOURCES, reports)
    assert read(tmp_path / "baseline.json").conditions == {
        f"net.py::{name}": TraceConditions(conditions_of(reports[0]).torch, config)
        for name, config in of_target.items()
    }


@pytest.mark.parametrize(
    ("more", "is_whole"),
    [("", True), (', "conditions": 2.14', False), (', "conditions": {"a": {"torch": 1}}', False)],
)
def test_a_baseline_without_conditions_that_can_be_read_is_a_baseline(
    tmp_path: Path, more: str, *, is_whole: bool
) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(f'{{"schema": 3, "findings": {{"a": 1}}{more}}}')
    known = read(path)
    assert known == Baseline(Counter({"a": 1}), has_conditions=is_whole)
    assert known.note(path).startswith(f"{path} is damaged: ") is not is_whole

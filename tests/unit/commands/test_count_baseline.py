"""A baseline of numbers: what is worse, what is new, and what the file holds."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.report import Environment
from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.compile_checks import CompileCheck
from fuselight_server.commands.count_baseline import CountChange, CountEntry, compare, entry_of, read, write
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.commands.trace_conditions import TraceConditions
from tests.support.reports import FILE, ROOT, at, broken, report

FOLDER = Path(ROOT)
SOURCES = SourceFiles({FILE: ["def f(x):", "    y = x.item()", "    print(y)", "    return y"]})


def check_with(*lines: int) -> CompileCheck:
    """A check whose calls break on these lines; no graph."""
    return CompileCheck(report(breaks=tuple(broken(at(line, (4, 10))) for line in lines)), SOURCES)


def test_a_first_check_has_no_entry() -> None:
    assert compare(check_with(2), None, FOLDER).change is CountChange.NEW


def test_the_same_numbers_are_the_same() -> None:
    known = entry_of(check_with(2), FOLDER)
    assert known.breaks == 1
    assert compare(check_with(2), known, FOLDER).change is CountChange.SAME


def test_fewer_breaks_are_better() -> None:
    known = entry_of(check_with(2, 3), FOLDER)
    assert compare(check_with(2), known, FOLDER).change is CountChange.BETTER


def test_more_breaks_are_worse_and_the_new_finding_is_named() -> None:
    comparison = compare(check_with(2, 3), entry_of(check_with(2), FOLDER), FOLDER)
    assert (comparison.change, comparison.worse) == (CountChange.WORSE, ("breaks",))
    assert [finding.span.line for finding in comparison.new_findings] == [3]


def test_a_break_elsewhere_is_not_worse() -> None:
    assert compare(check_with(3), entry_of(check_with(2), FOLDER), FOLDER).change is CountChange.SAME


@pytest.mark.parametrize(
    ("known", "worse"),
    [
        (CountEntry(graphs=2, breaks=1, recompiles=0), ("graphs",)),  # nothing is compiled any more
        (CountEntry(graphs=0, breaks=0, recompiles=0), ("breaks",)),
        (CountEntry(graphs=3, breaks=0, recompiles=4), ("graphs", "breaks")),
    ],
)
def test_one_worse_number_is_worse_whatever_the_others(known: CountEntry, worse: tuple[str, ...]) -> None:
    assert compare(check_with(2), known, FOLDER).worse == worse


def test_entries_are_replaced_and_removed_and_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write(path, {"a": CountEntry(1, 0, 0), "b": CountEntry(2, 1, 0)})
    write(path, {"b": CountEntry(1, 0, 0)}, removed={"a"})
    assert read(path) == {"b": CountEntry(1, 0, 0)}
    assert json.loads(path.read_text())["schema"] == 1


def test_a_missing_file_has_no_entries(tmp_path: Path) -> None:
    assert read(tmp_path / "baseline.json") == {}


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"schema": 2, "checks": {}}', '{"schema": 1, "checks": {"a": 1}}']
)
def test_a_damaged_file_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(CommandError, match=r"baseline.*Re(store|move) it|Remove it"):
        write(path, {"a": CountEntry(1, 0, 0)})
    assert path.read_text() == text


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    names = [f"test_{number}" for number in range(12)]
    threads = [threading.Thread(target=write, args=(path, {name: CountEntry(1, 0, 0)})) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read(path)) == sorted(names)
    assert [entry.name for entry in tmp_path.iterdir()] == ["baseline.json"]


def test_an_entry_of_an_earlier_version_says_nothing_of_settings(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(
        '{"schema": 1, "checks": {"a": {"graphs": 1, "breaks": 0, "recompiles": 0, "torch": "2.13"}}}'
    )
    assert read(path)["a"].conditions == TraceConditions("2.13", None)


def test_an_entry_has_the_settings_of_its_check() -> None:
    changed = replace(report(), environment=Environment({}, {"nested_graph_breaks": "True"}))
    assert entry_of(CompileCheck(changed, SOURCES), FOLDER).settings == {"nested_graph_breaks": "True"}
